"""This room decides SyncGroup: the leader's brings what the others wait for (conformance 51 to 63)."""

from coordinator.core.classic import instances, rebalancing
from coordinator.core.classic.draft import ClassicDraft
from coordinator.core.events import Sync, SyncAnswer, Waiter
from coordinator.core.memory import Parked
from groups.core import records
from groups.core.classic import ClassicMember, told_generation
from groups.core.layered import Layered
from groups.core.phases import Phase
from muster.kernel.error_codes import ErrorCode

DID_NOT_SYNC = "did not ask for its assignment in time"

_NONE = ErrorCode.NONE
_PREPARING, _STABLE = Phase.PREPARING_REBALANCE, Phase.STABLE
"""Looked up once, as in `joining`."""


def sync(draft: ClassicDraft, event: Sync) -> None:
    """A member asks for its assignment."""
    error = _why_refused(draft, event)
    if error is not _NONE:
        draft.say(event.connection, SyncAnswer(event.waiter, error))
        return
    member_id = event.member_id
    draft.owing.pop(member_id, None)
    if draft.rows.phase is _STABLE:
        _hand_to(draft, member_id, event)
        return
    older = draft.syncs.get(member_id)
    if older is not None:
        # As with a Join that is replaced, its connection answers in order.
        draft.say(older.connection, SyncAnswer(older.waiter, ErrorCode.REBALANCE_IN_PROGRESS))
    draft.syncs[member_id] = Parked(event.connection, event.waiter)
    if draft.rows.classic.leader == member_id:
        _assign(draft, event)


def _why_refused(draft: ClassicDraft, event: Sync) -> ErrorCode:
    classic = draft.rows.classic
    fault = instances.fault_of(event.member_id, event.group_instance_id, classic.members, draft.instances)
    if fault is not _NONE:
        return fault
    if event.generation != told_generation(draft.rows.generation):
        return ErrorCode.ILLEGAL_GENERATION
    if event.protocol_type is not None and event.protocol_type != classic.protocol_type:
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if event.protocol_name is not None and event.protocol_name != classic.protocol_name:
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if draft.rows.phase is _PREPARING:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return _NONE


def _assign(draft: ClassicDraft, event: Sync) -> None:
    members = draft.rows.classic.members
    given = {name: given for name, given in event.assignments.items() if given and name in members}
    draft.record(records.ClassicAssigned(given))
    if draft.rows.error:
        draft.record(records.ErrorShown(""))
    draft.enter(Phase.STABLE)
    _hand_out(draft)


def _hand_to(draft: ClassicDraft, member_id: str, event: Sync) -> None:
    """A member comes when the leader has assigned: nobody waits any more, so it is told alone.

    Thousands come so in each rebalance of a large group.
    """
    member = draft.member(member_id)
    draft.say(event.connection, _share(draft, member, event.waiter))
    draft.set_session(member_id, member.session_timeout_ms)
    _end_if_all_asked(draft)


def _hand_out(draft: ClassicDraft) -> None:
    """Everybody who waits gets its share."""
    members = draft.rows.classic.members
    for member_id, parked in draft.syncs.items():
        draft.say(parked.connection, _share(draft, members[member_id], parked.waiter))
    draft.restart(draft.syncs)
    draft.syncs = Layered({})
    _end_if_all_asked(draft)


def _share(draft: ClassicDraft, member: ClassicMember, waiter: Waiter) -> SyncAnswer:
    classic = draft.rows.classic
    return SyncAnswer(waiter, _NONE, classic.protocol_type, classic.protocol_name, member.assignment)


def _end_if_all_asked(draft: ClassicDraft) -> None:
    if not draft.owing:
        draft.sync_ends_at = None


def look_for_debtors(draft: ClassicDraft) -> None:
    """The sync timer: who has not asked for its assignment is removed, and the rest begin anew."""
    if draft.sync_ends_at is None or draft.sync_ends_at > draft.now:
        return
    draft.sync_ends_at = None
    debtors = list(draft.owing)
    for member_id in debtors:
        draft.remove(member_id, DID_NOT_SYNC)
    if debtors:
        rebalancing.prepare(draft, f"{debtors[0]} {DID_NOT_SYNC}")
