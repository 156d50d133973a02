"""This room says for whom an open rebalance waits: members only, whatever holds up a rebalance otherwise."""

from collections.abc import Collection
from typing import NamedTuple

from coordinator.core.memory import GroupState
from groups.core.phases import Phase
from muster.kernel.instants import Instant

NAMED_MAX = 20
"""Members that are named; the others are counted."""


class Waiting(NamedTuple):
    """`names` are the first of the `missing`, by id; `arrived` have done it. `phase`: what they are to do.

    In PreparingRebalance they join (classic), or stop what they give up (native); in CompletingRebalance
    they ask for their assignment (classic). Nobody is missing in the initial delay of a group that was empty,
    and where an id was given and has not joined yet. `ends_at`: when it goes on, or fails, without them.
    """

    phase: Phase
    names: tuple[str, ...]
    missing: int
    arrived: int
    ends_at: Instant | None


def waits(state: GroupState) -> Waiting | None:
    """For whom the group waits; None if no rebalance is open that waits for anybody."""
    rows = state.rows
    if rows.classic is None:
        attempt = state.memory.attempt
        if attempt is None:
            return None
        watchers = [state.memory.sessions[name].stop_due_at for name in attempt.waiting]
        ends_at = min((due for due in watchers if due is not None), default=None)
        return _waiting(Phase.PREPARING_REBALANCE, attempt.waiting, len(attempt.losers), ends_at)
    members, classic = rows.classic.members, state.classic
    if rows.phase is Phase.PREPARING_REBALANCE and classic.join_phase is not None:
        missing = members.keys() - classic.joins.keys()
        return _waiting(rows.phase, missing, len(members), classic.join_phase.ends_at)
    if rows.phase is Phase.COMPLETING_REBALANCE:
        return _waiting(rows.phase, classic.owing.keys() & members.keys(), len(members), classic.sync_ends_at)
    return None


def _waiting(phase: Phase, missing: Collection[str], of: int, ends_at: Instant | None) -> Waiting:
    return Waiting(phase, tuple(sorted(missing)[:NAMED_MAX]), len(missing), of - len(missing), ends_at)
