"""Kafka's tools delete groups without members, and offsets of topics that nobody reads."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from coordinator.core.draft import GroupDecision
from coordinator.core.events import (
    ConnectionId,
    DeletionAnswer,
    GroupDeletion,
    Heard,
    OffsetDeletion,
    Say,
    Waiter,
)
from coordinator.core.settings import Surroundings
from groups.core import records
from groups.core.classic import ClassicRows
from groups.core.consumer_protocol import subscription
from groups.core.phases import Phase
from groups.core.state import GroupRows
from muster.kernel.error_codes import ErrorCode
from muster.messages.member import LeaveRequest, TopicCount
from muster.messages.partitions import Partition
from tests.unit.classic_core.group import ClassicGroup
from tests.unit.coordinator_core.group import CLICKS, Group, orders, registering

TOOL = ConnectionId("tool")
COMMITTED: Mapping[Partition, int] = {orders(0): 5, orders(1): 6, Partition("clicks", CLICKS.topic_id, 0): 7}
CLICK = Partition("clicks", CLICKS.topic_id, 0)
WAITER = Waiter(-1)
READS_ORDERS = {"range": subscription(["orders"])}


def told(decision: GroupDecision) -> DeletionAnswer:
    """What the tool hears."""
    [answer] = [one.message for one in decision.replies if isinstance(one, Say) and one.connection == TOOL]
    assert isinstance(answer, DeletionAnswer)
    return answer


def simple() -> ClassicGroup:
    """A group that only commits: nobody was ever a member."""
    rows = GroupRows("billing", version=1, protocol="classic", classic=ClassicRows(), offsets=COMMITTED)
    return ClassicGroup(rows=rows)


def emptied(protocol: str) -> Group | ClassicGroup:
    """A group in which somebody was once."""
    if protocol == "native":
        return Group(rows=GroupRows("readers", generation=3, version=9, offsets=COMMITTED))
    classic = ClassicRows("consumer")
    return ClassicGroup(
        rows=GroupRows("billing", version=9, protocol="classic", classic=classic, offsets=COMMITTED)
    )


def reading(protocol: str) -> Group | ClassicGroup:
    """A Stable group of one member that reads `orders`."""
    group = emptied(protocol)
    if isinstance(group, Group):
        group.settled("ann")
    else:
        group.stable("ann", protocols=READS_ORDERS)
    assert group.rows.phase is Phase.STABLE
    return group


BOTH = pytest.mark.parametrize("protocol", ["native", "classic"])


def test_a_topic_that_is_read_by_a_pattern_is_read() -> None:
    group = Group(rows=GroupRows("readers", version=9, offsets=COMMITTED))
    group.turn(registering("ann", topic_count=(TopicCount("cli", is_pattern=True),)))
    answer = told(group.turn(OffsetDeletion(TOOL, WAITER, tuple(COMMITTED))))
    assert list(answer.refused) == [CLICK]
    assert group.rows.offsets == {CLICK: 7}


def test_a_pattern_that_many_members_have_is_matched_once_for_each_topic() -> None:
    matched: list[tuple[str, str]] = []

    def matches(pattern: str, topic: str) -> bool:
        matched.append((pattern, topic))
        return False

    group = Group(rows=GroupRows("readers", version=9, offsets=COMMITTED))
    for name in ("ann", "ben", "cleo"):
        group.turn(registering(name, topic_count=(TopicCount("payments", is_pattern=True),)))
    group.surroundings = Surroundings(matches=matches)
    assert told(group.turn(OffsetDeletion(TOOL, WAITER, (orders(0), CLICK)))).refused == {}
    assert sorted(matched) == [("payments", "clicks"), ("payments", "orders")]


def test_what_is_owned_is_read_though_nobody_subscribes_to_it_any_more() -> None:
    group = Group(rows=GroupRows("readers", generation=3, version=9, offsets=COMMITTED)).settled("ann")
    group.turn(registering("ann", "payments"))
    answer = told(group.turn(OffsetDeletion(TOOL, WAITER, tuple(COMMITTED))))
    assert answer.refused.keys() == {orders(0), orders(1)}
    group.obey(group.rebalance())
    assert told(group.turn(OffsetDeletion(TOOL, WAITER, (orders(0),)))).refused == {}


def test_a_subscription_that_cannot_be_read_may_be_to_everything() -> None:
    group = emptied("classic")
    assert isinstance(group, ClassicGroup)
    group.stable("ann", protocols={"range": b"?"})
    answer = told(group.turn(OffsetDeletion(TOOL, WAITER, tuple(COMMITTED))))
    assert set(answer.refused.values()) == {ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC}
    assert group.rows.offsets == COMMITTED


def test_members_that_do_not_speak_of_topics_keep_all_offsets() -> None:
    group = ClassicGroup()
    group.stable("worker", kind="connect")
    group.rows = replace(group.rows, offsets=COMMITTED)
    group.take_over()
    answer = told(group.turn(OffsetDeletion(TOOL, WAITER, (CLICK,))))
    assert answer.error is ErrorCode.NON_EMPTY_GROUP


@BOTH
def test_a_group_without_members_is_deleted_with_all_that_it_committed(protocol: str) -> None:
    group = emptied(protocol)
    decision = group.turn(GroupDeletion(TOOL, WAITER))
    assert told(decision) == DeletionAnswer(WAITER)
    assert isinstance(decision.records[-1], records.GroupDeleted)
    assert group.rows.offsets == {}


@BOTH
def test_a_group_with_members_is_not_deleted(protocol: str) -> None:
    group = reading(protocol)
    decision = group.turn(GroupDeletion(TOOL, WAITER))
    assert (told(decision).error, decision.records) == (ErrorCode.NON_EMPTY_GROUP, ())


def test_a_group_that_nobody_knows_is_not_found() -> None:
    assert told(Group().turn(GroupDeletion(TOOL, WAITER))).error is ErrorCode.GROUP_ID_NOT_FOUND
    answer = told(Group().turn(OffsetDeletion(TOOL, WAITER, (orders(0),))))
    assert answer.error is ErrorCode.GROUP_ID_NOT_FOUND


def test_of_two_who_delete_a_group_in_one_turn_the_second_finds_none() -> None:
    decision = simple().turn(GroupDeletion(TOOL, WAITER), GroupDeletion(ConnectionId("other"), WAITER))
    assert [one.message.error for one in decision.replies if isinstance(one, Say)] == [  # type: ignore[union-attr]
        ErrorCode.NONE,
        ErrorCode.GROUP_ID_NOT_FOUND,
    ]


def test_who_joins_in_the_turn_of_a_deletion_keeps_the_group() -> None:
    group = simple()
    decision = group.turn(GroupDeletion(TOOL, WAITER), group.joining(client="ann"))
    assert told(decision).error is ErrorCode.NON_EMPTY_GROUP
    assert group.rows.offsets == COMMITTED


@BOTH
def test_a_tool_deletes_what_nobody_reads(protocol: str) -> None:
    group = reading(protocol)
    answer = told(group.turn(OffsetDeletion(TOOL, WAITER, (orders(0), CLICK, orders(9)))))
    refused = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    assert answer.refused == {orders(0): refused, orders(9): refused}
    assert group.rows.offsets == {orders(0): 5, orders(1): 6}


@BOTH
def test_of_a_group_without_members_a_tool_deletes_anything_also_what_is_not_there(protocol: str) -> None:
    group = emptied(protocol)
    answer = told(group.turn(OffsetDeletion(TOOL, WAITER, (orders(0), orders(9)))))
    assert answer == DeletionAnswer(WAITER)
    assert group.rows.offsets == {orders(1): 6, CLICK: 7}


def test_a_deletion_skips_a_generation_of_a_native_group() -> None:
    group = emptied("native")
    group.turn(OffsetDeletion(TOOL, WAITER, (orders(9),)))
    assert group.rows.generation == 3
    group.turn(OffsetDeletion(TOOL, WAITER, (orders(0),)))
    assert group.rows.generation == 4
    for other, skipped in ((reading("native"), 1), (reading("classic"), 0), (emptied("classic"), 0)):
        before = other.rows.generation
        other.turn(OffsetDeletion(TOOL, WAITER, (CLICK,)))
        assert (CLICK in other.rows.offsets, other.rows.generation) == (False, before + skipped)


def test_an_ephemeral_group_that_ends_with_this_turn_is_not_found() -> None:
    group = Group()
    group.turn(registering("ann", ephemeral=True))
    leaves = Heard(ConnectionId("ann/1"), LeaveRequest(consumer_id="ann", correlation_id=2))
    assert told(group.turn(leaves, GroupDeletion(TOOL, WAITER))).error is ErrorCode.GROUP_ID_NOT_FOUND
