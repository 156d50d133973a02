"""However many topics change, and whatever patterns groups have: the loop passes while they are matched."""

import asyncio
from dataclasses import replace

import pytest
from msgspec import structs

from coordinator import pattern_news, patterns
from coordinator.cluster_view import Gone
from coordinator.pattern_news import MATCHED_AT_ONCE, tell_whose_match
from groups.core.state import GroupRows
from muster.messages.member import TopicCount
from tests.simulation.native.topics import layout, layouts
from tests.unit.coordinator.shards import Shards, eventually, member, readers

NAMES = [f"flights-{number}" for number in range(20 * MATCHED_AT_ONCE)]


@pytest.fixture
def rounds(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """In which round of the loop each name was matched; a slice is over at once."""
    matched_in: list[int] = []
    round_now = 0

    def next_round() -> None:
        nonlocal round_now
        round_now += 1
        asyncio.get_running_loop().call_soon(next_round)

    match_it = patterns.matches

    def noted(pattern: str, topic: str) -> bool:
        if not matched_in:
            next_round()
        matched_in.append(round_now)
        return match_it(pattern, topic)

    monkeypatch.setattr(patterns, "matches", noted)
    monkeypatch.setattr(pattern_news, "SLICE_S", 0.0)
    return matched_in


async def test_the_loop_passes_between_some_names_and_the_next(rounds: list[int]) -> None:
    told: list[str] = []
    await tell_whose_match({"readers": ["orders-.*"]}, NAMES, told.append)
    assert told == []
    assert len(rounds) == len(NAMES)
    assert max(map(rounds.count, rounds)) <= 2 * MATCHED_AT_ONCE


async def test_a_pattern_of_many_groups_is_matched_once(rounds: list[int]) -> None:
    told: list[str] = []
    asked = {f"group-{number}": ["orders-.*", "flights-1.*"] for number in range(10)}
    await tell_whose_match(asked, NAMES, told.append)
    assert told == list(asked)
    assert len(rounds) < 2 * len(NAMES)


async def test_a_group_hears_of_a_topic_that_its_pattern_matches_when_the_loop_has_passed(
    rounds: list[int],
) -> None:
    async with Shards([by_pattern("orders.*")]) as shards:
        orders, more = layout("orders", 1, 1), layout("orders-uk", 2, 1)
        shards.premises.view._layouts = layouts(orders)
        service = await shards.serve("readers")
        await shards.settled("readers")
        assert not shards.rows("readers").handler_asked
        shards.premises.view._layouts = layouts(orders, more)
        rounds.clear()
        service._topics_changed(frozenset({"orders-uk"}), Gone(frozenset(), frozenset()))
        assert rounds == [], "nothing is matched while the news is spread"
        await eventually(lambda: shards.rows("readers").handler_asked)


def by_pattern(pattern: str) -> GroupRows:
    ann = structs.replace(member("ann"), topic_count=(TopicCount(pattern, is_pattern=True),))
    return replace(readers(ann=[0]), members={"ann": ann})
