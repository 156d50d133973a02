"""This room decides JoinGroup (conformance 14 to 46)."""

from coordinator.core import quarantine
from coordinator.core.classic import instances, rebalancing, voting
from coordinator.core.classic.draft import ClassicDraft
from coordinator.core.events import Join, JoinAnswer
from coordinator.core.memory import Parked
from groups.core import records
from groups.core.classic import CLASSIC, ClassicMember, bytes_of, states_the_same
from groups.core.phases import Phase
from muster.kernel.error_codes import ErrorCode

NEW_MEMBER_MS = 300_000
"""How long the first Join of a member waits: without an id it cannot show that it lives."""

GROUP_IS_FULL = "the group is full"

_NONE = ErrorCode.NONE
_EMPTY, _PREPARING = Phase.EMPTY, Phase.PREPARING_REBALANCE
"""Looked up once: thousands of Joins pass here, and a member of an enum costs as much as a call."""


def join(draft: ClassicDraft, event: Join) -> None:
    """Somebody asks to be a member of the next generation."""
    settings = draft.settings
    least, most = settings.group_min_session_timeout_ms, settings.group_max_session_timeout_ms
    if not least <= event.session_timeout_ms <= most:
        _refuse(draft, event, ErrorCode.INVALID_SESSION_TIMEOUT)
    elif event.member_id and draft.rows.protocol != CLASSIC:
        _refuse(draft, event, ErrorCode.UNKNOWN_MEMBER_ID)
    elif quarantine.keeps_out(draft, event.group_instance_id or event.client_id):
        # Kafka's clients come again after a pause, and do not give up.
        _refuse(draft, event, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    elif not (_has_room(draft, event) and _fits(draft, event)):
        _turn_away(draft, event)
    elif not _speaks_with_all(draft, event):
        _refuse(draft, event, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    elif event.member_id:
        _known_joins(draft, event)
    else:
        _stranger_joins(draft, event)


def _refuse(draft: ClassicDraft, event: Join, error: ErrorCode, member_id: str | None = None) -> None:
    stated = event.member_id if member_id is None else member_id
    draft.say(event.connection, JoinAnswer(event.waiter, error, stated))


def _place_of(draft: ClassicDraft, event: Join) -> str:
    """The member that this is, or whose instance comes back: it has its place already."""
    return event.member_id or draft.instances.get(event.group_instance_id or "", "")


def _has_room(draft: ClassicDraft, event: Join) -> bool:
    """In a rebalance the first to join have a place, otherwise the members have (conformance 34, 35).

    As many as may be members may wait for their first Join (conformance 37).
    """
    most, member_id = draft.settings.group_max_size, _place_of(draft, event)
    is_given_one = event.must_know_id and not event.member_id and event.group_instance_id is None
    if is_given_one and len(draft.pending) >= most:
        return False
    phase = draft.phase
    if phase is _EMPTY:
        return True
    if phase is _PREPARING:
        return member_id in draft.joins or len(draft.joins) < most
    members = draft.rows.classic.members
    return member_id in members or len(members) < most


def _fits(draft: ClassicDraft, event: Join) -> bool:
    """Whether what all state of themselves stays within bounds; who states no more than before may stay."""
    member = draft.rows.classic.members.get(_place_of(draft, event))
    if member is not None and event.protocols == member.protocols:
        return True
    more = bytes_of(event.protocols) - (0 if member is None else member.metadata_bytes)
    return more <= 0 or draft.metadata_bytes + more <= draft.settings.group_max_metadata_bytes


def _turn_away(draft: ClassicDraft, event: Join) -> None:
    if event.member_id in draft.rows.classic.members:
        draft.remove(event.member_id, GROUP_IS_FULL)
        if draft.phase is not _PREPARING:
            # One that states too much may have had its share: the others must take it over.
            rebalancing.prepare(draft, f"{event.member_id}: {GROUP_IS_FULL}")
    elif event.member_id in draft.pending:
        _drop_pending(draft, event.member_id)
    _refuse(draft, event, ErrorCode.GROUP_MAX_SIZE_REACHED, "")


def _drop_pending(draft: ClassicDraft, member_id: str) -> None:
    del draft.pending[member_id]
    del draft.sessions[member_id]


def _speaks_with_all(draft: ClassicDraft, event: Join) -> bool:
    if not event.protocol_type or not event.protocols:
        return False
    classic = draft.rows.classic
    if not classic.members:
        return True
    if event.protocol_type != classic.protocol_type:
        return False
    return voting.known_by_all(event.protocols, draft.supported, len(classic.members))


def _stranger_joins(draft: ClassicDraft, event: Join) -> None:
    draft.enter_world()
    fresh = event.fresh_member_id
    if event.group_instance_id is not None:
        holder = draft.instances.get(event.group_instance_id)
        if holder is not None:
            instances.come_back(draft, event, holder, _member(event, fresh, event.group_instance_id))
        else:
            _add(draft, event, fresh)
    elif event.must_know_id:
        draft.pending[fresh] = None
        draft.set_session(fresh, event.session_timeout_ms)
        _refuse(draft, event, ErrorCode.MEMBER_ID_REQUIRED, fresh)
    else:
        _add(draft, event, fresh)


def _known_joins(draft: ClassicDraft, event: Join) -> None:
    if event.member_id in draft.pending:
        if event.group_instance_id is not None:
            _refuse(draft, event, ErrorCode.UNKNOWN_SERVER_ERROR)
            return
        _drop_pending(draft, event.member_id)
        _add(draft, event, event.member_id)
        return
    members = draft.rows.classic.members
    fault = instances.fault_of(event.member_id, event.group_instance_id, members, draft.instances)
    if fault is not _NONE:
        _refuse(draft, event, fault)
    else:
        _joins_again(draft, event)


def _add(draft: ClassicDraft, event: Join, member_id: str) -> None:
    """A new member; its answer waits for the end of the join phase."""
    if not draft.rows.classic.members:
        draft.record(records.ProtocolChosen(event.protocol_type, None, member_id))
    draft.add(_member(event, member_id, event.group_instance_id))
    draft.set_session(member_id, NEW_MEMBER_MS, fresh=True)
    if draft.phase is Phase.PREPARING_REBALANCE:
        rebalancing.member_joins_late(draft)
    else:
        rebalancing.prepare(draft, f"{member_id} joined")
    rebalancing.park(draft, member_id, event)


def _joins_again(draft: ClassicDraft, event: Join) -> None:
    """A member: nothing is new to a follower that states what it stated; a leader wants to assign again."""
    member, phase = draft.member(event.member_id), draft.phase
    leads = draft.rows.classic.leader == event.member_id
    changed = event.protocols != member.protocols
    if phase is not _PREPARING and not changed and not (leads and phase is Phase.STABLE):
        draft.restart([event.member_id])
        parked = Parked(event.connection, event.waiter)
        draft.say(event.connection, rebalancing.welcome(draft, event.member_id, parked, listing=leads))
        return
    stated = ""
    if not states_the_same(event, member):
        # Whose instance it is does not change while it is a member.
        stated = draft.change(_member(event, event.member_id, member.group_instance_id), event.reason)
    if phase is not _PREPARING:
        what = f"joined with {stated}" if changed else "leads, and joined again"
        why = f": {event.reason}" if event.reason else ""
        rebalancing.prepare(draft, f"{event.member_id} {what}{why}")
    rebalancing.park(draft, event.member_id, event)


def _member(event: Join, member_id: str, group_instance_id: str | None) -> ClassicMember:
    return ClassicMember(
        member_id=member_id,
        session_timeout_ms=event.session_timeout_ms,
        rebalance_timeout_ms=event.rebalance_timeout_ms,
        protocols=event.protocols,
        group_instance_id=group_instance_id,
        client_id=event.client_id,
        client_host=event.client_host,
    )
