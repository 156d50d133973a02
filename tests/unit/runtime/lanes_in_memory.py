"""This room is a node's lanes on the database in memory, on a clock that the test moves."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from muster.kernel.instants import Instant
from runtime.freshness import Freshness
from runtime.lanes import HeldLane, Lanes
from runtime.memory import MemoryDatabase
from runtime.ports import CONTROLLER_LANE, Lane, shard_lane

RUN = "aaaaaaaaaaaaaaaa"
BOUND_S = 10.0


class AcceptingService:
    """What a keeper needs of a service (ports.LaneService): it accepts its lane, and lets all else pass."""

    lane: Lane | None = None

    async def accept(self, lane: Lane) -> None:
        self.lane = lane

    async def wind_down(self) -> None:
        pass

    async def give_up(self, new_owner: str | None) -> None:
        self.lane = None

    def freeze(self) -> None:
        pass

    def thaw(self, late_ms: int) -> None:
        pass

    def tick(self, now: Instant) -> None:
        pass

    def woken(self, name: str, key: str) -> None:
        pass

    def quiet_ms(self, now: Instant) -> int:
        return 0


class LanesInMemory:
    """Every lane may be taken; nobody renews, and nothing freezes by itself."""

    def __init__(self, database: MemoryDatabase | None = None, shards: int = 8) -> None:
        self.at = 100_000
        names = [CONTROLLER_LANE, *map(shard_lane, range(shards))]
        self.database = database or MemoryDatabase(names)
        self.freshness = Freshness(self.clock, lease_ttl_ms=1 << 40)
        self.freshness.confirm(self.clock())
        self.freshness.thaw()
        self.lost: list[str] = []
        self.lanes = Lanes(self.database, "node-1", RUN, self.freshness, self.clock, lambda items: None)

    def clock(self) -> Instant:
        return Instant(self.at)

    async def take(self, name: str = shard_lane(0), index: int = 0) -> HeldLane:
        """Take a lease that nobody has."""
        lane = await self.lanes.take(name, index, 0, None, lambda: self.lost.append(name))
        assert lane is not None
        return lane


@asynccontextmanager
async def lanes_in_memory(database: MemoryDatabase | None = None) -> AsyncIterator[LanesInMemory]:
    """Lanes that run until the test is over."""
    made = LanesInMemory(database)
    made.lanes.start()
    try:
        yield made
    finally:
        await made.lanes.stop()


async def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition, with a bound."""
    async with asyncio.timeout(BOUND_S):
        while not condition():
            await asyncio.sleep(0.001)
