"""What fails again and again costs less each time, is told to people, and holds nobody else up."""

import asyncio
from collections.abc import Sequence
from itertools import takewhile
from typing import Any

import pytest
from psycopg import errors

from muster.kernel.decision import Decision
from muster.kernel.instants import Instant
from runtime.lanes import HeldLane
from runtime.ports import Lane, shard_lane
from runtime.refusals import Refused
from runtime.rests import FIRST_MS, LONGEST_MS, Rests
from runtime.suspects import TRIES_MAX
from runtime.turn import GaveUp, NotLoaded
from tests.conformance.counters import Added, Counter, Counters, CounterStore
from tests.unit.runtime.lanes_in_memory import lanes_in_memory, until
from tests.unit.runtime.test_an_outage_of_the_database_is_survived import LANE, Node, Service

MANY = 1_000


class Torn(CounterStore):
    """Rows of one counter cannot be read."""

    loads = 0

    def load(self, connection: Any, key: str) -> Counter:
        self.loads += 1
        raise ValueError("not what this program writes")


def looks_again_in_ms(lane: HeldLane) -> int:
    """When the only timer of the lane is due."""
    (timer,) = lane._timers.values()
    return round((timer.when() - asyncio.get_running_loop().time()) * 1000)


async def test_rows_that_cannot_be_read_are_read_again_later_each_time() -> None:
    async with lanes_in_memory() as rig:
        lane, counters = await rig.take(), Counters(Torn())
        rests = []
        for _ in range(8):
            await lane.submit_turn(counters, "orders")
            rests.append(looks_again_in_ms(lane))
        seconds = [round(rest / 1000) for rest in rests]
        assert seconds == [1, 2, 4, 8, 16, 30, 30, 30]


async def test_a_turn_that_succeeds_begins_the_rests_anew() -> None:
    async with lanes_in_memory() as rig:
        lane, counters, torn = await rig.take(), Counters(), Torn()
        sound = counters.store
        for _ in range(3):
            counters.store = torn
            counters.drop("orders")
            await lane.submit_turn(counters, "orders")
            assert round(looks_again_in_ms(lane) / 1000) == 1
            counters.store = sound
            rig.at += FIRST_MS
            await lane.submit_turn(counters, "orders", 0)


@pytest.mark.parametrize("error", [GaveUp("x"), errors.DiskFull("x"), NotLoaded("x")])
def test_what_the_database_is_to_blame_for_is_tried_again_soon(error: Exception) -> None:
    if isinstance(error, NotLoaded):
        error.__cause__ = errors.OutOfMemory("x")
    rests = Rests()
    assert [rests.after("orders", error) for _ in range(9)] == [FIRST_MS] * 9


def test_no_rest_is_longer_than_the_longest() -> None:
    rests = Rests()
    assert [rests.after("orders", ValueError()) for _ in range(99)][-1] == LONGEST_MS


class Watching(Counters):
    """Keeps in which order keys were decided, or failed."""

    def __init__(self) -> None:
        super().__init__()
        self.order: list[str] = []

    def decide(self, key: str, state: Counter, events: Sequence[int], now: Instant) -> Decision[Added, int]:
        self.order.append(key)
        return super().decide(key, state, events, now)


async def test_while_guilty_events_are_looked_for_others_of_the_connection_have_their_turns() -> None:
    async with lanes_in_memory() as rig:
        lane, other, counters = await rig.take(), await rig.take(shard_lane(4), 4), Watching()
        lane.hand_in(counters, "orders", *[-1, 1] * 8)
        for number in range(5):
            other.hand_in(counters, f"group-{number}", 1)
        await lane.submit_turn(counters, "orders")
        # Three turns begin the search; then each of its turns lets others have theirs.
        before = len([*takewhile(lambda key: key == "orders", counters.order)])
        last = max(place for place, key in enumerate(counters.order) if key != "orders")
        assert before <= 3
        assert last <= before + 5 * 2
        assert len(counters.refused) == 8
        assert counters.states["orders"].total == 8


async def test_of_many_guilty_events_a_bounded_number_of_turns_is_taken_and_the_rest_is_refused() -> None:
    async with lanes_in_memory() as rig:
        lane, counters = await rig.take(), Counters()
        await lane.submit_turn(counters, "orders", *[-1] * MANY)
        assert sum(len(events) for _, events in counters.refused) == MANY
        assert counters.decided <= TRIES_MAX + 3


class Burdened(Counters):
    """What time asks for fails until it was given up twice."""

    def decide(self, key: str, state: Counter, events: Sequence[int], now: Instant) -> Decision[Added, int]:
        if len([None for _, given_up in self.refused if not given_up]) < 2:
            raise ValueError("not now")
        return super().decide(key, state, events, now)


async def test_an_event_is_not_refused_for_what_fails_without_it() -> None:
    async with lanes_in_memory() as rig:
        lane, counters = await rig.take(), Burdened()
        await lane.submit_turn(counters, "orders", 3)
        assert [tuple(events) for _, events in counters.refused] == [(), ()]
        assert [number for _, number in counters.said] == [3]


async def test_what_comes_during_a_search_is_decided_behind_it() -> None:
    async with lanes_in_memory() as rig:
        lane, counters = await rig.take(), Counters()
        searched = asyncio.ensure_future(lane.submit_turn(counters, "orders", 1, -1, 2, 3))
        await until(lambda: bool(counters.refused))
        await lane.submit_turn(counters, "orders", 4)
        await searched
        assert [number for _, number in counters.said] == [1, 2, 3, 4]


class Unable(Service):
    """It cannot accept its lane."""

    accepts = 0

    async def accept(self, lane: Lane) -> None:
        self.accepts += 1
        raise ValueError("rows of no use")


async def test_a_lease_whose_service_cannot_accept_it_rests_and_people_are_told() -> None:
    node = Node()
    service = Unable()
    service.takes_leave.set()
    told: list[Refused] = []
    waited: list[int] = []
    node.keeper._holdings._services[LANE] = service
    node.keeper._holdings._on_refused = told.append
    try:
        for accepts, rest_ms in enumerate((FIRST_MS, 2 * FIRST_MS, 4 * FIRST_MS), start=1):
            await node.until(lambda: len(told) == len(waited) + 1 and LANE not in node.keeper.held)
            node.at += rest_ms - 10
            for _ in range(3):
                await node.renewed()
            assert service.accepts == accepts
            node.at += 10
            waited.append(rest_ms)
        await node.until(lambda: len(told) == 4)
        assert service.accepts == 4
        assert {(one.lane, one.key, one.events) for one in told} == {(LANE, "", ())}
    finally:
        await node.stop()
