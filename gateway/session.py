"""This room is one Kafka connection as groups know it: who speaks there, and a seat in each of its groups."""

from typing import Final

from coordinator.callers import Callers
from coordinator.service import ShardService
from gateway.habits import Beat, CommitHabit, JoinHabit, SyncHabit
from gateway.seats import Seat
from kafkaserver.callers import ANYBODY, KafkaCaller
from kafkaserver.clients import Client
from kafkaserver.replies import Repeated
from muster.kafkawire.api_table import ApiKey

SEATS_MAX = 1_000
"""Groups of one connection; an administrator's tool speaks of many and waits in none."""

CLIENT_HOST_LENGTH = 64

_COMMIT: Final = int(ApiKey.OFFSET_COMMIT)
_JOIN: Final = int(ApiKey.JOIN_GROUP)
_SYNC: Final = int(ApiKey.SYNC_GROUP)


class KafkaSession:
    """One connection. Its end removes no member: only a session's time, or LeaveGroup, does."""

    __slots__ = (
        "_caller",
        "_callers",
        "_seats",
        "client",
        "client_host",
        "commit",
        "commit_bytes",
        "join",
        "known",
        "must_catch_up",
        "sync",
        "was_told_less",
    )

    def __init__(self, peer: str, callers: Callers) -> None:
        self._caller = ANYBODY
        host = peer.rpartition(":")[0]
        self.client_host = f"/{host}"[:CLIENT_HOST_LENGTH]
        """As Kafka's tools show it (conformance 140); a port would change with each connection."""
        self._callers = callers
        self.client = Client()
        self.known: Beat | None = None
        """The last heartbeat, if it is short: mostly the next one is the same."""
        self.join: JoinHabit | None = None
        self.sync: SyncHabit | None = None
        """The last ones of a member that were let in."""
        self.commit: CommitHabit | None = None
        """A commit that was said twice, but for its offsets."""
        self.commit_bytes = 0
        """How long the last commit was that was read."""
        self.must_catch_up = False
        """A group's leader was told of its members here: what it asks next it assigns by."""
        self.was_told_less = False
        """And it was told what this node knew, while nobody could say whether that was all."""
        self._seats: dict[str, Seat] = {}

    def admitted(self, identity: object) -> None:
        """The client has proved who it is; where the door does not ask, anybody may everything."""
        assert isinstance(identity, KafkaCaller)
        self._caller = identity
        self.known = self.join = self.sync = self.commit = None

    def leads(self) -> None:
        """A group's leader is told of its members here."""
        self.must_catch_up, self.was_told_less = True, False

    def repeated(self, received: bytes) -> Repeated | None:
        """What this whole request, with its length, repeats; None: it is to be read."""
        key = received[5]
        if key == _COMMIT:
            commit = self.commit
            return None if commit is None else commit.said_in(received)
        habit = self.sync if key == _SYNC else self.join if key == _JOIN else None
        return habit if habit is not None and habit.is_said_in(received) else None

    def may(self, operation: str, group_id: str) -> bool:
        """Whether who speaks here may do this with the group; a group's members may look at it, too."""
        return self._caller.may_with_group(operation, group_id)

    def seat(self, group_id: str, service: ShardService) -> Seat:
        """The place of this connection in a group."""
        seat = self._seats.get(group_id)
        if seat is None:
            if len(self._seats) >= SEATS_MAX:
                self._clear()
            seat = self._seats[group_id] = Seat(service)
            self._callers.add(seat, service.shard)
        return seat

    def ended(self) -> None:
        """The connection is gone."""
        seats, self._seats = self._seats, {}
        for seat in seats.values():
            seat.desert()
            self._callers.remove(seat, seat.shard)

    def _clear(self) -> None:
        """Leave the groups in which nothing is waited for."""
        for group_id, seat in list(self._seats.items()):
            if not seat.is_waiting:
                del self._seats[group_id]
                self._callers.remove(seat, seat.shard)
