"""This room is a simulated node that may be the controller: its real service, door, leases and links.

Simulated are its loop and threads, the database (`runtime.memory`, and the cluster's rows in it), the network
(`wires`), and whether a broker's process is gone (`controller.presence`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

from controller.configuration import ServiceSettings
from controller.enrolment import Enrolment
from controller.links import BrokerLink
from controller.presence import Presence
from controller.service import ControllerService
from muster.kernel.instants import Instant
from muster.kernel.topology import Unread
from muster.messages import codec
from muster.messages.link.from_broker import BrokerHello
from muster.messages.link.to_broker import ToBroker
from runtime.database import Peer
from runtime.freshness import Freshness
from runtime.leases import LeaseKeeper
from runtime.making_way import Heard
from runtime.ports import CONTROLLER_LANE, Connection
from runtime.side import SideLink
from tests.simulation.leases.rows import LeasesDatabase, Store
from tests.simulation.looping import SimulatedThread
from tests.simulation.node_process import NodeProcess

if TYPE_CHECKING:
    from tests.simulation.leases.cluster import Cluster, Place
    from tests.simulation.leases.wires import Wire

Result = TypeVar("Result")


class ControllersNode(NodeProcess):
    """One node process, and NodeContext for the controller. `hangs`: its way to the database swallows all."""

    kafka_callers = None
    kafka_callers_at = Instant(0)

    def __init__(self, cluster: Cluster, place: Place) -> None:
        super().__init__(cluster.world, place.name, place.address)
        self.cluster, self.world, self.place = cluster, cluster.world, place
        self.hangs = False
        self.drains = False
        self.leapt_ms = 0
        self.wires: list[Wire] = []
        self.database = LeasesDatabase(cluster.rows, self)
        self.loop.perform(self._begin)

    @property
    def waits(self) -> bool:
        """Whether what it asks of the database is not answered now."""
        return self.hangs or self.cluster.rows.stands_still

    @property
    def is_controller(self) -> bool:
        """Whether it believes so, and takes links in."""
        return self.service.accepts_links

    def _begin(self) -> None:
        threads = partial(SimulatedThread, self.world, self.loop)
        self.service = ControllerService(cast(Any, self), ServiceSettings(), _nobody_reads)
        self.service.cluster._store = Store()
        self.service._presence = KnownPresence(self)
        self.freshness = Freshness(self.now)
        self.side = SideLink(self.database, lambda: self.keeper.run, "queries", threads)
        self.keeper = LeaseKeeper(
            self.database,
            self.name,
            self.address,
            {CONTROLLER_LANE: self.service},
            self.freshness,
            self.now,
            on_moved=self.cluster.leases_moved,
            leave=self._leave,
            threads=threads,
            heard=self.service.heard,
        )
        self._watch()
        self.loop.create_task(self.keeper.keep(), name="keeper")
        self._begin_duties()

    def _watch(self) -> None:
        """Look at each decision to make way, and at what is said to brokers; nothing of it is changed."""
        rule, checks = self.keeper._making_way, self.cluster.checks
        look, open_link = rule.look, self.service.link_opened

        def looked(
            run: str, peers: Sequence[Peer], heard: Heard, sent_at: Instant, controller: str, *, holds: bool
        ) -> Peer | None:
            to = look(run, peers, heard, sent_at, controller, holds=holds)
            if to is not None:
                checks.makes_way(self, to, heard)
            return to

        def opened(link: BrokerLink, hello: BrokerHello) -> None:
            say = link.say

            def said(frame: ToBroker, encode: Callable[[ToBroker], bytes] = codec.encode) -> None:
                checks.said(self, frame)
                say(frame, encode)

            link.say = said  # type: ignore[method-assign]
            open_link(link, hello)

        rule.look = looked  # type: ignore[method-assign]
        self.service.link_opened = opened  # type: ignore[method-assign]

    def _leave(self, reason: str) -> None:
        self.world.tell(f"  {self.name} leaves: {reason}")
        self.cluster.crash(self, is_powered=True)

    def leap(self, ms: int) -> None:
        """And it is known by how much in all."""
        super().leap(ms)
        self.leapt_ms += ms

    def end(self, *, is_powered: bool) -> None:
        """kill −9, or no power; of what its machine does not say nobody hears, the database neither."""
        self.status = "over"
        for wire in self.wires:
            wire.lose_node(is_powered=is_powered)
        if is_powered:
            self.refuse(self.cluster.nodes)
            self.database.break_all()
        else:
            # The server finds out by its keepalives.
            self.world.later(self.world.chance.uniform(4_000, 6_000), self.database.break_all)
        self.loop.end()

    # -- NodeContext ------------------------------------------------------------------------

    async def query(self, function: Callable[[Connection], Result]) -> Result:
        """What the service asks beside its lane: the secrets of brokers, and nothing else here."""
        assert function == Enrolment.load, f"the simulation has no answer to {function}"
        return cast(Result, await self.side.query(lambda rows: Enrolment(dict(rows.table("secrets")))))

    def wake(self, name: str, key: str = "") -> None:
        """Pages would hear of it."""


class KnownPresence(Presence):
    """Whether a broker's process is gone, where its machine can say so."""

    def __init__(self, node: ControllersNode) -> None:
        super().__init__()
        self._node = node

    async def meet(self, broker_id: int, address: str) -> None:
        """It is known where it is met."""

    async def until_gone(self, broker_id: int, address: str, within_ms: int) -> bool:
        await asyncio.sleep(0.02)
        broker = self._node.cluster.brokers.get(broker_id)
        path = self._node.cluster.path(broker_id, self._node.place)
        return path.is_whole and broker is not None and broker.status == "over" and broker.is_reachable


def _nobody_reads(connection: Connection, topic: str, first: int) -> Sequence[Unread]:
    return ()
