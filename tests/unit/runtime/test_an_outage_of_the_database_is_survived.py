"""A node outlives its database's absence, gives lost time back, and leaves only where it alone is stuck."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from structlog.testing import capture_logs

from muster.kernel.instants import Instant
from runtime import streams
from runtime.database import Backend
from runtime.freshness import LEASE_TTL_MS, Freshness
from runtime.leases import LeaseKeeper
from runtime.memory import MemoryDatabase, MemoryLink
from runtime.ports import ConnectionLost, Lane, LaneLost
from runtime.sharing import WAIT_FOR_BEST_MS
from tests.conformance.counters import Counters
from tests.unit.runtime.lanes_in_memory import AcceptingService

LANE = "coordinator/0"
BOUND_S = 10.0


class Outage(MemoryDatabase):
    """A database that goes away; `only_sessions` lets nobody but the keeper's session come back."""

    gone = False
    only_sessions = False
    refused = 0

    def connect(self, run: str, purpose: str) -> MemoryLink:
        if self.gone or (self.only_sessions and purpose != "session"):
            self.refused += 1
            raise ConnectionLost("nobody is there")
        return super().connect(run, purpose)

    def leave(self) -> None:
        self.gone = True
        for link in self.links:
            link.broken = True


@dataclass
class Service(AcceptingService):
    """Counts what the keeper tells it."""

    given_back_ms: list[int] = field(default_factory=list)
    takes_leave: asyncio.Event = field(default_factory=asyncio.Event)
    loads: asyncio.Event | None = None

    async def accept(self, lane: Lane) -> None:
        await super().accept(lane)
        if self.loads is not None:
            await self.loads.wait()
            lane.hand_in(Counters(), "orders", 1)

    async def give_up(self, new_owner: str | None) -> None:
        await self.takes_leave.wait()
        await super().give_up(new_owner)

    def thaw(self, late_ms: int) -> None:
        self.given_back_ms.append(late_ms)


class Node:
    """A keeper with one service, on a clock that the test moves."""

    def __init__(self) -> None:
        self.at = 100_000
        self.database = Outage([LANE])
        self.freshness = Freshness(self.now)
        self.service = Service()
        self.left: list[str] = []
        self.keeper = LeaseKeeper(
            self.database,
            "node-1",
            "ws://one",
            {LANE: self.service},
            self.freshness,
            self.now,
            leave=self.left.append,
        )
        self.keeping = asyncio.create_task(self.keeper.keep())

    def now(self) -> Instant:
        return Instant(self.at)

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(BOUND_S):
            while not condition():
                self.keeper.look_soon()
                await asyncio.sleep(0.005)

    async def renewed(self) -> None:
        """Wait until a renewal that was sent from now on has gone through."""
        self.at += 1
        await self.until(lambda: self.freshness.age_ms == 0)

    async def stop(self) -> None:
        self.keeping.cancel()
        await asyncio.gather(self.keeping, return_exceptions=True)
        await self.keeper.stop()


@pytest.fixture
async def taking() -> AsyncIterator[Node]:
    """A node whose service is still loading under its lease."""
    made = Node()
    made.service.takes_leave.set()
    made.service.loads = asyncio.Event()
    await made.until(lambda: made.service.lane is not None)
    yield made
    made.service.loads.set()
    await made.stop()


@pytest.fixture
async def node() -> AsyncIterator[Node]:
    made = Node()
    made.service.takes_leave.set()
    await made.until(lambda: made.service.lane is not None and LANE in made.keeper.accepted)
    yield made
    await made.stop()


async def test_a_lane_that_waited_through_an_outage_is_no_reason_to_leave(node: Node) -> None:
    assert node.service.lane is not None
    counters = Counters()
    node.database.leave()
    turn = asyncio.ensure_future(node.service.lane.submit_turn(counters, "orders", 1))
    await asyncio.sleep(0.02)
    node.at += 2 * LEASE_TTL_MS
    node.keeper.watch(node.now())
    # The session is first to come back, the lane connects a moment later.
    node.database.gone, node.database.only_sessions = False, True
    await node.until(lambda: not node.freshness.frozen)
    node.keeper.watch(node.now())
    assert node.left == []
    node.database.only_sessions = False
    async with asyncio.timeout(BOUND_S):
        await turn
    assert counters.said == [("orders", 1)]


