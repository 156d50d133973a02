"""This room says which native offsets are accepted, and which are committed or dirty (section 6).

Commits take no turn: the lane asks `judge` when its batch begins, writes what was accepted in one
fenced statement, and tells the state by `committed` before the answer leaves. Offsets that come with
pings and Stop responses are dirty until the committer, a close or a removal writes them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from msgspec import Struct, structs

from coordinator.core.events import ConnectionId, OffsetsTakenBack
from coordinator.core.memory import GroupState
from groups.core.layered import Layered
from groups.core.state import GroupRows, OffsetNote, Tenure
from muster.kernel.error_codes import ErrorCode
from muster.messages.partitions import Partition, Position

NO_OFFSET = -1
"""No committed offset; never 0, so that the consumer applies its auto_offset_reset."""

_NOT_OWNER, _ILLEGAL_GENERATION = ErrorCode.NOT_PARTITION_OWNER, ErrorCode.ILLEGAL_GENERATION
_NONE, _INVALID_REQUEST = ErrorCode.NONE, ErrorCode.INVALID_REQUEST
"""Looked up once: a member of an enum costs as much as a call, and each partition of a commit passes here."""

_NOTHING: Mapping[Partition, Tenure] = {}
_NO_NOTES: Mapping[Partition, OffsetNote] = {}


class Judgement(Struct, frozen=True):
    """What of a commit is to be written, and what was refused why; `error` refuses the whole of it.

    `notes` are those of accepted offsets that have one. `heard`: the member whose session starts again.
    `not_ready`: the group is to be made ready for it first (OutsideOffsets); then it is to be judged again.
    So it is behind the turn that decides what comes `first`.

    One is made for each commit: a frozen dataclass would cost four times as much.
    """

    accepted: Mapping[Partition, int] = {}
    refused: Mapping[Partition, ErrorCode] = {}
    error: ErrorCode = ErrorCode.NONE
    notes: Mapping[Partition, OffsetNote] = {}
    heard: str = ""
    not_ready: bool = False
    first: OffsetsTakenBack | None = None


def refusal(tenure: Tenure | None, position: Position, group_generation: int) -> ErrorCode:
    """NONE if the commit rule accepts the position for a partition with this row of the asking member.

    The row must name the member since no later than the generation under which the offset was
    fetched; so members that lose nothing never stop committing.
    """
    if tenure is None:
        return _NOT_OWNER
    if not tenure.since_generation <= position.generation <= group_generation:
        return _ILLEGAL_GENERATION
    return _NONE


def judge(
    state: GroupState,
    connection: ConnectionId,
    consumer_id: str,
    positions: Iterable[tuple[Partition, Position]],
) -> Judgement:
    """Apply the commit rule to each offset; UNKNOWN_MEMBER_ID unless the connection is this member's."""
    member_id = state.memory.bound.get(connection)
    if member_id is None or member_id != consumer_id:
        return Judgement(error=ErrorCode.UNKNOWN_MEMBER_ID)
    rows = state.rows
    tenures = rows.owned.get(member_id, _NOTHING)
    accepted: dict[Partition, int] = {}
    refused: dict[Partition, ErrorCode] = {}
    for partition, position in positions:
        error = refusal(tenures.get(partition), position, rows.generation)
        if error is _NONE:
            if position.offset != NO_OFFSET:
                accepted[partition] = position.offset
                continue
            error = _INVALID_REQUEST
        refused[partition] = error
    return Judgement(accepted, refused)


def committed(
    state: GroupState, offsets: Mapping[Partition, int], notes: Mapping[Partition, OffsetNote] = _NO_NOTES
) -> GroupState:
    """The state after a commit batch was written: last received wins, so what was dirty is overtaken."""
    memory = state.memory
    if memory.dirty:
        overtaken = [partition for partition in offsets if partition in memory.dirty]
        memory = structs.replace(memory, dirty=_without(memory.dirty, overtaken))
    return structs.replace(state, rows=_with_offsets(state, offsets, notes), memory=memory)


def flushed(state: GroupState, offsets: Mapping[Partition, int]) -> GroupState:
    """The state after the committer wrote `offsets`; what became dirty again meanwhile stays dirty."""
    dirty = state.memory.dirty
    written = [partition for partition, offset in offsets.items() if dirty.get(partition) == offset]
    memory = structs.replace(state.memory, dirty=_without(dirty, written))
    return structs.replace(state, rows=_with_offsets(state, offsets, _NO_NOTES), memory=memory)


def _with_offsets(
    state: GroupState, offsets: Mapping[Partition, int], notes: Mapping[Partition, OffsetNote]
) -> GroupRows:
    rows = state.rows
    changed = Layered.fork(rows.offsets)
    changed.take_over(offsets)
    if not notes and not rows.offset_notes:
        return replace(rows, offsets=changed)
    noted = Layered.fork(rows.offset_notes)
    for partition in offsets:
        note = notes.get(partition)
        if note is not None:
            noted[partition] = note
        else:
            noted.pop(partition, None)
    return replace(rows, offsets=changed, offset_notes=noted)


def _without(dirty: Mapping[Partition, int], partitions: Iterable[Partition]) -> Mapping[Partition, int]:
    kept = Layered.fork(dirty)
    for partition in partitions:
        del kept[partition]
    return kept
