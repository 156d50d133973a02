"""Every assignor: disjoint, complete, only subscribed, deterministic; sticky: balanced, fewest moves."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.core.assignors.interface import Question, Shares, partitions_of
from coordinator.core.assignors.registry import ASSIGNORS
from groups.core.requests import ASSIGNORS as NAMES
from muster.messages.partitions import Partition
from tests.simulation.native.topics import layout

TOPICS = ("clicks", "orders", "payments", "returns")
CAST = ("ann", "ben", "cleo", "dora", "emil")


@st.composite
def questions(draw: st.DrawFn, *, alike: bool = False) -> Question:
    topics = {name: layout(name, number, draw(st.integers(0, 7))) for number, name in enumerate(TOPICS)}
    names = draw(st.lists(st.sampled_from(CAST), min_size=1, unique=True))
    common = draw(st.lists(st.sampled_from(TOPICS), min_size=1, unique=True))
    members = {}
    for name in names:
        read = common if alike else draw(st.lists(st.sampled_from(TOPICS), unique=True))
        members[name] = {topic: draw(st.integers(1, 3)) for topic in read}
    owner_of = {}
    for topic in topics.values():
        for partition in partitions_of(topic):
            owner = draw(st.sampled_from([*CAST, ""]))
            if owner in members:
                owner_of[partition] = owner
    return Question(members, topics, owner_of)


def everything_read(question: Question) -> set[Partition]:
    return {
        partition
        for name, topic in question.topics.items()
        if question.readers()[name]
        for partition in partitions_of(topic)
    }


def flat(shares: Shares) -> list[Partition]:
    return [partition for partitions in shares.values() for partition in partitions]


@pytest.mark.parametrize("name", sorted(ASSIGNORS))
@given(question=questions())
def test_disjoint_complete_and_only_subscribed(name: str, question: Question) -> None:
    shares = ASSIGNORS[name](question)
    assert shares.keys() == question.members.keys()
    assert Counter(flat(shares)) == Counter(everything_read(question))
    for member, partitions in shares.items():
        assert {partition.topic for partition in partitions} <= question.members[member].keys()


@pytest.mark.parametrize("name", sorted(ASSIGNORS))
@given(question=questions(), data=st.data())
def test_the_order_of_the_question_does_not_matter(
    name: str, question: Question, data: st.DataObject
) -> None:
    members = data.draw(st.permutations(sorted(question.members)))
    topics = data.draw(st.permutations(sorted(question.topics)))
    shuffled = Question(
        {member: question.members[member] for member in members},
        {topic: question.topics[topic] for topic in topics},
        question.owner_of,
    )
    assert ASSIGNORS[name](shuffled) == ASSIGNORS[name](question)


@given(questions())
def test_sticky_no_single_move_makes_it_fairer(question: Question) -> None:
    shares = ASSIGNORS["sticky"](question)
    for giver, partitions in shares.items():
        for partition in partitions:
            for taker in question.readers()[partition.topic]:
                assert len(shares[giver]) < len(shares[taker]) + 2 or giver == taker


@given(questions(alike=True))
def test_sticky_moves_no_more_than_it_must(question: Question) -> None:
    shares = ASSIGNORS["sticky"](question)
    read = everything_read(question)
    held = Counter(owner for partition, owner in question.owner_of.items() if partition in read)
    loads = sorted((len(partitions) for partitions in shares.values()), reverse=True)
    present = sorted((held[member] for member in question.members), reverse=True)
    kept = sum(
        question.owner_of.get(partition) == member
        for member, partitions in shares.items()
        for partition in partitions
    )
    assert kept == sum(min(has, may) for has, may in zip(present, loads, strict=True))


@given(questions())
def test_sticky_is_content_with_its_own_answer(question: Question) -> None:
    shares = ASSIGNORS["sticky"](question)
    owner_of = {partition: member for member, partitions in shares.items() for partition in partitions}
    assert ASSIGNORS["sticky"](Question(question.members, question.topics, owner_of)) == shares


@given(questions())
def test_co_partitioned_topics_that_are_alike_go_together(question: Question) -> None:
    shares = ASSIGNORS["copartitioned"](question)
    readers = question.readers()
    owner = {(one.topic, one.number): member for member, partitions in shares.items() for one in partitions}
    for first, topic in question.topics.items():
        for second, other in question.topics.items():
            if readers[first] == readers[second] and topic.partition_count == other.partition_count:
                for number in range(topic.partition_count):
                    assert owner.get((first, number)) == owner.get((second, number))


def test_co_partitioned_numbers_stay_where_they_are() -> None:
    topics = {name: layout(name, number, 4) for number, name in enumerate(("clicks", "orders"))}
    read = {"clicks": 1, "orders": 1}
    two = ASSIGNORS["copartitioned"](Question({"ann": read, "ben": read}, topics))
    owner_of = {one: member for member, partitions in two.items() for one in partitions}
    three = ASSIGNORS["copartitioned"](Question({"ann": read, "ben": read, "cleo": read}, topics, owner_of))
    moved = {one for member, partitions in three.items() for one in partitions if owner_of[one] != member}
    assert len(moved) == 2 and len({one.number for one in moved}) == 1
    assert [one.topic for one in three["cleo"]] == ["clicks", "orders"]


def test_range_deals_each_topic_by_thread() -> None:
    question = Question({"ann": {"orders": 2}, "ben": {"orders": 1}}, {"orders": layout("orders", 1, 7)})
    shares = ASSIGNORS["range"](question)
    assert [one.number for one in shares["ann"]] == [0, 1, 2, 3, 4]
    assert [one.number for one in shares["ben"]] == [5, 6]


def test_round_robin_deals_one_after_the_other() -> None:
    topics = {name: layout(name, number, 3) for number, name in enumerate(("clicks", "orders"))}
    shares = ASSIGNORS["roundrobin"](
        Question({"ann": {"clicks": 1, "orders": 1}, "ben": {"orders": 1}}, topics)
    )
    assert [str(one) for one in shares["ann"]] == ["clicks-0", "clicks-1", "clicks-2", "orders-1"]
    assert [str(one) for one in shares["ben"]] == ["orders-0", "orders-2"]


def test_what_may_be_asked_for_is_what_there_is() -> None:
    assert sorted(NAMES) == sorted(ASSIGNORS)
