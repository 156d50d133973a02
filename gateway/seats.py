"""This room keeps the answers that one Kafka connection waits for in one group, and words them.

To a shard a seat is a caller like a native member's connection, except that it is never hung up on: a shard
that moved answers what is parked, and the client looks for the coordinator again.
"""

import itertools
from typing import Any, Final

import structlog

from coordinator.core.events import ConnectionId, JoinAnswer, Waiter
from coordinator.service import ShardService
from gateway.habits import Refused
from gateway.translation.groups import answer_frame
from kafkaserver.replies import Reply
from muster.kernel.error_codes import ErrorCode

log = structlog.get_logger(__name__)

OURS: Final = 1_000
"""Numbers from here on are Muster's own; Kafka's clients know none of them."""

_numbers = itertools.count(1)


_Waiting = tuple[int, int, Reply, Refused]
"""One request that is decided, or parked: version, correlation id, its reply, and how to refuse it."""


class Seat:
    """`coordinator.callers.Caller` of one connection in one group."""

    __slots__ = ("_service", "_waiting", "id", "shard")

    closing = False
    """What was said before the connection closed still counts, as with Kafka."""

    def __init__(self, service: ShardService) -> None:
        self.shard = service.shard
        self._service = service
        self.id = ConnectionId(f"kafka-{next(_numbers)}")
        """Names the seat; never repeats."""
        self._waiting: dict[Waiter, _Waiting] = {}

    @property
    def is_waiting(self) -> bool:
        """Whether anything was asked here and is not answered."""
        return bool(self._waiting)

    def wait(self, version: int, correlation_id: int, reply: Reply, refused: Refused) -> Waiter:
        """The name of an answer that `reply` waits for; `refused` makes one out of an error."""
        waiter = Waiter(next(_numbers))
        self._waiting[waiter] = (version, correlation_id, reply, refused)
        reply.park(1, _goes_with_its_seat)
        return waiter

    def desert(self) -> None:
        """The connection is gone; whatever is decided, nobody is to be told."""
        self._waiting.clear()
        self._service.deserted(self)

    def say(self, message: Any) -> None:
        """Answer the waiter that the message names; one whose connection is gone is not there any more.

        An answer that cannot be worded ends its connection: nothing behind it could ever leave, and whoever
        hears of the same turn is to hear his answer.
        """
        waiting = self._waiting.pop(message.waiter, None)
        if waiting is None:
            return
        version, correlation_id, reply, _ = waiting
        try:
            frame = answer_frame(version, correlation_id, message)
        except Exception:
            log.exception("an answer could not be worded", peer=reply.peer, seat=self.id)
            reply.hang_up("our own mistake")
        else:
            if type(message) is JoinAnswer and message.members:
                reply.session.leads()
            reply.send(frame)

    def hang_up(self, error: ErrorCode, text: str) -> None:
        """Answer everything that waits here with `error`; the connection stays."""
        known = error if error < OURS else ErrorCode.UNKNOWN_SERVER_ERROR
        for waiter, (_, _, _, refused) in list(self._waiting.items()):
            self.say(refused(waiter, known))


def _goes_with_its_seat() -> None:
    """A connection that ends gives up its seats (gateway.session), and all that is waited for there."""
