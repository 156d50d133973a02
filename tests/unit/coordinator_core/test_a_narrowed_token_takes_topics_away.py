"""A member whose token names fewer topics than before gives the others up, in order, and is told why."""

from coordinator.core.events import ConnectionId, HangUp, TokenNarrowed
from groups.core import records
from muster.kernel.scopes import Scope
from muster.messages.member import StopFetcherRequest, TopicCount
from tests.unit.coordinator_core.group import Group, hung_up, registering, said


def narrowed(name: str, *topics: str) -> TokenNarrowed:
    return TokenNarrowed(ConnectionId(f"{name}/1"), Scope.of(topics))


def reads(group: Group, name: str) -> set[str]:
    return {partition.topic for partition in group.rows.owned.get(name, {})}


def two_readers() -> Group:
    """ann reads orders and clicks, ben orders; everything runs."""
    group = Group()
    group.register("ann", "orders", "clicks")
    group.register("ben", "orders")
    for _ in range(3):
        group.obey(group.rebalance())
    assert reads(group, "ann") == {"orders", "clicks"}
    return group


def test_its_partitions_of_other_topics_go_by_a_rebalance() -> None:
    group = two_readers()
    decision = group.turn(narrowed("ann", "orders"))
    changed, asked = decision.records
    assert isinstance(changed, records.MemberChanged) and changed.topic_count == (TopicCount("orders"),)
    assert "lost topic clicks: its token is not good for that any more" in changed.why
    assert isinstance(asked, records.HandlerAsked) and "its token" in asked.cause
    decision = group.rebalance()
    assert "ann/1" in said(decision, StopFetcherRequest)
    group.obey(decision, offset=7)
    assert reads(group, "ann") == {"orders"}
    assert {offset for partition, offset in group.rows.offsets.items() if partition.topic == "clicks"} == {7}


def test_a_target_that_was_computed_before_gives_it_nothing_of_them() -> None:
    group = Group()
    group.register("ann", "orders", "clicks")
    group.turn(narrowed("ann", "orders"))
    group.items += 1
    group.obey(group.rebalance())
    assert reads(group, "ann") == {"orders"}


def test_a_pattern_goes_with_a_token_that_names_topics() -> None:
    group = Group()
    group.turn(registering("ann", topic_count=(TopicCount("clicks", is_pattern=True), TopicCount("orders"))))
    changed, *_ = group.turn(narrowed("ann", "orders", "clicks")).records
    assert isinstance(changed, records.MemberChanged) and changed.topic_count == (TopicCount("orders"),)
    assert "pattern clicks" in changed.why


def test_who_is_left_with_nothing_stops_first_and_leaves_then() -> None:
    group = two_readers()
    group.turn(narrowed("ann", "payments"))
    assert group.rows.members["ann"].topic_count == ()
    # The next look comes while it still fetches.
    assert group.turn(narrowed("ann", "payments")).records == ()
    group.obey(group.rebalance())
    assert reads(group, "ann") == set() and reads(group, "ben") == {"orders"}
    decision = group.turn(narrowed("ann", "payments"))
    assert isinstance(decision.records[0], records.MemberRemoved)
    assert [one.text for one in decision.commands if isinstance(one, HangUp)] == [
        "its token is good for none of its topics any more"
    ]
    assert hung_up(decision) == ["ann/1"]


def test_a_token_that_is_good_for_all_of_it_changes_nothing() -> None:
    group = two_readers()
    assert group.turn(narrowed("ann", "orders", "clicks", "payments")).records == ()
    assert group.turn(narrowed("cleo", "orders")).records == ()