@pytest.fixture
def may_turn(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Until it is set, no turn that is asked of the database is answered."""
    may, turn = threading.Event(), MemoryLink.turn

    def wait(link: MemoryLink, *asked: Any) -> Any:
        may.wait()
        return turn(link, *asked)

    monkeypatch.setattr(MemoryLink, "turn", wait)
    yield may
    may.set()


async def test_a_lane_that_commits_nothing_though_renewals_do_ends_the_node(
    node: Node, may_turn: threading.Event
) -> None:
    assert node.service.lane is not None
    turn = asyncio.ensure_future(node.service.lane.submit_turn(Counters(), "orders", 1))
    await node.renewed()
    for _ in range(2 * LEASE_TTL_MS // 900):
        node.at += 900
        await node.renewed()
        node.keeper.watch(node.now())
    assert node.left
    may_turn.set()
    async with asyncio.timeout(BOUND_S):
        await turn


async def test_a_loop_that_stood_still_while_a_lane_waited_ends_no_node(
    node: Node, may_turn: threading.Event
) -> None:
    """What the database answered meanwhile is heard only behind the tick."""
    assert node.service.lane is not None
    turn = asyncio.ensure_future(node.service.lane.submit_turn(Counters(), "orders", 1))
    for _ in range(2):
        await node.renewed()
        node.at += 900
        node.keeper.watch(node.now())
    await node.renewed()
    stop_ms = LEASE_TTL_MS - 1_000
    node.at += stop_ms
    node.keeper.postpone(stop_ms)
    node.keeper.watch(node.now())
    assert node.left == []
    # But what stands still beside a loop that goes on is stuck.
    for _ in range(2 * LEASE_TTL_MS // 900):
        await node.renewed()
        node.at += 900
        node.keeper.watch(node.now())
    assert node.left
    may_turn.set()
    async with asyncio.timeout(BOUND_S):
        await turn


async def lose_lanes(node: Node, beside: Callable[[], object] = lambda: None) -> "asyncio.Future[None]":
    """Only sessions get a connection for two lease times, and a turn waits for one; `beside` each second."""
    assert node.service.lane is not None
    node.database.only_sessions = True
    for link in node.database.links:
        link.broken = True
    turn = asyncio.ensure_future(node.service.lane.submit_turn(Counters(), "orders", 1))
    await node.renewed()
    for _ in range(2 * LEASE_TTL_MS // 900):
        node.at += 900
        beside()
        await node.renewed()
        node.keeper.watch(node.now())
    return turn


async def test_a_node_alone_waits_for_the_connection_of_a_lane(node: Node) -> None:
    """Who has none left to give may have one again; a process that ended nobody starts again."""
    run = node.keeper.run
    turn = await lose_lanes(node)
    assert (node.left, node.keeper.run) == ([], run)
    node.database.only_sessions = False
    async with asyncio.timeout(BOUND_S):
        await turn


async def test_where_there_is_another_node_it_may_serve_what_gets_no_connection_here(node: Node) -> None:
    run, other = node.keeper.run, MemoryLink(node.database, "b" * 16, Backend(0, 0))
    node.database.links.append(other)
    other.begin_run(other.run, "node-2", "ws://two")

    def renew() -> None:
        other.broken = False
        other.renew(other.run)

    turn = await lose_lanes(node, renew)
    assert node.left == [], "its process goes on"
    await node.until(lambda: node.keeper.run != run)
    assert [one.run for one in other.renew(other.run).peers] in ([], [node.keeper.run])
    async with asyncio.timeout(BOUND_S):
        with pytest.raises(LaneLost):
            await turn


async def test_a_node_that_gives_way_does_so_once(node: Node) -> None:
    """Not with each look at the clock until its next renewal finds its run ended."""
    other = MemoryLink(node.database, "b" * 16, Backend(0, 0))
    node.database.links.append(other)
    other.begin_run(other.run, "node-2", "ws://two")
    node.database.only_sessions = True
    for link in node.database.links:
        link.broken = link is not other
    assert node.service.lane is not None
    turn = asyncio.ensure_future(node.service.lane.submit_turn(Counters(), "orders", 1))
    run = node.keeper.run
    with capture_logs() as logged:
        while node.keeper.run == run:
            node.at += 900
            other.renew(other.run)
            await node.renewed()
            for _ in range(4):
                node.keeper.watch(node.now())
                await asyncio.sleep(0.02)
    assert len([one for one in logged if "others may serve" in one["event"]]) == 1
    async with asyncio.timeout(BOUND_S):
        with pytest.raises(LaneLost):
            await turn


async def test_a_lane_says_an_outage_once_not_at_every_try(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "RECONNECT_S", 0)
    assert node.service.lane is not None
    with capture_logs() as logs:
        node.database.only_sessions = True
        for link in node.database.links:
            link.broken = True
        tries = node.database.refused
        turn = asyncio.ensure_future(node.service.lane.submit_turn(Counters(), "orders", 1))
        await node.until(lambda: node.database.refused >= tries + 30)
        node.database.only_sessions = False
        async with asyncio.timeout(BOUND_S):
            await turn
    assert [line["event"] for line in logs].count("lane connection failed") == 1


async def test_a_keeper_that_is_told_to_end_and_to_look_at_once_ends(node: Node) -> None:
    await node.renewed()
    await asyncio.sleep(0.05)
    node.keeper.look_soon()
    # One round of the loop later the look is under way to the keeper, and so is the end.
    await asyncio.sleep(0)
    node.keeping.cancel()
    done, _ = await asyncio.wait([node.keeping], timeout=BOUND_S)
    assert done


async def test_a_stop_is_given_back_though_a_lane_woke_up_first(node: Node) -> None:
    node.at += LEASE_TTL_MS + 2_000
    # A lane looks before the clock's own tick, and finds the renewal too old.
    looking = asyncio.ensure_future(node.freshness.wait())
    await asyncio.sleep(0)
    assert node.freshness.announced
    node.keeper.postpone(LEASE_TTL_MS + 2_000)
    node.keeper.watch(node.now())
    await node.renewed()
    async with asyncio.timeout(BOUND_S):
        await looking
    assert sum(node.service.given_back_ms) >= LEASE_TTL_MS + 2_000


async def test_a_node_that_freezes_says_why(node: Node) -> None:
    with capture_logs() as logs:
        await node.renewed()
        await node.until(lambda: node.keeper._sent_at is None)
        # Nobody moves but the clock: the node's own loop has stood still.
        node.at += LEASE_TTL_MS
        node.keeper.watch(node.now())
        await node.renewed()
        tries = node.database.refused
        node.database.leave()
        await node.until(lambda: node.database.refused > tries)
        node.at += LEASE_TTL_MS
        node.keeper.watch(node.now())
    assert [line["why"] for line in logs if line["event"] == "frozen"] == [
        "no renewal was sent: this process stood still",
        "renewals fail: nobody is there",
    ]


async def test_a_node_whose_run_was_ended_does_not_take_its_own_machine_for_the_reason(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.service.takes_leave.set()
    await node.renewed()
    tries: list[str] = []

    def refuse(_link: MemoryLink, run: str, *_told: str) -> int:
        tries.append(run)
        raise ConnectionLost("no room")

    monkeypatch.setattr(MemoryLink, "begin_run", refuse)
    peer, renewals = node.database.connect("b" * 16, "session"), 0
    while not peer.end_run(node.keeper.run, renewals):
        renewals += 1
    with capture_logs() as logs:
        await node.until(lambda: len(tries) > 1)
        node.keeper.watch(node.now())
    assert [line["why"] for line in logs if line["event"] == "frozen"] == ["no run can begin: no room"]


async def test_time_that_a_thaw_gives_back_is_not_given_twice(node: Node) -> None:
    node.database.leave()
    node.at += LEASE_TTL_MS
    node.keeper.watch(node.now())
    node.at += 3_000
    node.keeper.postpone(2_900)
    node.database.gone = False
    await node.renewed()
    assert node.service.given_back_ms == [3_001]


async def test_a_stop_is_given_back_to_a_lane_that_is_still_loading(taking: Node) -> None:
    """What it armed before the stop would expire right after it: everybody's session at once."""
    assert LANE not in taking.keeper.accepted
    taking.keeper.postpone(500)
    taking.database.leave()
    taking.at += LEASE_TTL_MS
    taking.keeper.watch(taking.now())
    taking.at += 3_000
    taking.database.gone = False
    await taking.renewed()
    assert taking.service.given_back_ms == [500, 3_001]


async def test_a_lease_comes_back_only_after_the_farewell_to_its_old_lane(node: Node) -> None:
    service, old = node.service, node.service.lane
    assert old is not None
    service.takes_leave.clear()
    # Somebody else takes the lease, and is gone at once: it is free again.
    assert node.database.connect("robber", "lanes").take(LANE, old.epoch, "robber")
    with pytest.raises(LaneLost):
        await old.submit_turn(Counters(), "orders", 1)
    for _ in range(3):
        node.at += WAIT_FOR_BEST_MS
        await node.renewed()
    assert service.lane is old and LANE not in node.keeper.held
    service.takes_leave.set()
    await node.until(lambda: LANE in node.keeper.accepted)
    assert service.lane not in (None, old)


async def test_a_lease_that_is_given_away_while_its_service_loads_is_no_mistake(taking: Node) -> None:
    assert taking.service.loads is not None
    with capture_logs() as said:
        giving = asyncio.create_task(taking.keeper._holdings.give(LANE, None))
        await asyncio.sleep(0)
        taking.service.loads.set()
        await giving
    assert taking.service.lane is None
    assert [line["event"] for line in said] == ["lease given away"]


async def test_a_run_that_ends_does_not_cut_a_farewell_short(node: Node) -> None:
    """Its service would have forgotten half, and be asked to accept the lease again."""
    service, old = node.service, node.service.lane
    service.takes_leave.clear()
    giving = asyncio.create_task(node.keeper._holdings.give(LANE, None))
    await node.until(lambda: LANE not in node.keeper.held)
    giving.cancel()
    for _ in range(3):
        node.at += WAIT_FOR_BEST_MS
        await node.renewed()
    assert service.lane is old and LANE not in node.keeper.held
    service.takes_leave.set()
    await node.until(lambda: LANE in node.keeper.accepted)
    assert service.lane not in (None, old)
