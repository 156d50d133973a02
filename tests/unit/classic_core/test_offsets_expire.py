"""Offsets that nobody needs any more, and groups without any (conformance 130 to 136)."""

from collections.abc import Sequence

import pytest

from coordinator.core.events import AgedOffset, ConnectionId, Heard, Swept, TopicsDeleted
from groups.core.classic import ClassicRows
from groups.core.consumer_protocol import subscription
from groups.core.phases import Phase
from groups.core.records import GroupDeleted
from groups.core.state import GroupRows
from muster.messages.member import LeaveRequest
from muster.messages.partitions import Partition
from tests.unit.classic_core.group import ClassicGroup
from tests.unit.coordinator_core.group import CLICKS, Group, orders

WEEK_MS = 604_800_000
OLD, YOUNG = WEEK_MS, WEEK_MS - 1
CLICK = Partition("clicks", CLICKS.topic_id, 0)
OFFSETS = {orders(0): 5, orders(1): 6, CLICK: 7}


def swept(
    rows: GroupRows, ages: Sequence[int], *, empty_ms: int = 0, stamps: Sequence[bool | None] = (None,) * 3
) -> Swept:
    offsets = zip(OFFSETS.items(), ages, stamps, strict=True)
    aged = tuple(AgedOffset(partition, offset, age, stamp) for (partition, offset), age, stamp in offsets)
    return Swept(rows.version, WEEK_MS, empty_ms, aged)


def simple() -> ClassicGroup:
    rows = GroupRows("billing", version=3, protocol="classic", classic=ClassicRows(), offsets=OFFSETS)
    return ClassicGroup(rows=rows)


def consumers(topic: str = "orders", kind: str = "consumer", metadata: bytes | None = None) -> ClassicGroup:
    group = ClassicGroup(rows=GroupRows("billing", version=3, offsets=OFFSETS))
    said = subscription([topic]) if metadata is None else metadata
    group.stable("a", kind=kind, protocols={"range": said})
    return group


def test_a_simple_groups_offsets_go_by_their_commits() -> None:  # 130
    group = simple()
    group.turn(swept(group.rows, [OLD, YOUNG, OLD]))
    assert list(group.rows.offsets) == [orders(1)]


@pytest.mark.parametrize("empty_ms", [YOUNG, OLD])
def test_an_empty_groups_offsets_go_when_it_has_been_empty(empty_ms: int) -> None:  # 131
    group = consumers()
    group.leave(group.leader)
    group.turn(swept(group.rows, [OLD, 0, OLD], empty_ms=empty_ms))
    assert len(group.rows.offsets) == (3 if empty_ms < WEEK_MS else 0)


def test_of_a_group_that_works_only_what_nobody_reads_goes() -> None:  # 132
    group = consumers()
    group.turn(swept(group.rows, [OLD, OLD, YOUNG]))
    assert len(group.rows.offsets) == 3
    group.turn(swept(group.rows, [OLD, OLD, OLD]))
    assert list(group.rows.offsets) == [orders(0), orders(1)] and group.is_in(Phase.STABLE)


def test_a_native_group_keeps_what_it_reads() -> None:  # 132
    group = Group(rows=GroupRows("readers", version=3, offsets=OFFSETS))
    group.register("nina", "orders")
    group.turn(swept(group.rows, [OLD] * 3))
    assert list(group.rows.offsets) == [orders(0), orders(1)]
    group.turn(Heard(ConnectionId("nina/1"), LeaveRequest(correlation_id=1, consumer_id="nina")))
    decision = group.turn(swept(group.rows, [OLD] * 3, empty_ms=OLD))
    assert isinstance(decision.records[-1], GroupDeleted) and group.rows.offsets == {}


def test_who_cannot_be_understood_may_read_everything() -> None:  # 132
    group = consumers(metadata=b"\x00")
    group.turn(swept(group.rows, [OLD] * 3))
    assert len(group.rows.offsets) == 3


def test_nothing_goes_in_a_rebalance_or_from_another_kind_of_group() -> None:  # 133
    for group in (consumers(kind="connect"), consumers()):
        group.join(group.leader)
        group.turn(swept(group.rows, [OLD] * 3, stamps=[True] * 3))
        assert len(group.rows.offsets) == 3


def test_an_end_of_its_own_counts_in_place_of_the_retention() -> None:  # 134
    group = consumers()
    group.turn(swept(group.rows, [OLD, OLD, 0], stamps=[True, None, True]))
    assert list(group.rows.offsets) == [orders(0), orders(1)]
    group = simple()
    group.turn(swept(group.rows, [OLD, 0, 0], stamps=[False, True, None]))
    assert list(group.rows.offsets) == [orders(0), CLICK]


def test_a_group_without_offsets_ends_after_the_retention() -> None:  # 135
    group = simple()
    decision = group.turn(swept(group.rows, [OLD] * 3, empty_ms=OLD))
    assert isinstance(decision.records[-1], GroupDeleted)
    group = consumers()
    group.turn(TopicsDeleted(frozenset({orders(0).topic_id, CLICKS.topic_id})))
    group.turn(Swept(group.rows.version, WEEK_MS, OLD))
    assert group.rows.offsets == {} and group.is_in(Phase.STABLE)


def test_an_empty_group_whose_offsets_went_stays_until_it_was_empty_for_the_retention() -> None:
    group = simple()
    group.turn(swept(group.rows, [OLD] * 3, empty_ms=YOUNG))
    assert group.rows.offsets == {} and group.rows.version > 0
    group.turn(Swept(group.rows.version, WEEK_MS, YOUNG))
    assert group.is_in(Phase.EMPTY) and group.rows.protocol == "classic"
    decision = group.turn(Swept(group.rows.version, WEEK_MS, OLD))
    assert isinstance(decision.records[-1], GroupDeleted)


def test_a_topic_takes_its_offsets_with_it() -> None:  # 136
    group = consumers()
    group.turn(TopicsDeleted(frozenset({CLICKS.topic_id})))
    assert list(group.rows.offsets) == [orders(0), orders(1)]
    group.turn(TopicsDeleted(frozenset({CLICKS.topic_id})))
    assert group.decision.records == ()


def test_a_sweep_of_another_version_says_nothing() -> None:
    group = simple()
    event = swept(group.rows, [OLD] * 3, empty_ms=OLD)
    group.join(knows_ids=True)
    group.completed("a")
    group.turn(event)
    assert len(group.rows.offsets) == 3


def test_a_sweep_says_nothing_of_who_comes_in_the_same_turn_or_commits() -> None:
    group = simple()
    group.turn(swept(group.rows, [OLD] * 3, empty_ms=OLD), group.joining())
    assert len(group.rows.offsets) == 3 and group.members == ["app-1"]
    group = simple()
    stale = swept(group.rows, [OLD] * 3)
    moved = stale.offsets[0]._replace(offset=4)
    group.turn(Swept(stale.version, WEEK_MS, 0, (moved,)))
    assert len(group.rows.offsets) == 3
