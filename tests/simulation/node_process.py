"""This room is a simulated node's process: its loop, its way to the database, what it does by the clock.

Leases, freezing and judging are the product's (`runtime.leases`); which services run on them, a world says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial

from muster.kernel.instants import Instant, elapsed_ms
from runtime.database import Backend
from runtime.freshness import Freshness
from runtime.leases import LeaseKeeper
from runtime.memory import MemoryDatabase, MemoryLink
from runtime.ports import ConnectionLost, LiveNode
from tests.simulation.looping import SimulatedProcess
from tests.simulation.timeline import Clock, Timeline

TICK_MS = 100


class NodesDatabase:
    """The database as one node reaches it: not at all while it is `cut`."""

    def __init__(self, rows: MemoryDatabase, node: NodeProcess) -> None:
        self._rows = rows
        self._node = node
        self.links: list[MemoryLink] = []

    def connect(self, run: str, purpose: str) -> MemoryLink:
        """Open a link (Database.connect)."""
        if self._node.cut or self._node.loop.over:
            raise ConnectionLost("nobody is there")
        link = self._link(run, Backend(next(self._rows.numbers), 0))
        self._rows.links = [one for one in self._rows.links if not one.broken]
        self.links = [one for one in self.links if not one.broken]
        self._rows.links.append(link)
        self.links.append(link)
        return link

    def break_all(self) -> None:
        """Every connection is gone, at both ends."""
        for link in self.links:
            link.broken = True

    def _link(self, run: str, backend: Backend) -> MemoryLink:
        return MemoryLink(self._rows, run, backend)


class NodeProcess(SimulatedProcess):
    """One process, and what services ask of their node."""

    database: NodesDatabase
    freshness: Freshness
    keeper: LeaseKeeper

    def __init__(self, world: Timeline, name: str, address: str) -> None:
        super().__init__(world)
        self._world = world
        self.name = self.node = name
        self.address = address
        self.cut = False
        self.clock = Clock(world)
        self.now = self.clock.now

    # -- the process ------------------------------------------------------------------------

    def _begin_duties(self) -> None:
        self._expected = self.now()
        self.freshness.tick(self._expected)
        self._expected = Instant(self._expected + TICK_MS)
        self._wait_for_duty()

    def _wait_for_duty(self) -> None:
        delay_ms = max(self._expected - self.now(), 0)
        self._world.later(delay_ms, lambda: self.loop.perform(self._duty))

    def _duty(self) -> None:
        """What node.duties does by the clock."""
        now = self.now()
        late_ms = elapsed_ms(self._expected, now)
        if late_ms > TICK_MS:
            self.keeper.postpone(late_ms)
            self._expected = now
        self._expected = Instant(self._expected + TICK_MS)
        self.freshness.tick(now)
        self.keeper.watch(now)
        if not self.freshness.frozen:
            for service in self.keeper.running():
                service.tick(now)
            self._sweep(now)
        self._wait_for_duty()

    def _sweep(self, now: Instant) -> None:
        """What else it does now and then."""

    # -- faults -----------------------------------------------------------------------------

    def leap(self, ms: int) -> None:
        """A virtual machine was moved: its clock leaps, and nothing else knows."""
        self.clock.leap(ms)

    def leap_by_chance(self) -> str:
        """The same, by how much is drawn."""
        ms = self._world.chance.choice((300, 2_000, 6_000))
        self.leap(ms)
        return f"the clock of {self.name} leaps by {ms} ms"

    def break_next_commit(self) -> str:
        """A connection breaks around the next COMMIT on it."""
        fault = self._world.chance.choice(("lose_answer", "lose_request"))
        for link in self.database.links:
            setattr(link, fault, True)
        return f"{self.name}: {fault} of the next commit"

    def drain(self, ended: Callable[[], None]) -> None:
        """SIGTERM: its leases are given away; then the process ends."""

        async def until_it_has_none() -> None:
            await self.keeper.drain()
            self._world.soon(ended)

        self.loop.perform(self.loop.create_task, until_it_has_none())

    def cut_off(self) -> None:
        """PostgreSQL is out of reach, and knows it."""
        self.cut = True
        self.database.break_all()

    def reach_again(self) -> None:
        """PostgreSQL is there."""
        self.cut = False

    def refuse(self, peers: Iterable[NodeProcess]) -> None:
        """Connections of its peers break, and nobody listens there any more (`runtime.vigils`)."""
        run = self.keeper.run
        for peer in peers:
            if peer is not self and peer.status != "over":
                within_ms = self._world.chance.choice((1, 5, 40))
                self._world.later(within_ms, partial(peer.loop.perform, peer.keeper.refused, run))

    # -- NodeContext ------------------------------------------------------------------------

    @property
    def frozen(self) -> bool:
        return self.freshness.frozen

    def live_nodes(self) -> tuple[LiveNode, ...]:
        return self.keeper.live_nodes()

    def owner_address(self, lane: str) -> str | None:
        return self.keeper.owner_address(lane)

    def doubt_owner(self) -> None:
        self.keeper.doubt_owner()

    def owners(self) -> Mapping[str, LiveNode]:
        return self.keeper.owners()
