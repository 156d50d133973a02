"""This room makes memory anew from a classic group's rows, at a takeover and after each dropped cache."""

from coordinator.core import quarantine
from coordinator.core.classic import rebalancing
from coordinator.core.classic.draft import ClassicDraft
from coordinator.core.draft import GroupDecision
from coordinator.core.memory import ClassicMemory, GroupState, JoinPhase
from coordinator.core.settings import GroupSettings
from groups.core.classic import ClassicRows
from groups.core.phases import Phase
from groups.core.state import GroupRows
from muster.kernel.instants import Instant, after

TOO_MANY = "the group has more members than it may"


def load(rows: GroupRows, now: Instant, settings: GroupSettings) -> GroupDecision:
    """Sessions are full and `lease_ttl_ms` longer; nobody has joined, nobody has asked for its assignment.

    Ids that were given and had not joined are forgotten (design chapter 6.3; conformance 36, 46).
    """
    classic = rows.classic or ClassicRows()
    supported: dict[str, int] = {}
    instances: dict[str, str] = {}
    for member in classic.members.values():
        for name in {name for name, _ in member.protocols}:
            supported[name] = supported.get(name, 0) + 1
        if member.group_instance_id is not None:
            instances[member.group_instance_id] = member.member_id
    stated = sum(member.metadata_bytes for member in classic.members.values())
    memory = ClassicMemory(supported=supported, instances=instances, metadata_bytes=stated)
    state = GroupState(rows, classic=memory, quarantine_ends=quarantine.awakened(rows, now))
    draft = ClassicDraft(state, now, settings)
    draft.restart(classic.members, settings.lease_ttl_ms)
    longest_ms = draft.longest_rebalance_ms()
    if rows.phase is Phase.PREPARING_REBALANCE:
        draft.join_phase = JoinPhase(after(now, longest_ms))
    elif rows.phase is Phase.COMPLETING_REBALANCE:
        draft.owing.update(dict.fromkeys(classic.members))
        draft.sync_ends_at = after(now, longest_ms)
    if len(classic.members) > settings.group_max_size and rows.phase is not Phase.PREPARING_REBALANCE:
        rebalancing.prepare(draft, TOO_MANY)
    return draft.finish()
