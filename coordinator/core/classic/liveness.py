"""This room judges heartbeats beside the lane, on the state as it is cached (conformance 64 to 68)."""

from coordinator.core.classic.instances import fault_of
from coordinator.core.memory import GroupState
from groups.core.classic import told_generation
from groups.core.phases import Phase
from muster.kernel.error_codes import ErrorCode

_NONE, _JOIN = ErrorCode.NONE, Phase.PREPARING_REBALANCE
"""Looked up once: a member of an enum costs as much as a call, and each heartbeat passes here."""


def heartbeat(state: GroupState, member_id: str, group_instance_id: str | None, generation: int) -> ErrorCode:
    """What a heartbeat is answered; after NONE and REBALANCE_IN_PROGRESS its member was heard."""
    classic = state.rows.classic
    if classic is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if group_instance_id is not None or member_id not in classic.members:
        fault = fault_of(member_id, group_instance_id, classic.members, state.classic.instances)
        if fault is not _NONE:
            return fault
    told = state.rows.generation
    if generation != told and generation != told_generation(told):
        return ErrorCode.ILLEGAL_GENERATION
    if state.rows.phase is _JOIN:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return _NONE
