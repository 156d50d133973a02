"""000 chapter 9, step 3: the computed assignment against the stored one."""

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
    [move] = proposal.moves
    assert (move.giver, move.taker) == ("ann", "")
    assert [one.number for one in each_partition(move.partitions)] == [4]


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
    assert proposal.moves == ()


def test_an_empty_group_needs_none() -> None:
    assert rebalance.compute(group({}), LAYOUTS, no_pattern).why == ""


def test_patterns_read_whatever_matches() -> None:
    everything = member("ann", TopicCount(".*", is_pattern=True))
    proposal = rebalance.compute(group({}, everything), LAYOUTS, lambda pattern, topic: True)
    assert sorted({topic.topic for topic in proposal.moves[0].partitions}) == ["clicks", "orders"]


def test_only_what_changes_its_owner_is_named_with_both() -> None:
    rows = group({"ann": [0, 1, 2, 3]}, member("ann"), member("ben"))
    [move] = rebalance.compute(rows, LAYOUTS, no_pattern).moves
    assert (move.giver, move.taker) == ("ann", "ben")
    assert len(list(each_partition(move.partitions))) == 2


def test_the_snapshot_names_the_members_and_the_version_that_was_read() -> None:
    proposal = rebalance.compute(group({}, member("ben"), member("ann")), LAYOUTS, no_pattern)
    assert (proposal.version, proposal.members) == (group({}).version, ("ann", "ben"))


def test_interests_are_names_and_patterns() -> None:
    rows = group({}, member("ann"), member("ben", TopicCount("c.*", is_pattern=True)))
    assert rebalance.interests(rows) == (frozenset({"orders"}), frozenset({"c.*"}))
