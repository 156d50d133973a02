"""This room is the simulated network between brokers and nodes: paths that are cut by direction, websockets.

What is on its way when a direction is cut waits, as TCP sends it again; after that the connection goes on, or
both ends find out that it is dead.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosedError, InvalidStatus
from websockets.http11 import Response

from controller.sockets import BrokerDoor
from tests.simulation.timeline import Timeline

if TYPE_CHECKING:
    from tests.simulation.leases.broker import Broker
    from tests.simulation.leases.node import ControllersNode

TO_NODE: Final = "to the node"
TO_BROKER: Final = "to the broker"
BOTH: Final = (TO_NODE, TO_BROKER)


class Path:
    """The way between one broker and one node's machine. `cut`: the directions that let nothing through.

    `refuses`: who is in between says so, instead of swallowing what is sent.
    """

    def __init__(self, world: Timeline) -> None:
        self._world = world
        self.cut: frozenset[str] = frozenset()
        self.refuses = False
        self.wires: list[Wire] = []

    @property
    def is_whole(self) -> bool:
        return not self.cut

    def lose(self, directions: frozenset[str], *, refuses: bool) -> None:
        """Nothing passes in these directions from now on."""
        self.cut, self.refuses = directions, refuses
        if refuses:
            for wire in self.wires:
                wire.die(1_000)

    def mend(self) -> None:
        """All passes again; of connections nobody knows whether they survived."""
        self.cut, self.refuses = frozenset(), False
        chance = self._world.chance
        for wire in self.wires:
            if chance.random() < 0.5:
                wire.die(300)
            else:
                self._world.later(chance.choice((5, 200, 1_500)), wire.flow)


class _Way:
    """What is on its way in one direction of one connection, in order."""

    def __init__(self, direction: str) -> None:
        self.direction = direction
        self.packets: deque[Callable[[], None]] = deque()
        self.arrived = 0
        self.last = 0.0


class Wire:
    """One TCP connection with a websocket on it, from a broker's process to a node's."""

    def __init__(self, world: Timeline, path: Path, broker: Broker, address: str) -> None:
        self._world, self._path = world, path
        self.broker, self.address = broker, address
        self.node: ControllersNode | None = None
        self._ways = {direction: _Way(direction) for direction in BOTH}
        self._is_dead = False
        self._is_over: dict[str, bool] = {"broker": False, "node": False}
        """Which end has hung up, or has heard that the other did."""
        self._opened: asyncio.Future[None] = broker.loop.create_future()
        self._inbox: asyncio.Queue[str | None] = asyncio.Queue()
        self._events: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        path.wires = [one for one in path.wires if not one.is_over]
        path.wires.append(self)

    @property
    def is_over(self) -> bool:
        return self._is_dead or (self._is_over["broker"] and (self.node is None or self._is_over["node"]))

    # -- packets ----------------------------------------------------------------------------

    def _send(self, direction: str, arrive: Callable[[], None]) -> None:
        way = self._ways[direction]
        way.last = max(way.last + 0.001, self._world.now + self._world.chance.uniform(0.2, 8))
        way.packets.append(arrive)
        self._world.later(way.last - self._world.now, partial(self._pass, way))

    def _pass(self, way: _Way) -> None:
        way.arrived += 1
        self._deliver(way)

    def _deliver(self, way: _Way) -> None:
        while way.arrived and not self._is_dead and way.direction not in self._path.cut:
            way.arrived -= 1
            way.packets.popleft()()

    def flow(self) -> None:
        """What waited goes on."""
        for way in self._ways.values():
            self._deliver(way)

    def die(self, within_ms: float) -> None:
        """Nothing passes any more; each end finds out by itself."""
        if not self._is_dead:
            self._is_dead = True
            chance = self._world.chance
            self._world.later(chance.uniform(0, within_ms), self._broker_hears_the_end)
            self._world.later(chance.uniform(0, within_ms), self._node_hears_the_end)

    # -- the broker's end, as `broker.link` uses it -----------------------------------------

    async def open(self, secret: str) -> None:
        """Raises OSError, InvalidStatus; waits for ever where nothing answers."""
        self._send(TO_NODE, partial(self._knock, secret))
        if self._path.refuses:
            self._world.later(2, partial(self._settle, ConnectionRefusedError(f"{self.address} refuses")))
        await self._opened

    def abort(self) -> None:
        """The broker gives it up before it was open, or its process ends."""
        self._hang_up()

    async def send(self, data: bytes, *, text: bool) -> None:
        if self._is_over["broker"]:
            raise ConnectionClosedError(None, None)
        frame = data.decode()
        self._send(TO_NODE, partial(self._reach_node, {"type": "websocket.receive", "text": frame}))

    async def recv(self) -> str:
        frame = None if self._is_over["broker"] and self._inbox.empty() else await self._inbox.get()
        if frame is None:
            raise ConnectionClosedError(None, None)
        return frame

    async def close(self) -> None:
        self._hang_up()

    def _hang_up(self) -> None:
        if not self._is_over["broker"]:
            self._is_over["broker"] = True
            self._send(TO_NODE, self._node_hears_the_end)

    def vanish(self) -> None:
        """The broker's machine lost its power: it says nothing to anybody."""
        self._is_over["broker"] = True

    def _settle(self, error: Exception | None) -> None:
        def told() -> None:
            if self._opened.done():
                return
            if error is None:
                self._opened.set_result(None)
            else:
                self._opened.set_exception(error)

        self.broker.loop.perform(told)

    def _reach_broker(self, frame: str) -> None:
        if not self._is_over["broker"]:
            self.broker.loop.perform(self._inbox.put_nowait, frame)
        elif self.broker.is_reachable:
            self._send(TO_NODE, self._node_hears_the_end)

    def _broker_hears_the_end(self) -> None:
        if not self._is_over["broker"]:
            self._is_over["broker"] = True
            self._settle(ConnectionResetError("the connection ended"))
            self.broker.loop.perform(self._inbox.put_nowait, None)

    # -- the node's end, as an ASGI server has it -------------------------------------------

    def _knock(self, secret: str) -> None:
        if self._is_over["broker"]:
            return
        place = self.broker.cluster.place(self.address)
        node = place.node
        if node is None or node.status == "over":
            if place.is_powered:
                refused = ConnectionRefusedError(f"nobody listens at {self.address}")
                self._send(TO_BROKER, partial(self._settle, refused))
            return
        self.node = node
        node.wires.append(self)
        node.loop.perform(self._begin, secret)

    def _begin(self, secret: str) -> None:
        assert self.node is not None
        self._events.put_nowait({"type": "websocket.connect"})
        authorization = f"Bearer {self.broker.broker_id}:{secret}".encode()
        scope = {"headers": [(b"authorization", authorization)], "client": ("10.0.0.1", 1)}
        serving = BrokerDoor(self.node.service)(scope, self._events.get, self._say)
        self.node.loop.create_task(serving).add_done_callback(self._served)

    async def _say(self, message: Any) -> None:
        kind = message["type"]
        if self._is_over["node"]:
            return
        if kind == "websocket.accept":
            self._send(TO_BROKER, partial(self._settle, None))
        elif kind == "websocket.send":
            self._send(TO_BROKER, partial(self._reach_broker, message["text"]))
        elif kind == "websocket.close":
            self._close_node_end(403)
        elif kind == "websocket.http.response.start":
            self._close_node_end(message["status"])

    def _close_node_end(self, status: int) -> None:
        """Behind what was said before; a websocket that was not accepted is refused by this status."""
        if self._is_over["node"]:
            return
        self._is_over["node"] = True
        refusal = InvalidStatus(Response(status, "refused", Headers()))
        self._send(TO_BROKER, partial(self._settle, refusal))
        self._send(TO_BROKER, self._broker_hears_the_end)

    def _served(self, serving: asyncio.Future[None]) -> None:
        assert self.node is not None
        if self.node.loop.over:
            return
        if self in self.node.wires:
            self.node.wires.remove(self)
        self._close_node_end(500)
        if not serving.cancelled() and (error := serving.exception()) is not None:
            self._world.break_off(f"a websocket failed: {error!r}", error)

    def lose_node(self, *, is_powered: bool) -> None:
        """The node's process is gone; its machine says so, if it has power."""
        if is_powered:
            self._close_node_end(500)
        self._is_over["node"] = True

    def _reach_node(self, event: dict[str, Any]) -> None:
        assert self.node is not None
        if not self._is_over["node"]:
            self.node.loop.perform(self._events.put_nowait, event)
        elif self.broker.cluster.place(self.address).is_powered:
            self._send(TO_BROKER, self._broker_hears_the_end)

    def _node_hears_the_end(self) -> None:
        if self.node is not None and not self._is_over["node"]:
            self._is_over["node"] = True
            self.node.loop.perform(self._events.put_nowait, {"type": "websocket.disconnect"})
