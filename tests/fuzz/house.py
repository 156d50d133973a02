"""This room opens every door of a node and of a broker, in one event loop without a database."""

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any

import uvicorn

from access.grants import Role
from access.tokens import Caller
from broker.plane_settings import DataPlaneSettings
from controller.configuration import ServiceSettings
from controller.service import ControllerService
from controller.sockets import BrokerDoor
from coordinator.core.settings import GroupSettings
from coordinator.door import ConsumerDoor
from coordinator.service import ShardService
from coordinator.settings import CoordinatorSettings
from coordinator.sockets import ConsumerSocket
from gateway.listener import NodeListener
from kafkaserver.guard import Guard
from kafkaserver.server import KafkaServer
from muster.kernel.error_codes import ErrorCode
from muster.kernel.shards import SHARD_COUNT, shard_of
from muster.messages.link.to_broker import CreatedTopic
from node import doors
from node.handshakes import PatientHttp
from node.websocket import TextWebSocket
from runtime import clock
from runtime.ports import ConnectionLost, shard_lane
from tests.fuzz.kafka_frames import Known
from tests.unit.broker_data_plane.planes import ORDERS, Broker
from tests.unit.controller_service.stage import HereAndNow
from tests.unit.coordinator.shards import Shards, eventually, readers, token_of
from tests.unit.gateway.doors import DoorNode
from tests.unit.gateway.doors import Peer as KafkaPeer
from tests.unit.kafkaserver.test_callers_may_what_their_tokens_say import row

NATIVE, CLASSIC = "readers", "kafka-readers"
TICK_S = 0.05
LARGEST_FRAME_BYTES = 4 * 1024 * 1024
SETTINGS = CoordinatorSettings(group=GroupSettings(group_initial_rebalance_delay_ms=0))


class OpenNode(DoorNode):
    """Whoever shows any token but `nobody` may consume."""

    producer_ids = 0

    def verify_token(self, presented: str) -> Any:
        return None if presented == "nobody" else Caller(presented, Role.CONSUMER, presented)

    async def query(self, function: Callable[[Any], Any]) -> Any:
        """Blocks of producer ids for whoever asks for one; to all else but wishes the catalog answers."""
        name = getattr(function, "__qualname__", "")
        if name.startswith("Asking."):
            raise ConnectionLost("the controller is not at home")
        if name == "ongoing_reassignments":
            return []
        if "producer_ids" in name:
            self.producer_ids += 1_000
            return self.producer_ids
        return await super().query(function)


class _TrustingController(ControllerService):
    """Knows the secret of broker 1."""

    async def admits(self, broker_id: int, secret: str) -> bool:
        return broker_id == 1


