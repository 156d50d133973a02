"""This room says which native offsets are accepted, and which are committed or dirty (section 6).

Commits take no turn: the lane asks `judge` when its batch begins, writes what was accepted in one
fenced statement, and tells the state by `committed` before the answer leaves. Offsets that come with
pings and Stop responses are dirty until the committer, a close or a removal writes them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from coordinator.core.events import ConnectionId
from coordinator.core.memory import GroupState
from groups.core.state import Tenure
from muster.kernel.error_codes import ErrorCode
from muster.messages.member import (
    CommitOffsetsRequest,
    CommitOffsetsResponse,
    PartitionError,
    TopicErrors,
)
from muster.messages.partitions import Partition, Position, each_position

NO_OFFSET = -1
"""No committed offset; never 0, so that the consumer applies its auto_offset_reset."""

_NOTHING: Mapping[Partition, Tenure] = {}


@dataclass(frozen=True, slots=True)
class Judgement:
    """What of a CommitOffsets is to be written, and the answer that may leave after COMMIT."""

    accepted: Mapping[Partition, int]
    response: CommitOffsetsResponse


def refusal(tenure: Tenure | None, position: Position, group_generation: int) -> ErrorCode:
    """NONE if the commit rule accepts the position for a partition with this row of the asking member.

    The row must name the member since no later than the generation under which the offset was
    fetched; so members that lose nothing never stop committing.
    """
    if tenure is None:
        return ErrorCode.NOT_PARTITION_OWNER
    if not tenure.since_generation <= position.generation <= group_generation:
        return ErrorCode.ILLEGAL_GENERATION
    return ErrorCode.NONE


def judge(state: GroupState, connection: ConnectionId, request: CommitOffsetsRequest) -> Judgement:
    """Apply the commit rule to each offset; UNKNOWN_MEMBER_ID unless the connection is this member's."""
    member_id = state.memory.bound.get(connection)
    if member_id is None or member_id != request.consumer_id:
        unknown = ErrorCode.UNKNOWN_MEMBER_ID
        return Judgement({}, CommitOffsetsResponse(correlation_id=request.correlation_id, error_code=unknown))
    rows = state.rows
    tenures = rows.owned.get(member_id, _NOTHING)
    accepted: dict[Partition, int] = {}
    refused: dict[Partition, ErrorCode] = {}
    for partition, position in each_position(request.offset_info):
        error = refusal(tenures.get(partition), position, rows.generation)
        if error is ErrorCode.NONE and position.offset == NO_OFFSET:
            error = ErrorCode.INVALID_REQUEST
        if error is ErrorCode.NONE:
            accepted[partition] = position.offset
        else:
            refused[partition] = error
    return Judgement(
        accepted,
        CommitOffsetsResponse(correlation_id=request.correlation_id, refused=_errors_by_topic(refused)),
    )


def committed(state: GroupState, offsets: Mapping[Partition, int]) -> GroupState:
    """The state after a commit batch was written: last received wins, so what was dirty is overtaken."""
    memory, dirty = state.memory, state.memory.dirty
    if not offsets.keys().isdisjoint(dirty):
        kept = {partition: offset for partition, offset in dirty.items() if partition not in offsets}
        memory = replace(memory, dirty=kept)
    return GroupState(replace(state.rows, offsets={**state.rows.offsets, **offsets}), memory)


def flushed(state: GroupState, offsets: Mapping[Partition, int]) -> GroupState:
    """The state after the committer wrote `offsets`; what became dirty again meanwhile stays dirty."""
    dirty = {
        partition: offset
        for partition, offset in state.memory.dirty.items()
        if offsets.get(partition) != offset
    }
    return GroupState(
        rows=replace(state.rows, offsets={**state.rows.offsets, **offsets}),
        memory=replace(state.memory, dirty=dirty),
    )


def _errors_by_topic(refused: Mapping[Partition, ErrorCode]) -> tuple[TopicErrors, ...]:
    if not refused:
        return ()
    by_topic: dict[Partition, list[PartitionError]] = {}
    for partition, error in refused.items():
        topic = partition._replace(number=0)
        by_topic.setdefault(topic, []).append(PartitionError(partition.number, int(error)))
    return tuple(
        TopicErrors(topic.topic, topic.topic_id, tuple(errors)) for topic, errors in by_topic.items()
    )
