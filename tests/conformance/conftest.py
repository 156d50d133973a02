"""This room runs each test of the contract on both databases."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field

import pytest
import pytest_asyncio

from runtime import clock
from runtime.freshness import Freshness
from runtime.lanes import HeldLane, Lanes
from runtime.work_table import Offered
from tests.conformance.counters import Counters
from tests.conformance.databases import Breakable, BreakableMemory, BreakablePostgres

BOUND_S = 60.0


@pytest.fixture(params=["memory", "postgres"])
def breakable(request: pytest.FixtureRequest) -> Iterator[Breakable]:
    """One database; the same tests must pass on either."""
    made: Breakable
    if request.param == "memory":
        made = BreakableMemory()
    else:
        made = BreakablePostgres(request.getfixturevalue("fresh_database"))
    yield made
    made.close()


@dataclass
class Rig:
    """One node's lanes on the database, without a keeper: the test is the keeper."""

    breakable: Breakable
    lanes: Lanes
    freshness: Freshness
    run: str
    offered: list[Offered] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    counters: Counters = field(default_factory=Counters)

    async def take(self, name: str = "coordinator/0", seen_epoch: int = 0) -> HeldLane:
        """Take a lease and hold its lane."""
        index = int(name.rpartition("/")[2])
        lane = await self.lanes.take(name, index, seen_epoch, None, lambda: self.lost.append(name))
        assert lane is not None
        return lane


@pytest_asyncio.fixture
async def rig(breakable: Breakable) -> AsyncIterator[Rig]:
    """A node that was just renewed."""
    freshness = Freshness(clock.now, lease_ttl_ms=60_000)
    freshness.confirm(clock.now())
    freshness.thaw()
    run = "aaaaaaaaaaaaaaaa"
    session = breakable.database.connect(run, "session")
    session.begin_run(run, "node-1", "ws://127.0.0.1:9301")
    offered: list[Offered] = []
    lanes = Lanes(breakable.database, "node-1", run, freshness, clock.now, offered.extend)
    lanes.start()
    made = Rig(breakable, lanes, freshness, run, offered)
    yield made
    await lanes.stop()
    session.close()


@pytest.fixture
def until() -> Callable[[Callable[[], bool]], Awaitable[None]]:
    """Wait for a condition, with a bound."""

    async def wait(condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(BOUND_S):
            while not condition():
                await asyncio.sleep(0.005)

    return wait


@pytest.fixture
def until_sync() -> Callable[[Callable[[], bool]], None]:
    """Wait for a condition, with a bound, without a loop."""

    def wait(condition: Callable[[], bool]) -> None:
        give_up_at = time.monotonic() + BOUND_S
        while not condition():
            assert time.monotonic() < give_up_at, "the condition did not come true"
            time.sleep(0.01)

    return wait
