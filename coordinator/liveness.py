"""This room hears that members live, at once and beside the lane, whose queue makes nobody late.

What is heard changes memory only, so nothing must be written for it. While a turn of the group is being
written its state is not to be touched: what is heard meanwhile counts from when it came, right after it.
"""

from coordinator.callers import Orders
from coordinator.core.classic.liveness import heartbeat
from coordinator.core.events import ConnectionId, Heard
from coordinator.core.memory import GroupState
from coordinator.subject import Groups
from groups.core.state import NATIVE
from muster.kernel.error_codes import ErrorCode
from muster.kernel.instants import Instant
from runtime.ports import Lane

_RESTARTS_THE_SESSION = (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS)
"""Whoever hears this is a member (conformance 66 to 68)."""


def beaten(
    state: GroupState, now: Instant, member_id: str, instance_id: str | None, generation: int
) -> ErrorCode:
    """A Kafka client's Heartbeat, answered at once, also while a turn of its group is being written."""
    error = heartbeat(state, member_id, instance_id, generation)
    if error in _RESTARTS_THE_SESSION:
        state.classic.heard_at[member_id] = now
    return error


class Liveness:
    """Of the members of one shard: judges ping answers from the cache."""

    def __init__(self, groups: Groups, orders: Orders) -> None:
        self._groups = groups
        self._orders = orders
        self._meanwhile: dict[str, dict[ConnectionId, tuple[Heard, Instant]]] = {}
        groups.on_turn_over(self._turn_over)

    def heard(self, lane: Lane, key: str, event: Heard) -> bool:
        """A sign of life in group `key`. False: a turn must hear it, to load the group or after a thaw, or to
        tell somebody that the group's members are others.
        """
        state, now = self._groups.states.get(key), lane.answering_now()
        if now is None or state is None or state.rows.protocol != NATIVE:
            return False
        if self._groups.in_turn(key):
            # Of one caller the last counts: an older one answers an older ping.
            self._meanwhile.setdefault(key, {})[event.connection] = (event, now)
        else:
            self._judge(key, event, now)
        return True

    def forget(self) -> None:
        """The shard was given up."""
        self._meanwhile.clear()

    def _turn_over(self, key: str) -> None:
        for event, at in self._meanwhile.pop(key, {}).values():
            state = self._groups.states.get(key)
            if state is not None and state.rows.protocol == NATIVE:
                self._judge(key, event, at)

    def _judge(self, key: str, event: Heard, at: Instant) -> None:
        # Who has an answer in the queue of turns may fetch other than its rows for that reason alone.
        repair = not self._orders.waits_for_a_turn(event.connection)
        self._groups.hear_at_once(key, event, at, repair=repair)
