"""This room opens join phases and ends them: by the last Join or by time (conformance 20 to 31, 94 to 98)."""

from collections.abc import Iterable
from dataclasses import replace

from coordinator.core.classic import voting
from coordinator.core.classic.draft import ClassicDraft
from coordinator.core.events import Join, JoinAnswer, JoinedMember, SyncAnswer
from coordinator.core.memory import JoinPhase, Parked
from groups.core import records
from groups.core.classic import ClassicMember, told_generation
from groups.core.layered import Layered
from groups.core.phases import Phase
from muster.kernel.error_codes import ErrorCode
from muster.kernel.instants import after

DID_NOT_JOIN = "did not join the rebalance in time"


def prepare(draft: ClassicDraft, cause: str) -> None:
    """A rebalance begins: everybody has to join; in a group that was Empty, whoever will be there soon."""
    refuse_syncs(draft)
    draft.owing, draft.sync_ends_at = Layered({}), None
    longest = draft.longest_rebalance_ms()
    if draft.phase is Phase.EMPTY:
        delay = draft.settings.group_initial_rebalance_delay_ms
        draft.join_phase = JoinPhase(after(draft.now, delay), max(longest - delay, 0))
    else:
        draft.join_phase = JoinPhase(after(draft.now, longest))
    draft.enter(Phase.PREPARING_REBALANCE, cause)


def park(draft: ClassicDraft, member_id: str, event: Join) -> None:
    """The member has joined. A Join of it that still waits is answered: Kafka never does, and its connection,
    which answers in order, would be of no use for ever.
    """
    older = draft.joins.get(member_id)
    if older is not None:
        error = ErrorCode.REBALANCE_IN_PROGRESS
        draft.say(older.connection, JoinAnswer(older.waiter, error, member_id))
    draft.joins[member_id] = Parked(event.connection, event.waiter)


def refuse_syncs(draft: ClassicDraft) -> None:
    """Who waits for an assignment hears that it has to join again."""
    for parked in draft.syncs.values():
        draft.say(parked.connection, SyncAnswer(parked.waiter, ErrorCode.REBALANCE_IN_PROGRESS))
    draft.restart(draft.syncs)
    draft.syncs = Layered({})


def settle(draft: ClassicDraft) -> None:
    """End the join phase if everybody has joined, or its time is over."""
    while draft.join_phase is not None and draft.join_phase.ends_at <= draft.now:
        _time_is_over(draft, draft.join_phase)
    if draft.join_phase is None:
        return
    # Nothing but the end of a session shortens the initial delay.
    may_end = draft.join_phase.remaining_ms is None or draft.session_ended
    if may_end and not draft.pending and len(draft.joins) == len(draft.rows.classic.members):
        _complete(draft)


def _time_is_over(draft: ClassicDraft, phase: JoinPhase) -> None:
    if phase.remaining_ms and phase.added:
        delay = min(draft.settings.group_initial_rebalance_delay_ms, phase.remaining_ms)
        draft.join_phase = JoinPhase(after(draft.now, delay), phase.remaining_ms - delay)
        return
    members = draft.rows.classic.members
    for member_id, member in list(members.items()):
        if member_id not in draft.joins and member.group_instance_id is None:
            draft.remove(member_id, DID_NOT_JOIN)
    if draft.joins or not draft.rows.classic.members:
        _complete(draft)
    else:
        # Static members are waited for until their sessions end.
        draft.join_phase = JoinPhase(after(draft.now, max(draft.longest_rebalance_ms(), 1)))


def _complete(draft: ClassicDraft) -> None:
    """Who is a member now is the next generation; all who wait hear of it."""
    draft.join_phase = None
    classic = draft.rows.classic
    draft.record(records.GenerationOpened(draft.rows.generation + 1))
    if not classic.members:
        draft.record(records.ProtocolChosen(classic.protocol_type, None, None))
        draft.enter(Phase.EMPTY)
        return
    leader = voting.leader(classic.leader, classic.members, draft.joins)
    protocol = voting.choose(classic.members, draft.supported)
    draft.record(records.ProtocolChosen(classic.protocol_type, protocol, leader))
    draft.enter(Phase.COMPLETING_REBALANCE)
    for member_id, parked in draft.joins.items():
        draft.say(parked.connection, welcome(draft, member_id, parked, listing=member_id == leader))
    draft.joins = Layered({})
    draft.owing = Layered(dict.fromkeys(classic.members))
    draft.sync_ends_at = after(draft.now, draft.longest_rebalance_ms())
    draft.restart(classic.members)


def welcome(draft: ClassicDraft, member_id: str, parked: Parked, *, listing: bool) -> JoinAnswer:
    """What a member of the present generation hears; with `listing` also who they all are."""
    classic = draft.rows.classic
    assert classic.leader is not None
    return JoinAnswer(
        parked.waiter,
        member_id=member_id,
        generation=told_generation(draft.rows.generation),
        protocol_type=classic.protocol_type,
        protocol_name=classic.protocol_name,
        leader=classic.leader,
        members=_listed(classic.members.values(), classic.protocol_name) if listing else (),
    )


def member_joins_late(draft: ClassicDraft) -> None:
    """Somebody came during the initial delay, which may become longer for it."""
    if draft.join_phase is not None and draft.join_phase.remaining_ms is not None:
        draft.join_phase = replace(draft.join_phase, added=True)


def _listed(members: Iterable[ClassicMember], protocol: str | None) -> tuple[JoinedMember, ...]:
    return tuple(
        JoinedMember(one.member_id, one.group_instance_id, one.metadata(protocol)) for one in members
    )
