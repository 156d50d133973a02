"""Redundant: one owner each, so many standbys as can be had, evenly, and they inherit what they know."""

from collections import Counter
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from coordinator.core.assignors import redundant, sticky
from coordinator.core.assignors.interface import Question, Shares, partitions_of
from muster.messages.partitions import Partition
from tests.simulation.native.topics import layout
from tests.unit.coordinator_core.test_assignors_share_fairly import CAST, questions


@st.composite
def copied(draw: st.DrawFn, *, alike: bool = False) -> Question:
    question = draw(questions(alike=alike))
    names = sorted(question.members)
    willing = frozenset(names if alike else draw(st.lists(st.sampled_from(names), unique=True)))
    standbys: dict[str, set[Partition]] = {}
    for topic in question.topics.values():
        for one in partitions_of(topic):
            for member in draw(st.lists(st.sampled_from(names), unique=True, max_size=2)):
                if question.owner_of.get(one) != member:
                    standbys.setdefault(member, set()).add(one)
    return replace(question, copies=draw(st.integers(2, 4)), willing=willing, standbys=standbys)


def holders(standbys: Shares) -> dict[Partition, list[str]]:
    found: dict[Partition, list[str]] = {}
    for member, partitions in standbys.items():
        for one in partitions:
            found.setdefault(one, []).append(member)
    return found


@given(copied())
def test_owners_have_as_many_as_by_the_sticky_assignor_and_move_no_more(question: Question) -> None:
    shares, even = redundant.assign(question), sticky.assign(question)
    assert {name: len(mine) for name, mine in shares.items()} == {n: len(m) for n, m in even.items()}

    def kept(found: Shares) -> set[Partition]:
        return {one for name, mine in found.items() for one in mine if question.owner_of.get(one) == name}

    assert kept(even) <= kept(shares)
    for member, partitions in shares.items():
        assert {one.topic for one in partitions} <= question.members[member].keys()


@given(copied())
def test_each_partition_has_so_many_standbys_as_can_be_had(question: Question) -> None:
    shares = redundant.assign(question)
    found = holders(redundant.stand_by(question, shares))
    for owner, partitions in shares.items():
        for one in partitions:
            able = [
                name for name in question.willing if one.topic in question.members[name] and name != owner
            ]
            standbys = found.get(one, [])
            assert set(standbys) <= set(able)
            assert len(standbys) == min(question.copies - 1, len(able))


@given(copied(alike=True))
def test_where_all_are_alike_nobody_holds_two_more_than_another(question: Question) -> None:
    shares = redundant.assign(question)
    standbys = redundant.stand_by(question, shares)
    loads = Counter({name: len(mine) for name, mine in shares.items()})
    loads.update({name: len(mine) for name, mine in standbys.items()})
    assert max(loads.values()) - min(loads.values()) <= 1


@given(copied())
def test_it_is_content_with_its_own_answer(question: Question) -> None:
    shares = redundant.assign(question)
    standbys = redundant.stand_by(question, shares)
    owner_of = {one: member for member, partitions in shares.items() for one in partitions}
    again = replace(question, owner_of=owner_of, standbys=standbys)
    assert redundant.assign(again) == shares
    assert redundant.stand_by(again, shares) == standbys


def test_whoever_stood_by_for_it_inherits_a_partition() -> None:
    topics = {"orders": layout("orders", 1, 6)}
    members = {name: {"orders": 1} for name in CAST[:3]}
    first = Question(members, topics, copies=2, willing=frozenset(members))
    shares = redundant.assign(first)
    standbys = redundant.stand_by(first, shares)
    gone = "cleo"
    left = {name: threads for name, threads in members.items() if name != gone}
    owner_of = {one: name for name, mine in shares.items() for one in mine if name != gone}
    present = {name: mine for name, mine in standbys.items() if name != gone}
    after = redundant.assign(Question(left, topics, owner_of, copies=2, standbys=present))
    heirs = {one: name for name, mine in present.items() for one in mine}
    inherited = [one for one in shares[gone] if one in after[heirs[one]]]
    assert len(inherited) == len(shares[gone])
