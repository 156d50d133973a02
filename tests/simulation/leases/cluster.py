"""This room is one seed's cast: places where nodes run, brokers, the paths between them, and one database."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, NamedTuple

from broker.link import LINK_PATH
from tests.simulation.leases.broker import Broker
from tests.simulation.leases.checks import Checks
from tests.simulation.leases.node import ControllersNode
from tests.simulation.leases.rows import Rows
from tests.simulation.leases.wires import Path, Wire
from tests.simulation.timeline import Timeline


@dataclass(eq=False)
class Place:
    """A machine that runs a node under one name and address, again after each end of its process."""

    name: str
    address: str
    is_powered: bool = True
    node: ControllersNode | None = None
    paths: dict[int, Path] = field(default_factory=dict)


class Reach(NamedTuple):
    """Which brokers could talk with which nodes since `at`, and which were registered."""

    at: float
    registered: frozenset[int]
    by_node: Mapping[str, frozenset[int]]


class Shape(NamedTuple):
    """How many there are; `newcomers` are brokers that are let in, and were never registered."""

    nodes: int
    brokers: int
    newcomers: frozenset[int] = frozenset()


def _drawn(chance: Random) -> Shape:
    brokers = chance.choice((3, 3, 4, 5))
    newcomers = frozenset(one for one in range(1, brokers + 1) if chance.random() < 0.25)
    return Shape(chance.choice((2, 3, 3, 4)), brokers, newcomers)


class Cluster:
    """The world and everybody in it."""

    def __init__(self, seed: int, shape: Shape | None = None) -> None:
        self.world = world = Timeline(seed)
        self.is_fair = shape is None and seed % 8 == 0
        """Nothing is broken in these."""
        self.is_slow = shape is None and seed % 4 == 1
        """In these the network alone breaks, and the lease has time to go where it should in between."""
        self.tells_all = shape is not None
        """Else one in five brokers is told of one node alone."""
        shape = shape or _drawn(world.chance)
        self.broker_ids = tuple(range(1, shape.brokers + 1))
        self.newcomers = shape.newcomers
        self.rows = Rows(one for one in self.broker_ids if one not in self.newcomers)
        self.heartbeat_interval_ms = world.chance.choice((500, 1_000, 2_000))
        self.places = [Place(f"node-{one}", f"ws://127.0.0.1:{one}") for one in range(1, shape.nodes + 1)]
        for place in self.places:
            place.paths = {one: Path(world) for one in self.broker_ids}
        self.brokers: dict[int, Broker] = {}
        """The last process of each."""
        self.nodes: list[ControllersNode] = []
        self.reached: list[Reach] = []
        self.checks = Checks(self)
        self._by_loop: dict[asyncio.AbstractEventLoop, Broker] = {}
        self._processes = 0

    # -- nodes ------------------------------------------------------------------------------

    @property
    def live(self) -> list[ControllersNode]:
        """Nodes whose process runs, or is stopped."""
        return [node for node in self.nodes if node.status != "over"]

    @property
    def controller(self) -> ControllersNode | None:
        """Whoever holds the lease by the database, if it lives."""
        run, _ = self.rows.lease
        return next((node for node in self.live if node.keeper.run == run), None)

    def place(self, address: str) -> Place:
        return next(place for place in self.places if place.address == address)

    def path(self, broker_id: int, place: Place) -> Path:
        return place.paths[broker_id]

    def start_node(self, place: Place) -> None:
        """Its process begins, unless one runs."""
        if place.node is not None and place.node.status != "over":
            return
        place.is_powered = True
        place.node = ControllersNode(self, place)
        self.nodes = [*self.live, place.node]
        self.world.tell(f"  {place.name} starts")
        self.note_reach()

    def crash(self, node: ControllersNode, *, is_powered: bool) -> None:
        """Its process ends, or its machine; after a while it starts again."""
        if node.status == "over":
            return
        node.place.is_powered = is_powered
        node.end(is_powered=is_powered)
        self.note_reach()
        self.world.later(self.world.chance.choice((300, 3_000, 15_000)), lambda: self.start_node(node.place))

    def drain(self, node: ControllersNode) -> None:
        """SIGTERM, then it starts again."""
        if not node.drains:
            node.drains = True
            self.note_reach()
            node.drain(lambda: self.crash(node, is_powered=True))

    def leases_moved(self) -> None:
        """A notification, which may be lost while things break."""
        if self.world.quiet or self.world.chance.random() < 0.8:
            for node in self.live:
                self.world.soon(lambda node=node: node.loop.perform(node.keeper.look_soon))  # type: ignore[misc]

    # -- brokers ----------------------------------------------------------------------------

    def start_broker(self, broker_id: int) -> None:
        """Its process begins, unless one runs."""
        known = self.brokers.get(broker_id)
        if known is not None and known.status != "over":
            return
        self._processes += 1
        addresses = [place.address for place in self.places]
        if not self.tells_all and self.world.chance.random() < 0.2:
            addresses = [self.world.chance.choice(addresses)]
        self.world.tell(f"  broker {broker_id} starts, and is told of {', '.join(addresses)}")
        broker = Broker(self, broker_id, tuple(addresses), self._processes)
        self.rows.enroll(broker_id, broker.secret)
        self.brokers[broker_id] = broker
        self._by_loop[broker.loop] = broker
        broker.begin()
        self.note_reach()

    def crash_broker(self, broker: Broker, *, is_powered: bool) -> None:
        """Its process ends, or its machine; after a while it starts again."""
        if broker.status == "over":
            return
        broker.end(is_powered=is_powered)
        del self._by_loop[broker.loop]
        self.note_reach()
        delay_ms = self.world.chance.choice((500, 5_000, 20_000))
        self.world.later(delay_ms, lambda: self.start_broker(broker.broker_id))

    def link_ended(self, broker: Broker, link: asyncio.Task[None]) -> None:
        """That only a mistake of ours does, while its process runs."""
        if broker.status != "over" and not link.cancelled():
            self.world.break_off(f"the link of broker {broker.broker_id} ended", link.exception())

    async def open_websocket(
        self, address: str, *, additional_headers: Mapping[str, str], open_timeout: float, **_: Any
    ) -> Wire:
        """What `broker.link` takes for a websocket of the library."""
        broker = self._by_loop[asyncio.get_running_loop()]
        place = self.place(address.removesuffix(LINK_PATH))
        wire = Wire(self.world, self.path(broker.broker_id, place), broker, place.address)
        broker.wires = [one for one in broker.wires if not one.is_over]
        broker.wires.append(wire)
        secret = additional_headers["Authorization"].rpartition(":")[2]
        try:
            async with asyncio.timeout(open_timeout):
                await wire.open(secret)
        except BaseException:
            wire.abort()
            raise
        return wire

    def end(self) -> None:
        """Every process is gone, without a word."""
        for node in self.live:
            node.status = "over"
            node.loop.end()
        for broker in self.brokers.values():
            broker.status = "over"
            broker.loop.end()

    # -- who reaches whom -------------------------------------------------------------------

    def note_reach(self) -> None:
        """Something may be broken or mended: keep what is so from now on."""
        now = Reach(self.world.now, self.rows.registered, self._reach())
        if not self.reached or self.reached[-1][1:] != now[1:]:
            self.reached.append(now)

    def _reach(self) -> dict[str, frozenset[int]]:
        return {
            place.name: frozenset(
                one
                for one, broker in self.brokers.items()
                if broker.status == "up"
                and place.paths[one].is_whole
                and place.address in broker.link.known_nodes
            )
            for place in self.places
            if place.node is not None
            and place.node.status == "up"
            and not (place.node.cut or place.node.hangs or place.node.drains)
        }

    def reached_since(self, since: float) -> list[Reach]:
        """What was so at that time, and what came to be so after it."""
        first = max((at for at, one in enumerate(self.reached) if one.at <= since), default=0)
        return self.reached[first:]
