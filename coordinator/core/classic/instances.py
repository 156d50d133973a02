"""This room knows static members: whose an instance is, and how one comes back (conformance 78 to 89)."""

from collections.abc import Container, Mapping

from msgspec.structs import replace

from coordinator.core.classic import rebalancing, voting
from coordinator.core.classic.draft import ClassicDraft
from coordinator.core.events import Join
from coordinator.core.memory import Parked
from groups.core.classic import ClassicMember
from groups.core.phases import Phase
from muster.kernel.error_codes import ErrorCode

_NONE = ErrorCode.NONE
"""Looked up once: each heartbeat and each commit passes here."""


def fault_of(
    member_id: str, group_instance_id: str | None, members: Container[str], instances: Mapping[str, str]
) -> ErrorCode:
    """NONE if this id is a member's, and the instance, if one is stated, belongs to it."""
    if group_instance_id is not None:
        holder = instances.get(group_instance_id)
        if holder is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if holder != member_id:
            return ErrorCode.FENCED_INSTANCE_ID
    return _NONE if member_id in members else ErrorCode.UNKNOWN_MEMBER_ID


def come_back(draft: ClassicDraft, event: Join, old_member_id: str, member: ClassicMember) -> None:
    """A static member joined without its id: it has another one from now on."""
    before = draft.member(old_member_id)
    leader_before = draft.rows.classic.leader or ""
    draft.replace_instance(old_member_id, member)
    draft.set_session(member.member_id, member.session_timeout_ms)
    if draft.phase is Phase.STABLE and _same_choice(draft, before, member):
        _answer_at_once(draft, event, member, leader_before)
        return
    if draft.phase is not Phase.PREPARING_REBALANCE:
        rebalancing.prepare(draft, f"static member {member.group_instance_id} came back")
    rebalancing.park(draft, member.member_id, event)


def _same_choice(draft: ClassicDraft, before: ClassicMember, member: ClassicMember) -> bool:
    """Whether the next generation would choose the protocol that this one has."""
    if [name for name, _ in before.protocols] == [name for name, _ in member.protocols]:
        return True
    classic = draft.rows.classic
    return voting.choose(classic.members, draft.supported) == classic.protocol_name


def _answer_at_once(draft: ClassicDraft, event: Join, member: ClassicMember, leader_before: str) -> None:
    """No rebalance: a leader must not assign again, so it lists and skips, or does not know that it leads."""
    leads = draft.rows.classic.leader == member.member_id
    parked = Parked(event.connection, event.waiter)
    answer = rebalancing.welcome(draft, member.member_id, parked, listing=leads and event.answers_skip)
    if event.answers_skip:
        answer = replace(answer, skip_assignment=leads)
    else:
        answer = replace(answer, leader=leader_before)
    draft.say(event.connection, answer)
