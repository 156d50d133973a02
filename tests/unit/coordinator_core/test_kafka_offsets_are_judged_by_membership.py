"""Who may commit to a classic group: its members in their generation, or whoever is none if it is empty."""

from dataclasses import replace

import pytest

from coordinator.core.classic.offsets import judge
from coordinator.core.decide import decide
from coordinator.core.events import ConnectionId, GroupEvent, Heard, OffsetsTakenBack, OutsideOffsets
from coordinator.core.memory import ClassicMemory, GroupState
from coordinator.core.offsets import committed
from coordinator.core.settings import GroupSettings, Surroundings
from groups.core import records
from groups.core.classic import ClassicMember, ClassicRows
from groups.core.phases import Phase
from groups.core.rows import apply
from groups.core.state import GroupRows, OffsetNote
from muster.kernel.error_codes import ErrorCode
from muster.kernel.instants import Instant
from muster.messages.member import LeaveRequest
from muster.messages.partitions import Partition, Position, by_topic, positions_by_topic
from tests.unit.coordinator_core.group import orders, registering

OFFSETS = {orders(0): 7, orders(1): 0}
NOTES = {orders(0): OffsetNote(3, "a note")}
ANN = ClassicMember(
    member_id="ann",
    session_timeout_ms=9_000,
    rebalance_timeout_ms=9_000,
    protocols=(("range", b""),),
    group_instance_id="i-ann",
)


def group(phase: Phase = Phase.STABLE, version: int = 5) -> GroupState:
    """Generation 4, with ann, a static member."""
    members = {} if phase is Phase.EMPTY else {"ann": ANN}
    rows = GroupRows(
        "readers",
        generation=4,
        version=version,
        phase=phase,
        protocol="classic",
        classic=ClassicRows("consumer", "range", "ann", members),
    )
    return GroupState(rows, classic=ClassicMemory(instances={"i-ann": "ann"} if members else {}))


def after(state: GroupState, event: GroupEvent) -> GroupState:
    """A native group after one turn."""
    return decide(state, [event], Instant(0), GroupSettings(), Surroundings()).state


def error_of(
    state: GroupState, member_id: str = "ann", generation: int = 4, instance_id: str | None = None
) -> ErrorCode:
    judgement = judge(state, member_id, instance_id, generation, OFFSETS, NOTES)
    assert bool(judgement.accepted) == (judgement.error is ErrorCode.NONE)
    return judgement.error


