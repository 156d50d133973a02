"""Rack-aware: shares as even as sticky ones, as many partitions at home as can be, and no needless move."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from coordinator.core.assignors import rack_aware, sticky
from coordinator.core.assignors.interface import Question, Shares, partitions_of
from muster.messages.partitions import Partition
from tests.simulation.native.topics import layout
from tests.unit.coordinator_core.test_assignors_share_fairly import CAST, TOPICS, questions

RACKS = ("a", "b", "c")
"""Where brokers are; members may be elsewhere, or say nothing."""


@st.composite
def racked(draw: st.DrawFn, *, alike: bool = False, partitions_max: int = 7) -> Question:
    question = draw(questions(alike=alike))
    at = st.frozensets(st.sampled_from(RACKS), min_size=1, max_size=2)
    topics = {}
    for name, topic in question.topics.items():
        count = min(topic.partition_count, partitions_max)
        racks = tuple(draw(at) for _ in range(count))
        topics[name] = replace(topic, partition_count=count, racks=racks)
    rack_of = {member: draw(st.sampled_from([*RACKS, "elsewhere", ""])) for member in question.members}
    known = {one for topic in topics.values() for one in partitions_of(topic)}
    owner_of = {one: owner for one, owner in question.owner_of.items() if one in known}
    return Question(question.members, topics, owner_of, rack_of)


def at_home(question: Question, owner_of: dict[Partition, str]) -> int:
    return sum(
        question.rack_of[owner] in question.topics[one.topic].racks[one.number]
        for one, owner in owner_of.items()
    )


def owners(shares: Shares) -> dict[Partition, str]:
    return {one: member for member, partitions in shares.items() for one in partitions}


def even_deals(question: Question, partitions: list[Partition]) -> Iterator[dict[Partition, str]]:
    """Every way to give them to members so that nobody has two more than another."""
    for chosen in product(sorted(question.members), repeat=len(partitions)):
        loads = Counter({member: 0 for member in question.members})
        loads.update(chosen)
        if max(loads.values()) - min(loads.values()) <= 1:
            yield dict(zip(partitions, chosen, strict=True))


@given(racked())
def test_everybody_has_as_many_as_by_the_sticky_assignor(question: Question) -> None:
    shares, even = rack_aware.assign(question), sticky.assign(question)
    assert owners(shares).keys() == owners(even).keys()
    one_class = len({tuple(readers) for readers in question.readers().values() if readers}) == 1
    if one_class:
        readers = next(readers for readers in question.readers().values() if readers)
        loads = [len(shares[member]) for member in readers]
        assert max(loads) - min(loads) <= 1
    else:
        assert {name: len(mine) for name, mine in shares.items()} == {n: len(m) for n, m in even.items()}
    for member, partitions in shares.items():
        assert {one.topic for one in partitions} <= question.members[member].keys()


@given(racked())
def test_no_fewer_are_at_home_than_by_the_sticky_assignor(question: Question) -> None:
    shares, even = rack_aware.assign(question), sticky.assign(question)
    assert at_home(question, owners(shares)) >= at_home(question, owners(even))


@given(racked(alike=True, partitions_max=2))
def test_where_all_read_the_same_no_even_deal_has_more_at_home(question: Question) -> None:
    partitions = sorted(owners(sticky.assign(question)))[:4]
    names = {one.topic for one in partitions}
    members = dict(list(question.members.items())[:3])
    topics = {
        name: replace(
            topic,
            partition_count=len(numbers := [one for one in partitions if one.topic == name]),
            racks=topic.racks[: len(numbers)],
        )
        for name, topic in question.topics.items()
        if name in names
    }
    small = Question(members, topics, {}, question.rack_of)
    best = max(at_home(small, deal) for deal in even_deals(small, partitions))
    assert at_home(small, owners(rack_aware.assign(small))) == best


@given(racked())
def test_it_is_content_with_its_own_answer(question: Question) -> None:
    shares = rack_aware.assign(question)
    assert rack_aware.assign(replace(question, owner_of=owners(shares))) == shares


def test_a_newcomer_in_another_rack_gets_what_lies_there() -> None:
    topic = replace(layout("orders", 1, 4), racks=tuple(map(frozenset, ("a", "a", "b", "b"))))
    members = {"ann": {"orders": 1}, "ben": {"orders": 1}}
    owner_of = dict.fromkeys(partitions_of(topic), "ann")
    shares = rack_aware.assign(Question(members, {"orders": topic}, owner_of, {"ann": "a", "ben": "b"}))
    assert [one.number for one in shares["ben"]] == [2, 3]


def test_without_racks_nothing_is_other_than_sticky() -> None:
    topics = {name: layout(name, number, 5) for number, name in enumerate(TOPICS)}
    members = {member: dict.fromkeys(TOPICS, 1) for member in CAST}
    question = Question(members, topics, rack_of=dict.fromkeys(CAST, "a"))
    assert rack_aware.assign(question) == sticky.assign(question)
