"""Who takes over does not wait for a second look where the peer's process is known to have ended."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping

import pytest

from muster.kernel.instants import Instant
from runtime.freshness import Freshness
from runtime.leases import LeaseKeeper
from runtime.memory import MemoryDatabase, MemoryLink
from tests.unit.runtime.lanes_in_memory import AcceptingService

LANE = "coordinator/0"
OLD = "aaaa"
BOUND_S = 10.0


class Heir:
    """A keeper beside a peer that holds the lease; its clock stands, so that no second look counts."""

    def __init__(self) -> None:
        self.database = MemoryDatabase([LANE])
        self.peer: MemoryLink = self.database.connect(OLD, "session")
        self.peer.begin_run(OLD, "node-1", "ws://one:80")
        assert self.peer.take(LANE, 0, OLD)
        self.watched: Mapping[str, str] = {}
        self.looks = 0
        self.service = AcceptingService()
        self.keeper = LeaseKeeper(
            self.database,
            "node-2",
            "ws://two:80",
            {LANE: self.service},
            Freshness(self.now),
            self.now,
            keep_vigil=self._keep_vigil,
        )
        self.keeping = asyncio.create_task(self.keeper.keep())

    def now(self) -> Instant:
        return Instant(100_000)

    def _keep_vigil(self, addresses: Mapping[str, str]) -> None:
        self.watched = dict(addresses)
        self.looks += 1

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(BOUND_S):
            while not condition():
                await asyncio.sleep(0.005)

    async def look_often(self) -> None:
        enough = self.looks + 5

        def looked() -> bool:
            self.keeper.look_soon()
            return self.looks >= enough

        await self.until(looked)


@pytest.fixture
async def heir() -> AsyncIterator[Heir]:
    made = Heir()
    await made.until(lambda: made.watched == {OLD: "ws://one:80"})
    yield made
    made.keeping.cancel()
    await asyncio.gather(made.keeping, return_exceptions=True)
    await made.keeper.stop()


async def test_a_peer_without_session_whose_address_refuses_is_succeeded_at_once(heir: Heir) -> None:
    heir.peer.broken = True
    heir.keeper.refused(OLD)
    await heir.until(lambda: LANE in heir.keeper.held)
    # Whoever looks for the owner need not wait for the next look.
    assert heir.keeper.owner_address(LANE) == "ws://two:80"
    await heir.until(lambda: heir.service.lane is not None)
    await heir.until(lambda: heir.watched == {})


async def test_a_session_that_ends_a_moment_later_is_looked_for_soon(heir: Heir) -> None:
    heir.keeper.refused(OLD)
    looks = heir.looks
    await heir.until(lambda: heir.looks >= looks + 2)
    heir.peer.broken = True
    await heir.until(lambda: heir.service.lane is not None)


async def test_a_peer_without_session_is_looked_at_twice_where_nothing_is_known_of_its_address(
    heir: Heir,
) -> None:
    heir.peer.broken = True
    await heir.look_often()
    assert heir.service.lane is None


async def test_a_peer_whose_address_refuses_keeps_its_lease_while_its_session_lives(heir: Heir) -> None:
    heir.keeper.refused(OLD)
    await heir.look_often()
    assert heir.service.lane is None and heir.watched == {OLD: "ws://one:80"}
