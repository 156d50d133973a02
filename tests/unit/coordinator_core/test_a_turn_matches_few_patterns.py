"""However many patterns and topics a group has: a turn matches what its handler could not know, in bounds."""

import pytest

from coordinator.core.draft import GroupDecision
from coordinator.core.events import ItemFinished, OffsetDeletion
from coordinator.core.proposal import Proposal
from coordinator.core.rebalance import Matched
from coordinator.core.settings import Surroundings
from groups.core import records
from groups.core.classic import ClassicRows
from groups.core.consumer_protocol import subscribed_topics, subscription
from groups.core.requests import Asked, DeleteOffsets, GroupRequest, Scope
from groups.core.state import GroupRows
from muster.kernel.error_codes import ErrorCode
from muster.messages.member import TopicCount
from tests.unit.classic_core.group import ClassicGroup
from tests.unit.coordinator_core.group import Group, orders, registering
from tests.unit.coordinator_core.test_attempts_open_close_and_fail import compute, leaving
from tests.unit.coordinator_core.test_kafkas_tools_delete import CLICK, COMMITTED, TOOL, WAITER, told

ORDERS, ALL = (TopicCount("ord", is_pattern=True),), (TopicCount("", is_pattern=True),)


@pytest.fixture
def matched() -> list[tuple[str, str]]:
    """What was matched in turns."""
    return []


def counting(group: Group, matched: list[tuple[str, str]]) -> Group:
    def matches(pattern: str, topic: str) -> bool:
        matched.append((pattern, topic))
        return topic.startswith(pattern)

    group.surroundings = Surroundings(matches=matches)
    return group


def handed_in(group: Group, proposal: Proposal) -> GroupDecision:
    group.items += 1
    return group.turn(ItemFinished(f"item-{group.items}", proposal))


def deleting(*topics: str) -> GroupRequest:
    return GroupRequest("r-1", "olga", "we test", Asked(DeleteOffsets(tuple(map(Scope, topics)))))


def text_of(decision: GroupDecision) -> str:
    [decided] = (one for one in decision.records if isinstance(one, records.RequestDecided))
    return decided.answer.text


def test_nothing_is_matched_again_of_who_subscribes_as_the_handler_saw(
    matched: list[tuple[str, str]],
) -> None:
    group = Group()
    for name in ("ann", "ben"):
        group.turn(registering(name, topic_count=ALL))
    seen = compute(group)
    group.turn(registering("cleo", topic_count=ALL))
    handed_in(counting(group, matched), seen)
    assert matched == []
    assert group.rows.owned.keys() == {"ann", "ben"} and group.rows.handler_asked


def test_who_subscribes_to_something_else_gets_what_it_still_reads(matched: list[tuple[str, str]]) -> None:
    group = Group()
    for name in ("ann", "ben"):
        group.turn(registering(name, topic_count=ALL))
    seen = compute(group)
    for name in ("ann", "ben"):
        group.turn(registering(name, topic_count=ORDERS))
    handed_in(counting(group, matched), seen)
    assert sorted(matched) == [("ord", "clicks"), ("ord", "orders")], "each pair once, whoever has it"
    assert {one.topic for mine in group.rows.owned.values() for one in mine} == {"orders"}


def test_who_left_and_came_again_with_less_gets_what_it_still_reads() -> None:
    group = Group()
    group.turn(registering("ann", topic_count=ALL))
    seen = compute(group)
    group.turn(leaving("ann"))
    group.turn(registering("ann", "clicks"))
    handed_in(group, seen)
    assert {one.topic for one in group.rows.owned["ann"]} == {"clicks"}


def test_who_owns_what_nobody_takes_any_more_keeps_it_only_if_it_reads_it() -> None:
    group = Group().settled("ann")
    group.turn(registering("ann", topic_count=ORDERS))
    group.register("ben")
    seen = compute(group)
    group.turn(leaving("ben"))
    handed_in(group, seen)
    assert len(group.rows.owned["ann"]) == 6


def test_what_a_turn_does_not_know_stays_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Matched.__init__, "__defaults__", (0,))
    group = Group().settled("ann", "ben")
    before = group.rows.owned
    group.turn(registering("ann", "clicks"))
    seen = compute(group)
    group.turn(registering("ann", topic_count=ORDERS))
    group.turn(registering("ben", topic_count=ORDERS))
    handed_in(group, seen)
    assert group.rows.owned == before and group.rows.handler_asked
    for _ in range(3):
        group.obey(group.rebalance())
    assert {len(mine) for mine in group.rows.owned.values()} == {3}


def test_what_may_be_read_as_far_as_a_turn_knows_keeps_its_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Matched.__init__, "__defaults__", (1,))
    group = Group(rows=GroupRows("readers", version=9, offsets=COMMITTED))
    group.turn(registering("ann", topic_count=(TopicCount("payments", is_pattern=True),)))
    answer = told(group.turn(OffsetDeletion(TOOL, WAITER, tuple(COMMITTED))))
    assert answer.refused == {
        orders(0): ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
        orders(1): ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
    }
    assert CLICK not in group.rows.offsets


def test_an_operator_is_asked_to_name_fewer_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Matched.__init__, "__defaults__", (1,))
    group = Group(rows=GroupRows("readers", version=9, offsets=COMMITTED))
    group.turn(registering("ann", topic_count=(TopicCount("payments", is_pattern=True),)))
    assert "name fewer topics" in text_of(group.turn(deleting("clicks", "orders")))
    assert text_of(group.turn(deleting("clicks"))) == "1 offset deleted."


def test_an_operator_hears_who_reads_what_and_each_pattern_is_matched_once(
    matched: list[tuple[str, str]],
) -> None:
    group = Group(rows=GroupRows("readers", version=9, offsets=COMMITTED))
    for name in ("ann", "ben", "cleo"):
        group.turn(registering(name, topic_count=(TopicCount("payments", is_pattern=True),)))
    group.turn(registering("dora", topic_count=ORDERS))
    answer = text_of(counting(group, matched).turn(deleting("clicks", "orders")))
    assert answer == "orders is read by dora. Stop them first."
    assert matched.count(("payments", "clicks")) == 1


def test_what_kafkas_consumers_say_alike_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[bytes] = []

    def noted(metadata: bytes) -> frozenset[str] | None:
        read.append(metadata)
        return subscribed_topics(metadata)

    monkeypatch.setattr("coordinator.core.requests.subscribed_topics", noted)
    group = ClassicGroup(
        rows=GroupRows(
            "billing", version=9, protocol="classic", classic=ClassicRows("consumer"), offsets=COMMITTED
        )
    )
    group.stable("ann", "ben", protocols={"range": subscription(["orders"])})
    assert text_of(group.turn(deleting("clicks", "orders"))).startswith("orders is read by ann")
    assert len(read) == 1
