"""Repair (section 2): who says in answer to a ping that it fetches other than its rows is told them all."""

from collections.abc import Mapping

import pytest

from coordinator.core.events import Say, SayLater
from muster.messages.member import StartFetcherRequest
from muster.messages.partitions import Partition, Position
from tests.unit.coordinator_core.group import SESSION_MS, Group, orders, ping_answer, said

ROWS = [orders(number) for number in range(6)]


def told(group: Group, fetched: Mapping[Partition, Position]) -> list[Partition]:
    """What StartFetcher names behind an answer by ann that she fetches this, in order."""
    group.wait(SESSION_MS // 3)
    decision = group.turn(ping_answer("ann", 1, dict(fetched)))
    starts = [
        saying.message
        for saying in decision.commands
        if isinstance(saying, Say | SayLater) and isinstance(saying.message, StartFetcherRequest)
    ]
    return sorted(
        Partition(topic.topic, topic.topic_id, one.partition)
        for start in starts
        for thread in start.ownership_info
        for topic in thread.assigned_parts
        for one in topic.partitions
    )


@pytest.mark.parametrize(
    "fetched",
    [[], ROWS[:-1], [*ROWS, orders(9)]],
    ids=["nothing", "all but one", "what is not hers, too"],
)
def test_it_is_told_everything_that_its_rows_say(fetched: list[Partition]) -> None:
    group = Group().settled("ann")
    assert sorted(group.rows.owned["ann"]) == ROWS
    assert told(group, dict.fromkeys(fetched, Position(5, 1))) == ROWS


def test_who_fetches_what_its_rows_say_is_told_nothing() -> None:
    group = Group().settled("ann")
    assert told(group, dict.fromkeys(ROWS, Position(5, 1))) == []


def test_who_fetches_nothing_is_told_again_with_each_ping_until_it_has_started() -> None:
    group = Group().settled("ann")
    for number in (1, 2):
        group.wait(SESSION_MS // 3)
        assert said(group.turn(ping_answer("ann", number, {})), StartFetcherRequest) == ["ann/1"]
