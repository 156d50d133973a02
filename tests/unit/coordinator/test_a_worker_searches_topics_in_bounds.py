"""Whatever patterns the members of a group have: a worker finds their topics soon, or says that it cannot."""

from itertools import count

import pytest
from msgspec import structs

from coordinator import patterns
from coordinator.core import rebalance
from coordinator.patterns import PatternsTakeTooLong, Search, matches
from groups.core.state import GroupRows
from muster.kernel.ids import TopicName
from muster.messages.member import TopicCount
from tests.simulation.native.topics import layout
from tests.unit.coordinator.shards import member

NAMES = [f"team-{number % 7}.orders-{number}" for number in range(500)] + [
    "Team-1.orders-1",
    "payments",
    "x" * 249,
]


@pytest.mark.parametrize(
    "pattern",
    [
        "team-3\\..*",
        "team-3.*1",
        ".*-1.?",
        "(?i)team-1.*",
        "payments|team-1.*",
        "[a-z]+",
        "x+",
        "x*y",
        "",
        "(",
        "^team-2.*$",
        "payments",
        "pay(ments)?",
        "\\Qteam-1.orders-1\\E",
        ".*",
        "[^t].*",
    ],
)
def test_it_finds_what_each_name_matches_by_itself(pattern: str) -> None:
    assert Search(NAMES)(pattern) == [name for name in NAMES if matches(pattern, name)]


def test_names_that_begin_otherwise_are_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patterns, "MATCHED_AT_ONCE", 1)
    ticks = count()
    search = Search(NAMES, most_s=1000, clock=lambda: float(next(ticks)))
    assert len(search("team-3\\.orders-1.*")) == len(
        [one for one in NAMES if one.startswith("team-3.orders-1")]
    )
    assert next(ticks) < 30


def test_who_shares_a_pattern_has_it_searched_once() -> None:
    search = Search(NAMES)
    assert search("team-3.*") is search("team-3.*")


def test_what_takes_too_long_is_given_up() -> None:
    ticks = count()
    search = Search(NAMES, most_s=5, clock=lambda: float(next(ticks)))
    assert search("payments") == ["payments"]
    with pytest.raises(PatternsTakeTooLong, match="takes too long"):
        search(".*1")


def test_what_stands_for_too_many_topics_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where many lists have a pattern in common: each of them is a list of topics of its own."""
    layouts = {TopicName(name): layout(name, number, 1) for number, name in enumerate(NAMES[:100])}
    lists = [(TopicCount(".*", is_pattern=True), TopicCount(f"mine-{number}")) for number in range(4)]
    members = {f"m-{n}": structs.replace(member(f"m-{n}"), topic_count=one) for n, one in enumerate(lists)}
    rows = GroupRows("readers", members=members)
    monkeypatch.setattr(rebalance, "PAIRS_MAX", 400)
    assert len(rebalance.compute(rows, layouts, matches, Search(layouts)).moves) == 4
    monkeypatch.setattr(rebalance, "PAIRS_MAX", 399)
    with pytest.raises(rebalance.TooManyTopics):
        rebalance.compute(rows, layouts, matches, Search(layouts))
