"""A stream lingers for those who shared its last batch: who waits meanwhile is told, and nothing is lost."""

import asyncio

import pytest

from runtime import streams
from runtime.lanes import HeldLane
from runtime.ports import LaneLost
from tests.conformance.conftest import BOUND_S, Rig
from tests.conformance.counters import Tally, read_tally


async def lingering(rig: Rig, lane: HeldLane) -> tuple[Tally, "asyncio.Task[None]"]:
    """A batch that waits for the others of the last one."""
    tally = Tally(lane.name)
    for key in ("orders", "clicks"):
        tally.note(key, 1)
    await lane.submit_batch(tally)
    tally.note("orders", 2)
    waits = asyncio.create_task(lane.submit_batch(tally))
    await asyncio.sleep(0)
    return tally, waits


async def test_who_waits_is_told_that_the_node_stops(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "LINGER_S", 10 * BOUND_S)
    tally, waits = await lingering(rig, await rig.take())
    async with asyncio.timeout(BOUND_S):
        await rig.lanes.stop()
        with pytest.raises(LaneLost):
            await waits
    assert tally.acknowledged == {"coordinator/0:orders": 1, "coordinator/0:clicks": 1}


async def test_a_lane_that_is_lost_meanwhile_writes_nothing(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "LINGER_S", 0.05)
    lane = await rig.take()
    tally, waits = await lingering(rig, lane)
    lane.abandon()
    with pytest.raises(LaneLost):
        await waits
    assert rig.breakable.direct().call(read_tally) == tally.acknowledged
    assert tally.acknowledged == {"coordinator/0:orders": 1, "coordinator/0:clicks": 1}


async def test_a_node_that_freezes_meanwhile_writes_when_it_is_thawed(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "LINGER_S", 0.05)
    tally, waits = await lingering(rig, await rig.take())
    rig.freshness.freeze()
    done, _ = await asyncio.wait({waits}, timeout=0.2)
    assert not done and tally.acknowledged["coordinator/0:orders"] == 1
    rig.freshness.thaw()
    async with asyncio.timeout(BOUND_S):
        await waits
    assert tally.acknowledged["coordinator/0:orders"] == 2


async def test_a_read_that_comes_meanwhile_is_done_behind_the_batch(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "LINGER_S", 0.05)
    lane = await rig.take()
    _, waits = await lingering(rig, lane)
    assert (await lane.read(read_tally))["coordinator/0:orders"] == 2
    await waits


async def test_who_is_alone_again_lingers_for_nobody(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "LINGER_S", 0.05)
    lane = await rig.take()
    tally, waits = await lingering(rig, lane)
    await waits
    monkeypatch.setattr(streams, "LINGER_S", 10 * BOUND_S)
    async with asyncio.timeout(BOUND_S):
        for offset in range(3, 6):
            tally.note("orders", offset)
            await lane.submit_batch(tally)
    assert tally.acknowledged["coordinator/0:orders"] == 5
