"""A batch of commits is never a long transaction, and one that was ended for its length comes back short."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from runtime.ports import ConnectionLost, shard_lane
from runtime.streams import BATCH_ROWS_MAX
from tests.conformance.counters import Counters, Tally, read_tally, write_tally
from tests.unit.runtime.lanes_in_memory import lanes_in_memory

MANY = 25_000


class Measured(Tally):
    """Notes how many rows each transaction had; the server ends those above `limit`."""

    limit = MANY

    def fill(self) -> "Measured":
        self.sizes: list[int] = []
        for number in range(MANY):
            self.note(str(number), number)
        return self

    def write(self, connection: Any, rows: Mapping[str, int]) -> None:
        self.sizes.append(len(rows))
        if len(rows) > self.limit:
            raise ConnectionLost("terminating connection due to transaction timeout")
        write_tally(connection, rows)


async def test_no_transaction_has_more_rows_than_the_limit() -> None:
    async with lanes_in_memory() as rig:
        lane, tally = await rig.take(), Measured("coordinator/0").fill()
        await lane.submit_batch(tally)
        assert max(tally.sizes) <= BATCH_ROWS_MAX
        assert len(await lane.read(read_tally)) == len(tally.acknowledged) == MANY


async def test_a_batch_that_was_ended_is_not_tried_again_as_it_was() -> None:
    async with lanes_in_memory() as rig:
        lane, tally = await rig.take(), Measured("coordinator/0").fill()
        tally.limit = 3_000
        await lane.submit_batch(tally)
        assert tally.sizes.count(max(tally.sizes)) == 1
        assert len(await lane.read(read_tally)) == len(tally.acknowledged) == MANY
        assert tally.refusals == []


class InPortions(Tally):
    """Gives one of its rows at a time, and nothing for each refused one."""

    refused_ones: tuple[str, ...] = ()

    def gather(self) -> Mapping[Any, Any]:
        key = next(iter(self.waiting))
        number = self.waiting.pop(key)
        self.has_more = bool(self.waiting)
        return {} if key in self.refused_ones else {key: number}


async def test_a_source_that_has_more_is_asked_again_before_its_lane_takes_a_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with lanes_in_memory() as rig:
        lane, counters = await rig.take(), Counters()
        tally = InPortions("coordinator/0")
        for number in range(4):
            tally.note(str(number), number)
        tally.refused_ones = ("coordinator/0:1",)
        written: list[int] = []
        decide = counters.decide

        def decided(*given: Any) -> Any:
            written.append(len(tally.acknowledged))
            return decide(*given)

        monkeypatch.setattr(counters, "decide", decided)
        waiting = asyncio.create_task(lane.submit_batch(tally))
        await asyncio.sleep(0)
        await lane.submit_turn(counters, "orders", 1)
        assert waiting.done(), "whoever waits does so for all of it, and hears of it first"
        assert written == [3]


async def test_what_is_refused_portion_by_portion_lets_others_have_the_loop_in_between() -> None:
    async with lanes_in_memory() as rig:
        lane, tally = await rig.take(), InPortions("coordinator/0")
        for number in range(3):
            tally.note(str(number), number)
        tally.refused_ones = tuple(tally.waiting)
        rounds = 0

        def count() -> None:
            nonlocal rounds
            rounds += 1
            if tally.waiting:
                asyncio.get_running_loop().call_soon(count)

        asyncio.get_running_loop().call_soon(count)
        await lane.submit_batch(tally)
        assert rounds >= 3


async def test_what_one_lane_has_much_of_is_not_written_before_a_little_of_another() -> None:
    async with lanes_in_memory() as rig:
        lanes = [await rig.take(shard_lane(number), number) for number in (0, 4)]
        much, little = InPortions("coordinator/0"), Tally("coordinator/4")
        for number in range(3):
            much.note(str(number), number)
        little.note("clicks", 1)
        first, second = (
            asyncio.create_task(lane.submit_batch(tally))
            for lane, tally in zip(lanes, (much, little), strict=True)
        )
        done, _ = await asyncio.wait((first, second), return_when=asyncio.FIRST_COMPLETED)
        assert done == {second}
        await first
        assert len(much.acknowledged) == 3
