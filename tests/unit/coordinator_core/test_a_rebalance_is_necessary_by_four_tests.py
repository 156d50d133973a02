"""000 chapter 9, step 3: the computed assignment against the stored one."""

from msgspec.structs import replace

from coordinator.core import rebalance
from groups.core.state import GroupRows, Member, Tenure
from muster.messages.member import TopicCount
from muster.messages.partitions import Partition, each_partition
from tests.simulation.native.topics import layout, layouts

ORDERS = layout("orders", 1, 4)
LAYOUTS = layouts(ORDERS, layout("clicks", 2, 2))


def no_pattern(pattern: str, topic: str) -> bool:
    return False


def member(name: str, *topic_count: TopicCount) -> Member:
    topics = topic_count or (TopicCount("orders"),)
    return Member(member_id=name, token_hash=f"hash of {name}", topic_count=topics, session_timeout_ms=9_000)


def group(owned: dict[str, list[int]], *members: Member) -> GroupRows:
    tenures = {
        name: {Partition("orders", ORDERS.topic_id, number): Tenure(1, running=True) for number in numbers}
        for name, numbers in owned.items()
    }
    return GroupRows("readers", members={each.member_id: each for each in members}, owned=tenures)


def test_nothing_is_registered() -> None:
    assert rebalance.compute(group({}, member("ann")), LAYOUTS, no_pattern).why == rebalance.NOTHING_OWNED


def test_a_partition_is_not_owned() -> None:
    rows = group({"ann": [0, 1, 2]}, member("ann"))
    assert rebalance.compute(rows, LAYOUTS, no_pattern).why == rebalance.SOME_UNOWNED


def test_an_owned_partition_exists_no_longer() -> None:
    rows = group({"ann": [0, 1, 2, 3, 4]}, member("ann"))
    proposal = rebalance.compute(rows, LAYOUTS, no_pattern)
    assert proposal.why == rebalance.SOME_GONE
    assert [one.number for one in each_partition(proposal.shares[0].partitions)] == [0, 1, 2, 3]


def test_a_topic_that_was_created_anew_is_another_topic() -> None:
    rows = group({"ann": [0, 1, 2, 3]}, member("ann"))
    anew = layouts(layout("orders", 9, 4))
    assert rebalance.compute(rows, anew, no_pattern).why == rebalance.SOME_UNOWNED


def test_the_owners_are_not_the_computed_ones() -> None:
    rows = group({"ann": [0, 1, 2, 3]}, member("ann"), member("ben"))
    assert rebalance.compute(rows, LAYOUTS, no_pattern).why == rebalance.OTHER_OWNERS


def test_otherwise_it_is_not_necessary() -> None:
    rows = group({"ann": [0, 2], "ben": [1, 3]}, member("ann"), member("ben"))
    proposal = rebalance.compute(rows, LAYOUTS, no_pattern)
    assert proposal.why == ""
    assert {share.member_id: len(list(each_partition(share.partitions))) for share in proposal.shares} == {
        "ann": 2,
        "ben": 2,
    }


def test_an_empty_group_needs_none() -> None:
    assert rebalance.compute(group({}), LAYOUTS, no_pattern).why == ""


def test_patterns_read_whatever_matches() -> None:
    everything = member("ann", TopicCount(".*", is_pattern=True))
    proposal = rebalance.compute(group({}, everything), LAYOUTS, lambda pattern, topic: True)
    assert sorted({topic.topic for topic in proposal.shares[0].partitions}) == ["clicks", "orders"]


def test_the_snapshot_names_member_token_and_subscription() -> None:
    ann = member("ann")
    (seen,) = rebalance.compute(group({}, ann), LAYOUTS, no_pattern).members
    assert seen == rebalance.seen(ann)
    assert seen != rebalance.seen(replace(ann, token_hash="another"))
    assert seen != rebalance.seen(replace(ann, topic_count=(TopicCount("clicks"),)))


def test_interests_are_names_and_patterns() -> None:
    rows = group({}, member("ann"), member("ben", TopicCount("c.*", is_pattern=True)))
    assert rebalance.interests(rows) == (frozenset({"orders"}), frozenset({"c.*"}))