class House:
    """The doors, their ports, and what is behind them."""

    def __init__(self, shards: Shards, folder: Path) -> None:
        self.shards = shards
        self.node = OpenNode()
        services = {
            shard_lane(shard): shards.services.get(shard) or ShardService(shard, shards.premises)
            for shard in range(SHARD_COUNT)
        }
        self.gateway = NodeListener(self.node, services)
        guard = Guard(sasl=True)
        guard.know((row(),))
        self.guarded = NodeListener(self.node, services, guard=guard)
        for listener in (self.gateway, self.guarded):
            listener._cluster._known.learn(*self.node.learnt)
        self.consumers = ConsumerDoor(self.node, services)
        self.controller = _TrustingController(HereAndNow(), ServiceSettings(), lambda *_: ())  # type: ignore[arg-type]
        self.broker = Broker(1, folder, DataPlaneSettings(), None)
        self.broker.controller.created = tuple(
            CreatedTopic(name=name, error=ErrorCode.TOPIC_ALREADY_EXISTS, text="it is there")
            for name in ("orders", "clicks")
        )
        self.broker.obey(1)
        self.http = uvicorn.Server(_settings(self.node, self.consumers, self.controller))
        self.http.capture_signals = nullcontext  # type: ignore[method-assign, assignment]
        self.ports: dict[str, int] = {}
        self.known = Known((NATIVE, CLASSIC, "elsewhere", ""), ("orders", "clicks"), (ORDERS, _NOBODYS))

    async def open(self) -> None:
        await self.controller.accept(self.controller._node)  # type: ignore[arg-type]
        self._parts = [asyncio.create_task(self.http.serve()), asyncio.create_task(self._tick())]
        await eventually(lambda: self.http.started)
        self.ports = {
            "gateway": self.gateway.server.listen("127.0.0.1", 0),
            "sasl": self.guarded.server.listen("127.0.0.1", 0),
            "broker": self.broker.client_port,
            "replication": self.broker.replication_port,
            "http": self.http.servers[0].sockets[0].getsockname()[1],
        }

    async def close(self) -> None:
        for listener in (self.gateway, self.guarded):
            await listener.drain(grace_ms=0)
        for lane in self.shards.held.values():
            await lane.resign()
        await self.broker.plane.close()
        await self.broker.client.drain(grace_ms=0)
        await self.broker.replication.drain(grace_ms=0)
        self.http.should_exit = True
        self._parts[1].cancel()
        await asyncio.gather(*self._parts, return_exceptions=True)

    async def seat_members(self) -> None:
        """Two members in the classic group, whose ids and generation strangers may use."""
        peer = KafkaPeer(*await asyncio.open_connection("127.0.0.1", self.ports["gateway"]))
        with contextlib.suppress(TimeoutError, EOFError):
            peer.sends_join(group_id=CLASSIC, version=5, group_instance_id="ben-1")
            async with asyncio.timeout(0.5):
                joined = await peer.hear()
                if joined.error_code == 0:
                    mine = {joined.member_id: b"mine"}
                    await peer.syncs(joined, **mine)
                    self.known.member_ids = ["", joined.member_id, joined.member_id]
                    self.known.generations = [-1, joined.generation_id, joined.generation_id]
        peer.close()

    @property
    def kafka_servers(self) -> list[KafkaServer]:
        return [
            self.gateway.server,
            self.guarded.server,
            self.broker.client.server,
            self.broker.replication.server,
        ]

    def what_is_left(self) -> list[str]:
        """What the doors still hold although nobody is connected; nothing, after a moment."""
        left = {
            "connections": sum(one.connection_count for one in self.kafka_servers),
            "parked elements": sum(one.parked_elements for one in self.kafka_servers),
            "bytes of requests": sum(one.memory.held_bytes for one in self.kafka_servers),
            "bytes of answers": sum(one._answers_bytes for one in self.kafka_servers),
            "sockets of members": len(self.consumers._connections),
            "http connections": len(self.http.server_state.connections),
            "http tasks": len(self.http.server_state.tasks),
            "links of brokers": len(self.controller.cluster.links),
            "callers": sum(self.shards.premises.callers.any_of(shard) for shard in range(SHARD_COUNT)),
        }
        return [f"{count} {what}" for what, count in left.items() if count]

    async def _tick(self) -> None:
        """What a node's and a broker's duties do by the clock."""
        while True:
            now = clock.now()
            for key in (NATIVE, CLASSIC):
                self.shards.services[shard_of(key)].tick(now)
            self.gateway.tick(now)
            self.controller.tick(self.controller._node.now())
            self.broker.now_ms += int(TICK_S * 1000)
            await asyncio.sleep(TICK_S)


_NOBODYS = type(ORDERS)(int=9)


def _settings(node: Any, consumers: ConsumerDoor, controller: ControllerService) -> uvicorn.Config:
    return uvicorn.Config(
        doors.application(
            doors.Probes(node, lambda: ""),
            ConsumerSocket.as_asgi(door=consumers),
            BrokerDoor.as_asgi(controller=controller),
        ),
        host="127.0.0.1",
        port=0,
        http=PatientHttp,
        ws=TextWebSocket,
        ws_ping_interval=None,
        ws_ping_timeout=None,
        ws_per_message_deflate=False,
        ws_max_size=LARGEST_FRAME_BYTES,
        lifespan="off",
        loop="none",
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=1,
    )


@asynccontextmanager
async def open_house() -> AsyncIterator[House]:
    """All doors, open inside the block; a group of each world; `ann` and `ben` own partitions."""
    with tempfile.TemporaryDirectory(prefix="muster-fuzz-") as folder:
        async with Shards([readers(NATIVE, ann=[0, 1], ben=[2])], SETTINGS) as shards:
            await shards.serve(NATIVE)
            await shards.serve(CLASSIC)
            house = House(shards, Path(folder))
            await house.open()
            try:
                yield house
            finally:
                await house.close()


TOKENS = {name: token_of(name) for name in ("ann", "ben", "cleo")}
"""Of the members of the native group; cleo is not one yet."""
