"""This room is one Kafka connection as groups know it: who speaks there, and a seat in each of its groups."""

from coordinator.callers import Callers
from gateway.seats import Seat

SEATS_MAX = 1_000
"""Groups of one connection; an administrator's tool speaks of many and waits in none."""

CLIENT_HOST_LENGTH = 64


class KafkaSession:
    """One connection. Its end removes no member: only a session's time, or LeaveGroup, does."""

    __slots__ = ("_callers", "_seats", "client_host", "principal")

    def __init__(self, peer: str, callers: Callers) -> None:
        self.principal = ""
        """Who proved to be there; until this door asks, everybody is nobody in particular."""
        host = peer.rpartition(":")[0]
        self.client_host = f"/{host}"[:CLIENT_HOST_LENGTH]
        """As Kafka's tools show it (conformance 140); a port would change with each connection."""
        self._callers = callers
        self._seats: dict[str, Seat] = {}

    def may(self, operation: str, resource: str) -> bool:
        """Whether who speaks here may do this; everybody may on loopback, where this door listens only."""
        return True

    def seat(self, group_id: str, shard: int) -> Seat:
        """The place of this connection in a group."""
        seat = self._seats.get(group_id)
        if seat is None:
            if len(self._seats) >= SEATS_MAX:
                self._clear()
            seat = self._seats[group_id] = Seat(shard)
            self._callers.add(seat, shard)
        return seat

    def ended(self) -> None:
        """The connection is gone."""
        seats, self._seats = self._seats, {}
        for seat in seats.values():
            self._callers.remove(seat, seat.shard)

    def _clear(self) -> None:
        """Leave the groups in which nothing is waited for."""
        for group_id, seat in list(self._seats.items()):
            if not seat.is_waiting:
                del self._seats[group_id]
                self._callers.remove(seat, seat.shard)