@pytest.mark.parametrize(
    ("phase", "error"),
    [
        (Phase.STABLE, ErrorCode.NONE),
        (Phase.PREPARING_REBALANCE, ErrorCode.NONE),
        (Phase.COMPLETING_REBALANCE, ErrorCode.REBALANCE_IN_PROGRESS),
        (Phase.EMPTY, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_a_member_may_commit_until_its_generation_has_ended(phase: Phase, error: ErrorCode) -> None:
    assert error_of(group(phase)) is error


def test_who_is_accepted_as_a_member_was_heard() -> None:
    judgement = judge(group(), "ann", None, 4, OFFSETS, NOTES)
    assert (judgement.accepted, judgement.notes, judgement.heard) == (OFFSETS, NOTES, "ann")


def test_another_generation_is_refused() -> None:
    assert error_of(group(), generation=3) is ErrorCode.ILLEGAL_GENERATION
    assert error_of(group(), generation=-1) is ErrorCode.ILLEGAL_GENERATION


def test_a_static_member_commits_under_its_present_id_only() -> None:
    assert error_of(group(), instance_id="i-ann") is ErrorCode.NONE
    assert error_of(group(), "ann-before", instance_id="i-ann") is ErrorCode.FENCED_INSTANCE_ID
    assert error_of(group(), instance_id="i-ben") is ErrorCode.UNKNOWN_MEMBER_ID


def test_who_is_no_member_may_commit_to_an_empty_group_only() -> None:
    assert error_of(group(Phase.EMPTY), "", -1) is ErrorCode.NONE
    assert error_of(group(Phase.EMPTY), "anybody", -1) is ErrorCode.NONE
    assert error_of(group(), "", -1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert not judge(group(Phase.EMPTY), "", None, -1, OFFSETS, NOTES).heard


def test_an_unknown_group_begins_with_offsets_of_nobody() -> None:
    nothing = GroupState(GroupRows("readers"))
    assert judge(nothing, "", None, -1, OFFSETS, NOTES).not_ready
    assert judge(nothing, "ann", None, 0, OFFSETS, NOTES).error is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_native_group_with_members_knows_no_kafka_member() -> None:
    native = GroupState(GroupRows("readers", generation=4, version=2, phase=Phase.STABLE))
    assert error_of(native) is ErrorCode.UNKNOWN_MEMBER_ID


def test_an_empty_native_group_skips_a_generation_before_the_first_offsets_of_nobody() -> None:
    empty = GroupState(GroupRows("readers", generation=4, version=2))
    assert judge(empty, "", None, -1, OFFSETS, NOTES).not_ready
    ready = after(empty, OutsideOffsets())
    assert (ready.rows.generation, error_of(ready, "", -1)) == (5, ErrorCode.NONE)
    with_ann = after(ready, registering("ann"))
    assert error_of(with_ann, "", -1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert after(with_ann, OutsideOffsets()).rows.generation == 5
    left = after(with_ann, Heard(ConnectionId("ann/1"), LeaveRequest(consumer_id="ann", correlation_id=1)))
    assert judge(left, "", None, -1, OFFSETS, NOTES).not_ready


@pytest.mark.parametrize(
    ("member_id", "generation", "left"),
    [("ann", 4, [orders(1)]), ("ann", 3, [orders(0), orders(1)]), ("", -1, [orders(0), orders(1)])],
)
def test_what_is_taken_back_is_gone_if_who_asked_may_commit_by_then(
    member_id: str, generation: int, left: list[Partition]
) -> None:
    """Between a commit and its turn another generation may open, whose members commit as well."""
    state = committed(group(), OFFSETS, NOTES)
    asked = OffsetsTakenBack((orders(0), orders(2)), member_id, None, generation)
    assert list(after(state, asked).rows.offsets) == left


def test_of_a_native_group_offsets_are_taken_back_while_it_has_no_members() -> None:
    taken_back = OffsetsTakenBack((orders(0),), "", None, -1)
    empty = committed(GroupState(GroupRows("readers", generation=4, version=2)), OFFSETS)
    assert list(after(empty, taken_back).rows.offsets) == [orders(1)]
    with_ann = committed(after(empty, registering("ann")), OFFSETS)
    assert list(after(with_ann, taken_back).rows.offsets) == list(OFFSETS)


def test_a_note_lives_until_the_next_commit_of_its_partition() -> None:
    state = committed(group(), OFFSETS, NOTES)
    assert dict(state.rows.offset_notes) == NOTES
    later = committed(state, {orders(1): 9}, {orders(1): OffsetNote(metadata="b")})
    assert dict(later.rows.offset_notes) == {**NOTES, orders(1): OffsetNote(metadata="b")}
    assert dict(committed(later, {orders(0): 8}).rows.offset_notes) == {orders(1): OffsetNote(metadata="b")}


@pytest.mark.parametrize(
    "record",
    [
        records.OffsetsFlushed(positions_by_topic({orders(0): Position(9, 0)})),
        records.OffsetsSet(positions_by_topic({orders(0): Position(9, 0)})),
        records.OffsetsDeleted(by_topic([orders(0)])),
    ],
)
def test_a_record_of_an_offset_ends_its_note(record: records.GroupRecord) -> None:
    rows = committed(group(), OFFSETS, NOTES).rows
    after = apply(replace(rows, offset_notes={**rows.offset_notes, orders(1): OffsetNote(1)}), [record])
    assert dict(after.offset_notes) == {orders(1): OffsetNote(1)}
