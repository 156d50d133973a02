"""Commit batches of several lanes are one transaction; lost lanes and spoilt shares are found."""

import asyncio
import threading
from collections.abc import Mapping
from typing import Any

import pytest

from runtime import streams
from runtime.lanes import HeldLane
from runtime.ports import LaneLost
from tests.conformance.conftest import BOUND_S, Rig
from tests.conformance.counters import Tally, read_tally, take_slowly


def stored(rig: Rig) -> dict[str, int]:
    return rig.breakable.direct().call(read_tally)


async def test_a_batch_is_acknowledged_after_it_is_stored(rig: Rig) -> None:
    lane, tally = await rig.take(), Tally("coordinator/0")
    tally.note("orders", 7)
    await lane.submit_batch(tally)
    assert stored(rig) == tally.acknowledged == {"coordinator/0:orders": 7}


async def test_lanes_of_one_connection_share_a_transaction(rig: Rig) -> None:
    first, second = await rig.take(), await rig.take("coordinator/4")
    tallies = [Tally(first.name), Tally(second.name)]
    for tally in tallies:
        tally.note("orders", 1)
    await asyncio.gather(first.submit_batch(tallies[0]), second.submit_batch(tallies[1]))
    assert stored(rig) == {"coordinator/0:orders": 1, "coordinator/4:orders": 1}


async def test_the_lost_lane_is_answered_and_the_rest_is_written(rig: Rig) -> None:
    mine, lost = await rig.take(), await rig.take("coordinator/4")
    assert rig.breakable.direct().take(lost.name, lost.epoch, "bbbbbbbbbbbbbbbb")
    tallies = [Tally(mine.name), Tally(lost.name)]
    for tally in tallies:
        tally.note("orders", 1)
    results = await asyncio.gather(
        mine.submit_batch(tallies[0]), lost.submit_batch(tallies[1]), return_exceptions=True
    )
    assert results[0] is None
    assert isinstance(results[1], LaneLost)
    assert stored(rig) == {"coordinator/0:orders": 1}
    assert tallies[1].acknowledged == {}
    assert rig.lost == ["coordinator/4"]


async def test_who_shared_a_batch_shares_the_next_one(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "LINGER_S", 0.2)
    lane, tally = await rig.take(), Tally("coordinator/0")
    for key in ("orders", "clicks"):
        tally.note(key, 1)
    await lane.submit_batch(tally)
    tally.note("orders", 2)
    first = asyncio.create_task(lane.submit_batch(tally))
    for _ in range(5):
        await asyncio.sleep(0)
    tally.note("clicks", 2)
    await first
    assert stored(rig) == {"coordinator/0:orders": 2, "coordinator/0:clicks": 2}


class TwoCrowds(Tally):
    """Some ask while others have their batch, who ask again as soon as they are answered."""

    def __init__(self, lane: HeldLane) -> None:
        super().__init__(lane.name)
        self._held = lane
        self.batches: list[list[str]] = []

    def gather(self) -> Mapping[Any, Any]:
        rows = super().gather()
        self.batches.append(sorted(rows))
        if len(self.batches) == 1:
            asyncio.get_running_loop().call_soon(self._ask, "views")
        return rows

    def committed(self, rows: Mapping[Any, Any]) -> None:
        super().committed(rows)
        if len(self.batches) == 1:
            asyncio.get_running_loop().call_soon(self._ask, "orders")

    def _ask(self, key: str) -> None:
        self.note(key, 2)
        self._held.offer_batch(self)


async def test_two_crowds_that_take_turns_become_one(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "LINGER_S", 0.2)
    lane = await rig.take()
    tally = TwoCrowds(lane)
    for key in ("orders", "clicks"):
        tally.note(key, 1)
    await lane.submit_batch(tally)
    async with asyncio.timeout(BOUND_S):
        while len(tally.acknowledged) < 3:
            await asyncio.sleep(0.01)
    assert tally.batches == [
        ["coordinator/0:clicks", "coordinator/0:orders"],
        ["coordinator/0:orders", "coordinator/0:views"],
    ]


async def test_a_batch_waits_for_a_lease_that_is_being_taken_and_then_writes_nothing(rig: Rig) -> None:
    lane, tally = await rig.take(), Tally("coordinator/0")
    begun, decided = threading.Event(), threading.Event()

    def take(connection: Any) -> None:
        take_slowly(connection, lane.name)
        begun.set()
        decided.wait(BOUND_S)

    taking = asyncio.create_task(asyncio.to_thread(rig.breakable.direct().transaction, take))
    assert await asyncio.to_thread(begun.wait, BOUND_S)
    tally.note("orders", 7)
    batch = asyncio.create_task(lane.submit_batch(tally))
    await asyncio.to_thread(rig.breakable.wait_until_blocked)
    assert not batch.done()
    decided.set()
    await taking
    with pytest.raises(LaneLost):
        await batch
    assert stored(rig) == tally.acknowledged == {}


async def test_the_share_that_cannot_be_written_spoils_no_other(rig: Rig) -> None:
    first, second = await rig.take(), await rig.take("coordinator/4")
    good, bad = Tally(first.name), Tally(second.name)
    good.note("orders", 1)
    bad.note("orders", -1)
    results = await asyncio.gather(first.submit_batch(good), second.submit_batch(bad), return_exceptions=True)
    assert results[0] is None
    assert isinstance(results[1], Exception)
    assert stored(rig) == good.acknowledged == {"coordinator/0:orders": 1}
    assert len(bad.refusals) == 1


@pytest.mark.parametrize("lost", ["answer", "request"])
async def test_a_batch_of_unknown_outcome_is_written_again_under_the_next_epoch(rig: Rig, lost: str) -> None:
    lane, tally = await rig.take(), Tally("coordinator/0")
    tally.note("orders", 1)
    await lane.submit_batch(tally)
    if lost == "answer":
        rig.breakable.lose_answer()
    else:
        rig.breakable.lose_request()
    tally.note("orders", 2)
    await lane.submit_batch(tally)
    assert stored(rig) == tally.acknowledged == {"coordinator/0:orders": 2}
    assert lane.epoch == 2


async def test_a_read_proves_the_lease_after_it(rig: Rig) -> None:
    lane, tally = await rig.take(), Tally("coordinator/0")
    tally.note("orders", 1)
    await lane.submit_batch(tally)
    assert await lane.read(read_tally) == {"coordinator/0:orders": 1}
    assert rig.breakable.direct().take(lane.name, lane.epoch, "bbbbbbbbbbbbbbbb")
    with pytest.raises(LaneLost):
        await lane.read(read_tally)
