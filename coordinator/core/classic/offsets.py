"""This room says which offsets of Kafka clients are accepted (conformance 104 to 114)."""

from collections.abc import Mapping

from coordinator.core.classic.instances import fault_of
from coordinator.core.memory import GroupState
from coordinator.core.offsets import Judgement
from groups.core.classic import told_generation
from groups.core.phases import Phase
from groups.core.rows import RowsBuilder
from groups.core.state import NATIVE, GroupRows, OffsetNote
from muster.kernel.error_codes import ErrorCode
from muster.messages.partitions import Partition

_NONE, _EMPTY, _COMPLETING = ErrorCode.NONE, Phase.EMPTY, Phase.COMPLETING_REBALANCE
"""Looked up once: a member of an enum costs as much as a call, and each commit passes here."""


def judge(
    state: GroupState,
    member_id: str,
    group_instance_id: str | None,
    generation: int,
    offsets: Mapping[Partition, int],
    notes: Mapping[Partition, OffsetNote],
) -> Judgement:
    """All of it is accepted, or none: whoever may commit may commit any partition, and any offset.

    A negative `generation` is stated by who is no member: an administrator, or a consumer that assigns
    partitions to itself. Whether topics exist and metadata is short enough, the door has seen to.
    """
    rows = state.rows
    if not rows.version:
        if generation >= 0:
            return Judgement(error=ErrorCode.GROUP_ID_NOT_FOUND)
        return Judgement(not_ready=True)
    if generation < 0 and rows.phase is _EMPTY:
        if rows.protocol == NATIVE and not state.memory.nobody_goes_on:
            return Judgement(not_ready=True)
        return Judgement(offsets, notes=notes)
    error = refusal(rows, state.classic.instances, member_id, group_instance_id, generation)
    if error is not _NONE:
        return Judgement(error=error)
    return Judgement(offsets, notes=notes, heard=member_id)


def refusal(
    rows: GroupRows | RowsBuilder,
    instances: Mapping[str, str],
    member_id: str,
    group_instance_id: str | None,
    generation: int,
) -> ErrorCode:
    """NONE if who says so is a member that may commit; `instances` are the group's."""
    classic = rows.classic
    if classic is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    fault = fault_of(member_id, group_instance_id, classic.members, instances)
    if fault is not _NONE:
        return fault
    if generation != told_generation(rows.generation):
        return ErrorCode.ILLEGAL_GENERATION
    if rows.phase is _COMPLETING:
        # What it read belongs to the generation that has ended; who has it now starts from what is stored.
        return ErrorCode.REBALANCE_IN_PROGRESS
    return _NONE
