"""Two nodes on one database: brokers come to the one that is not the controller, and soon it is."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest
from structlog.testing import capture_logs

from muster.kernel.instants import Instant
from runtime.freshness import Freshness
from runtime.judging import LONGEST_GAP_MS, LOOK_EVERY_MS
from runtime.leases import LeaseKeeper
from runtime.making_way import HOLD_MS, NOBODY, SETTLE_MS, Heard
from runtime.memory import MemoryDatabase
from runtime.ports import CONTROLLER_LANE
from runtime.sharing import QUIET_MS
from tests.unit.runtime.lanes_in_memory import AcceptingService

BOUND_S = 10.0
BROKERS = frozenset({1, 2, 3})


class Service(AcceptingService):
    """A controller in which something has just moved, or nothing for long."""

    quiet = 0

    def quiet_ms(self, now: Instant) -> int:
        return self.quiet


class Node:
    """One keeper with the controller's service, and what its door would hear."""

    def __init__(self, stage: "Stage", number: int) -> None:
        self.heard, self.service = NOBODY, Service()
        self.freshness = Freshness(stage.now)
        self.keeper = LeaseKeeper(
            stage.database,
            f"node-{number}",
            f"ws://{number}",
            {CONTROLLER_LANE: self.service},
            self.freshness,
            stage.now,
            on_moved=stage.look,
            heard=lambda: self.heard,
        )
        self.keeping = asyncio.create_task(self.keeper.keep())

    @property
    def is_controller(self) -> bool:
        return CONTROLLER_LANE in self.keeper.accepted


class Stage:
    """Two nodes on a clock that the test moves, look by look."""

    def __init__(self) -> None:
        self.at = 100_000
        self.database = MemoryDatabase([CONTROLLER_LANE])
        self.nodes: list[Node] = []
        self.nodes = [Node(self, 1), Node(self, 2)]

    def now(self) -> Instant:
        return Instant(self.at)

    def look(self) -> None:
        for node in self.nodes:
            node.keeper.look_soon()

    async def until(self, condition: Callable[[], bool]) -> None:
        """The clock goes on by one look of both nodes at a time until it is so."""
        async with asyncio.timeout(BOUND_S):
            while not condition():
                await self.pass_ms(LOOK_EVERY_MS)

    async def pass_ms(self, spent_ms: int) -> None:
        """So long, in steps that no node takes for a gap, of which each is looked at by both."""
        until = self.at + spent_ms
        while self.at < until:
            self.at = min(self.at + LONGEST_GAP_MS // 2, until)
            while any(node.freshness.age_ms > 0 for node in self.nodes):
                self.look()
                await asyncio.sleep(0.005)

    @property
    def controller(self) -> Node | None:
        return next((node for node in self.nodes if node.is_controller), None)

    async def stop(self) -> None:
        for node in self.nodes:
            node.keeping.cancel()
            await asyncio.gather(node.keeping, return_exceptions=True)
            await node.keeper.stop()


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    made = Stage()
    try:
        await made.until(lambda: made.controller is not None)
        await made.pass_ms(SETTLE_MS)
        yield made
    finally:
        await made.stop()


async def test_the_lease_goes_where_brokers_come_to_and_stays_there(stage: Stage) -> None:
    first = stage.controller
    (other,) = (node for node in stage.nodes if node is not first)
    assert first is not None
    other.heard = Heard(came=BROKERS)
    with capture_logs() as logged:
        await stage.until(lambda: other.is_controller)
    (line,) = (one for one in logged if "makes way" in one["event"])
    assert (line["came_there"], line["linked_here"]) == ([1, 2, 3], [])
    other.heard = Heard(linked=BROKERS)
    for node in stage.nodes:
        node.service.quiet = QUIET_MS
    await stage.pass_ms(3 * SETTLE_MS)
    assert stage.controller is other
    other.keeping.cancel()
    await other.keeper.drain()
    stage.nodes.remove(other)
    await stage.until(lambda: first.is_controller)
    await other.keeper.stop()


async def test_while_it_makes_way_it_goes_to_nobody_else_though_all_is_quiet(stage: Stage) -> None:
    """Whoever is to have it once made way for this node, and takes that back only when it is told."""
    first = stage.controller
    assert first is not None
    chosen = Node(stage, 3)
    stage.nodes.append(chosen)
    chosen.keeper._making_way.made_way_for = first.keeper.run
    await stage.pass_ms(SETTLE_MS)
    for node in stage.nodes:
        node.service.quiet = QUIET_MS
    assert stage.controller is first
    for node in stage.nodes:
        node.heard = Heard() if node is first else Heard(came=BROKERS)
    with capture_logs() as logged:
        await stage.until(lambda: stage.controller not in (first, None))
    assert stage.controller is chosen
    assert [line["to"] for line in logged if line["event"] == "lease given away"] == ["node-3"]


async def test_who_hears_its_brokers_stays_the_controller_whatever_others_tell(stage: Stage) -> None:
    first = stage.controller
    assert first is not None
    for node in stage.nodes:
        node.heard = Heard(came=BROKERS)
    first.heard = Heard(linked=BROKERS)
    await stage.pass_ms(SETTLE_MS + 5 * HOLD_MS)
    assert stage.controller is first
