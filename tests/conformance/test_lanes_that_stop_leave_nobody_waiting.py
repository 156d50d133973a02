"""When a connection's lanes stop, whoever waits for a turn, a read, a batch or a lease is told."""

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from runtime.lanes import HeldLane
from runtime.ports import LaneLost
from tests.conformance.conftest import BOUND_S, Rig
from tests.conformance.counters import Tally


@pytest.fixture
def answer() -> Iterator[threading.Event]:
    """What a database does not say before the test is over."""
    event = threading.Event()
    yield event
    event.set()


def batch(lane: HeldLane) -> Any:
    tally = Tally(lane.name)
    tally.note("orders", 1)
    return lane.submit_batch(tally)


async def silence(lane: HeldLane, answer: threading.Event) -> "asyncio.Future[Any]":
    """A read that the database has begun to answer."""
    begun = threading.Event()

    def never_ending(connection: Any) -> None:
        begun.set()
        answer.wait(BOUND_S)

    read = asyncio.ensure_future(lane.read(never_ending))
    assert await asyncio.to_thread(begun.wait, BOUND_S)
    return read


async def test_what_is_queued_and_what_is_under_way(rig: Rig, answer: threading.Event) -> None:
    lane = await rig.take()
    under_way = await silence(lane, answer)
    queued = [
        asyncio.ensure_future(waiting)
        for waiting in (
            lane.submit_turn(rig.counters, "orders", 1),
            lane.read(lambda connection: None),
            batch(lane),
            lane.resign(),
            rig.take("coordinator/4"),
        )
    ]
    await asyncio.sleep(0)
    async with asyncio.timeout(BOUND_S):
        await rig.lanes.stop()
        turn, read, written, resigned, taken = await asyncio.gather(*queued, return_exceptions=True)
        with pytest.raises(LaneLost):
            await under_way
    assert all(isinstance(error, LaneLost) for error in (turn, read, written))
    assert resigned is False
    assert isinstance(taken, AssertionError)


async def test_a_batch_under_way(rig: Rig, answer: threading.Event) -> None:
    lane, tally, begun = await rig.take(), Tally("coordinator/0"), threading.Event()

    def never_ending(connection: Any, rows: Any) -> None:
        begun.set()
        answer.wait(BOUND_S)

    tally.write = never_ending
    tally.note("orders", 1)
    written = asyncio.ensure_future(lane.submit_batch(tally))
    assert await asyncio.to_thread(begun.wait, BOUND_S)
    async with asyncio.timeout(BOUND_S):
        await rig.lanes.stop()
        with pytest.raises(LaneLost):
            await written
    assert tally.acknowledged == {}


async def test_who_comes_later(rig: Rig) -> None:
    lane = await rig.take()
    await rig.lanes.stop()
    turn, read = lane.submit_turn(rig.counters, "orders", 1), lane.read(lambda connection: None)
    for late in (turn, read, batch(lane)):
        with pytest.raises(LaneLost):
            await late
    assert await lane.resign() is False
