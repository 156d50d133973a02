"""This room takes members out: who leaves, and whose session ends (conformance 69 to 77, 99 to 102)."""

from coordinator.core.classic import instances, rebalancing
from coordinator.core.classic.draft import ClassicDraft
from coordinator.core.events import Departure, Leave, LeaveAnswer, Leaver
from groups.core import records
from groups.core.phases import Phase
from muster.kernel.error_codes import ErrorCode
from muster.kernel.instants import Instant, after

SESSION_OVER = "session over"

LOOKED_AFTER_MAX = 500
"""Sessions in one turn; what is left is due at once again."""


def leave(draft: ClassicDraft, event: Leave) -> None:
    """One member leaves, or an operator takes several out; one rebalance for all of them."""
    members = len(draft.rows.classic.members)
    departures = tuple(
        Departure(one.member_id, one.group_instance_id, _depart(draft, one)) for one in event.members
    )
    draft.say(event.connection, LeaveAnswer(event.waiter, members=departures))
    if len(draft.rows.classic.members) < members:
        go_on_without(draft, "a member left")


def _depart(draft: ClassicDraft, leaver: Leaver) -> ErrorCode:
    member_id, instance = leaver.member_id, leaver.group_instance_id
    if member_id in draft.pending:
        del draft.pending[member_id]
        del draft.sessions[member_id]
        return ErrorCode.NONE
    if not member_id and instance is not None:
        member_id = draft.instances.get(instance, "")
    fault = instances.fault_of(member_id, instance, draft.rows.classic.members, draft.instances)
    if fault is not ErrorCode.NONE:
        return fault
    if member_id == draft.rows.classic.leader and draft.phase is Phase.COMPLETING_REBALANCE and leaver.reason:
        # So does a leader tell that it cannot assign (001); people are to see why.
        draft.record(records.ErrorShown(f"the leader left before it assigned: {leaver.reason}"))
    draft.remove(member_id, f"left: {leaver.reason}" if leaver.reason else "left")
    return ErrorCode.NONE


def look_after_sessions(draft: ClassicDraft) -> None:
    """Do what is due by `now`; each session costs once, others nothing."""
    for _ in range(LOOKED_AFTER_MAX):
        member_id = draft.pop_due()
        if member_id is None:
            return
        _look_after(draft, member_id)


def _look_after(draft: ClassicDraft, member_id: str) -> None:
    session = draft.sessions[member_id]
    waits = member_id in draft.joins or member_id in draft.syncs
    if waits and not session.fresh:
        # It cannot be expected to say anything; its session starts anew when it is answered.
        draft.arm(member_id, None)
        return
    ends_at = session.ends_at
    heard_at = draft.before.classic.heard_at.get(member_id)
    if heard_at is not None and member_id not in draft.pending and not waits:
        ends_at = max(ends_at, after(heard_at, draft.member(member_id).session_timeout_ms))
    if ends_at > draft.now:
        draft.arm(member_id, Instant(ends_at))
        return
    draft.session_ended = True
    if member_id in draft.pending:
        del draft.pending[member_id]
        del draft.sessions[member_id]
    else:
        draft.remove(member_id, SESSION_OVER)
        go_on_without(draft, f"{member_id}: {SESSION_OVER}")


def go_on_without(draft: ClassicDraft, cause: str) -> None:
    """Those who stay have to share anew; in PreparingRebalance they are at it."""
    if draft.phase is not Phase.PREPARING_REBALANCE:
        rebalancing.prepare(draft, cause)
