"""A dead node's leases are taken in one go of each connection, which is not kept for long."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

from muster.kernel.instants import Instant
from runtime.freshness import Freshness
from runtime.lanes import HeldLane, Lanes
from runtime.memory import MemoryDatabase, MemoryLink
from runtime.ports import ConnectionLost, shard_lane
from runtime.taking import SLICE_MS
from runtime.threads import OneThread

Result = TypeVar("Result")
HEIR, DEAD = "bbbb", "aaaa"
SHARDS = 8
BOUND_S = 10.0


class Link(MemoryLink):
    """Notes what is asked of it; a take may take its time, or break the connection."""

    database: "Database"

    def take(self, name: str, seen_epoch: int, run: str) -> bool:
        self.database.at += self.database.take_ms
        if name == self.database.breaks_at:
            self.broken = True
            raise ConnectionLost("in the middle")
        taken = super().take(name, seen_epoch, run)
        self.database.said.append(name)
        return taken

    def terminate_run(self, run: str) -> None:
        self.database.said.append(f"end {run}")
        super().terminate_run(run)


class Database(MemoryDatabase):
    """Shards that a dead run holds, on a clock that only its statements move."""

    def __init__(self) -> None:
        super().__init__([shard_lane(shard) for shard in range(SHARDS)])
        self.at = 100_000
        self.take_ms = 0
        self.breaks_at = ""
        self.said: list[str] = []
        for shard in range(SHARDS):
            assert super().connect(DEAD, "lanes").take(shard_lane(shard), 0, DEAD)

    def connect(self, run: str, purpose: str) -> Link:
        made = Link(self, run, super().connect(run, purpose).backend)
        self.links[-1] = made
        return made

    def clock(self) -> Instant:
        return Instant(self.at)


class Calls(OneThread):
    """A thread that counts."""

    count = 0

    def run(self, function: Callable[[], Result]) -> "asyncio.Future[Result]":
        Calls.count += 1
        return super().run(function)


@asynccontextmanager
async def lanes_of(database: Database) -> AsyncIterator[Lanes]:
    freshness = Freshness(database.clock, lease_ttl_ms=1 << 40)
    freshness.confirm(database.clock())
    freshness.thaw()
    lanes = Lanes(database, "node-2", HEIR, freshness, database.clock, lambda items: None, Calls, streams=1)
    lanes.start()
    try:
        async with asyncio.timeout(BOUND_S):
            yield lanes
    finally:
        await lanes.stop()


async def take_all(lanes: Lanes) -> list[HeldLane | None]:
    takes = (
        lanes.take(shard_lane(shard), shard, 2 if shard == 3 else 1, DEAD, lambda: None)
        for shard in range(SHARDS)
    )
    return list(await asyncio.gather(*takes))


async def test_those_that_wait_together_cost_the_loop_one_step() -> None:
    database = Database()
    async with lanes_of(database) as lanes:
        Calls.count = 0
        taken = await take_all(lanes)
        # One more connects.
        assert Calls.count == 2
    assert database.said == [f"end {DEAD}", *map(shard_lane, range(SHARDS))]
    # Of one the epoch was another when its turn came: it was faster, whoever it was.
    assert [lane.epoch if lane else None for lane in taken] == [2, 2, 2, None, 2, 2, 2, 2]


async def test_others_have_their_turn_where_takes_have_to_wait() -> None:
    database = Database()
    database.take_ms = SLICE_MS // 2
    async with lanes_of(database) as lanes:
        (first,) = await asyncio.gather(lanes.take(shard_lane(0), 0, 1, DEAD, lambda: None))
        assert first is not None
        others = [lanes.take(shard_lane(shard), shard, 1, DEAD, lambda: None) for shard in range(1, SHARDS)]
        taking = asyncio.gather(*others)
        await asyncio.sleep(0)
        reading = first.read(lambda connection: database.said.append("read"))
        await asyncio.gather(taking, reading)
    names = [one for one in database.said if not one.startswith("end")]
    assert names[0] == shard_lane(0) and sorted(names)[:SHARDS] == sorted(map(shard_lane, range(SHARDS)))
    assert names.index("read") <= 3


async def test_those_that_were_taken_before_the_connection_broke_are_held() -> None:
    database = Database()
    database.breaks_at = shard_lane(5)
    async with lanes_of(database) as lanes:
        taken = await take_all(lanes)
        assert [lane is not None for lane in taken] == [True, True, True, False, True, False, False, False]
        first = taken[0]
        assert first is not None
        await first.prove()


async def test_who_waits_for_a_connection_that_stops_is_told() -> None:
    database = Database()
    async with lanes_of(database) as lanes:
        database.lock.acquire()
        taking = asyncio.ensure_future(take_all(lanes))
        await asyncio.sleep(0)
        stopping = asyncio.ensure_future(lanes.stop())
        assert await taking == [None] * SHARDS
        database.lock.release()
        await stopping
