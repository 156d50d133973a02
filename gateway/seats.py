"""This room keeps the answers that one Kafka connection waits for in one group, and words them.

To a shard a seat is a caller like a native member's connection, except that it is never hung up on: a shard
that moved answers what is parked, and the client looks for the coordinator again.
"""

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple

import structlog

from coordinator.core.events import ConnectionId, Waiter
from coordinator.service import ShardService
from gateway.translation.groups import MemberAnswer, answer_body
from kafkaserver.replies import Reply
from muster.kafkawire.api_table import RequestHeader, frame_reply
from muster.kernel.error_codes import ErrorCode

log = structlog.get_logger(__name__)

OURS: Final = 1_000
"""Numbers from here on are Muster's own; Kafka's clients know none of them."""

_numbers = itertools.count(1)


class _Waiting(NamedTuple):
    """One request that is decided, or parked: its version, its reply, and how to refuse it."""

    header: RequestHeader
    reply: Reply
    refused: Callable[[Waiter, ErrorCode], MemberAnswer]


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

    def wait(
        self, header: RequestHeader, reply: Reply, refused: Callable[[Waiter, ErrorCode], MemberAnswer]
    ) -> Waiter:
        """The name of an answer that `reply` waits for; `refused` makes one out of an error."""
        waiter = Waiter(next(_numbers))
        self._waiting[waiter] = _Waiting(header, reply, refused)
        reply.park(1, partial(self._forget, waiter))
        return waiter

    def _forget(self, waiter: Waiter) -> None:
        """The connection is gone; whatever is decided, nobody is to be told."""
        self._waiting.pop(waiter, None)

    def desert(self) -> None:
        """The connection is gone."""
        self._service.deserted(self)

    def say(self, message: Any) -> None:
        """Answer the waiter that the message names; one whose connection is gone is not there any more.

        An answer that cannot be worded ends its connection: nothing behind it could ever leave, and whoever
        hears of the same turn is to hear his answer.
        """
        waiting = self._waiting.pop(message.waiter, None)
        if waiting is None:
            return
        header = waiting.header
        try:
            key, body = answer_body(header.api_version, message)
            frame = frame_reply(key, header.api_version, header.correlation_id, body)
        except Exception:
            log.exception("an answer could not be worded", peer=waiting.reply.peer, seat=self.id)
            waiting.reply.hang_up("our own mistake")
        else:
            waiting.reply.send(frame)

    def hang_up(self, error: ErrorCode, text: str) -> None:
        """Answer everything that waits here with `error`; the connection stays."""
        known = error if error < OURS else ErrorCode.UNKNOWN_SERVER_ERROR
        for waiter, waiting in list(self._waiting.items()):
            self.say(waiting.refused(waiter, known))
