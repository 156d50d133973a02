"""This room opens a node's Kafka door over shards in memory, and speaks Kafka to it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any
from uuid import UUID

from controller.catalog import ConfigsOfBroker, StoredConfigs
from coordinator.core.settings import GroupSettings
from coordinator.service import ShardService
from coordinator.settings import CoordinatorSettings
from gateway.listener import NodeListener
from gateway.translation.cluster import KnownBroker, KnownPartition, KnownTopic
from groups.core.state import GroupRows
from kafkaserver.guard import Guard
from muster.kafkawire.api_table import ApiKey, build, part, request_class
from muster.kernel.shards import SHARD_COUNT
from runtime.ports import shard_lane
from tests.unit.coordinator.shards import Node, Shards
from tests.unit.kafkawire.asking import ClientConnection

KEY = "kafka-readers"
ORDERS = UUID(int=1)
AT_ONCE = CoordinatorSettings(group=GroupSettings(group_initial_rebalance_delay_ms=0))
SESSION = timedelta(seconds=10)


class Peer:
    """One Kafka connection; requests may be sent before the last is answered."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._connection = ClientConnection("ann")
        self._answers: list[Any] = []

    def send(self, key: ApiKey, version: int, /, **fields: Any) -> None:
        """Ask; fields that the version does not have are left out."""
        _, frame = self._connection.request(key, version, build(request_class(key, version), **fields))
        self._writer.write(frame)

    def calls_itself(self, client_id: str) -> None:
        """In all that is sent from now on."""
        self._connection.client_id = client_id

    async def exchange(self, frame: bytes) -> bytes:
        """The frame that answers this one, without its length; nothing else may be under way."""
        self._writer.write(len(frame).to_bytes(4, "big") + frame)
        async with asyncio.timeout(10):
            return await self._reader.readexactly(int.from_bytes(await self._reader.readexactly(4), "big"))

    async def hear(self) -> Any:
        """The next answer."""
        async with asyncio.timeout(10):
            while not self._answers:
                data = await self._reader.read(65_536)
                if not data:
                    raise EOFError("hung up")
                self._answers += self._connection.receive_data(data)
        return self._answers.pop(0).body

    async def ask(self, key: ApiKey, version: int, /, **fields: Any) -> Any:
        """Ask and hear."""
        self.send(key, version, **fields)
        return await self.hear()

    def sends_join(
        self,
        version: int = 9,
        member_id: str = "",
        group_id: str = KEY,
        group_instance_id: str | None = None,
    ) -> None:
        protocol = part(request_class(ApiKey.JOIN_GROUP, version), "JoinGroupRequestProtocol")
        self.send(
            ApiKey.JOIN_GROUP,
            version,
            group_id=group_id,
            session_timeout=SESSION,
            rebalance_timeout=SESSION,
            member_id=member_id,
            group_instance_id=group_instance_id,
            protocol_type="consumer",
            protocols=(protocol(name="range", metadata=b"m"),),
        )

    async def joins(self, group_id: str = KEY) -> Any:
        """The whole two steps of a new member."""
        self.sends_join(group_id=group_id)
        first = await self.hear()
        assert int(first.error_code) == 79
        self.sends_join(member_id=first.member_id, group_id=group_id)
        return await self.hear()

    async def syncs(self, joined: Any, **assignments: bytes) -> Any:
        """The Sync that follows a Join."""
        given = part(request_class(ApiKey.SYNC_GROUP, 5), "SyncGroupRequestAssignment")
        return await self.ask(
            ApiKey.SYNC_GROUP,
            5,
            group_id=KEY,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            group_instance_id=None,
            protocol_type="consumer",
            protocol_name="range",
            assignments=tuple(given(member_id=name, assignment=what) for name, what in assignments.items()),
        )

    def sends_heartbeat(self, joined: Any) -> None:
        self.send(
            ApiKey.HEARTBEAT,
            4,
            group_id=KEY,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            group_instance_id=None,
        )

    def close(self) -> None:
        self._writer.close()


class DoorNode(Node):
    """A node whose catalog says `learnt`; it counts how often that is read."""

    def __init__(self) -> None:
        self.learnt: tuple[Any, ...] = (
            "a-cluster",
            [KnownBroker(1, "127.0.0.1:9092", "")],
            [KnownTopic("orders", ORDERS, 2)],
            [KnownPartition(ORDERS, number, (1,), 1, 1, (1,), 1) for number in range(2)],
        )
        self.metadata_version = 0
        self.looks = self.glances = 0
        """How often the catalog was read, and how often no more than how new it is."""
        self.may_look = asyncio.Event()
        self.may_look.set()
        self.fails_with: Exception | None = None
        self.configs = StoredConfigs({"orders": {}}, {1: ConfigsOfBroker({}, {})}, {}, {})

    async def query(self, function: Callable[[Any], Any]) -> Any:
        name = getattr(getattr(function, "func", function), "__name__", "")
        failed = self.learnt[4:] or ((),)
        read: Any = (*self.learnt[:4], *failed, self.metadata_version)
        if name == "_metadata_version":
            self.glances += 1
            read = self.metadata_version
        else:
            self.looks += 1
            read = self.configs if name == "_read_configs" else read
        await self.may_look.wait()
        if self.fails_with is not None:
            raise self.fails_with
        return read

    def learns_of(self, name: str, topic_id: UUID) -> None:
        """Somebody has made a topic of one partition."""
        cluster_id, brokers, topics, partitions = self.learnt
        one = KnownPartition(topic_id, 0, (1,), 1, 1, (1,), 2)
        self.learnt = (cluster_id, brokers, [*topics, KnownTopic(name, topic_id, 1)], [*partitions, one])
        self.metadata_version += 1

    def adds_a_partition(self, name: str) -> None:
        """Somebody has added a partition to a topic."""
        cluster_id, brokers, topics, partitions = self.learnt
        topic = next(one for one in topics if one.name == name)
        number = topic.partition_count
        grown = KnownTopic(name, topic.topic_id, number + 1)
        one = KnownPartition(topic.topic_id, number, (1,), 1, 1, (1,), 2)
        others = [one for one in topics if one is not topic]
        self.learnt = (cluster_id, brokers, [*others, grown], [*partitions, one])
        self.metadata_version += 1

    def loses(self, name: str) -> None:
        """Somebody has deleted a topic."""
        cluster_id, brokers, topics, partitions = self.learnt
        self.learnt = (cluster_id, brokers, [one for one in topics if one.name != name], partitions)
        self.metadata_version += 1


class Door:
    """A node's door, its shards, and how to come in."""

    def __init__(
        self,
        shards: Shards,
        services: Mapping[str, ShardService],
        node: DoorNode,
        listener: NodeListener,
        port: int,
    ) -> None:
        self.shards = shards
        self.services = services
        self.node = node
        self.listener = listener
        self.port = port
        self._peers: list[Peer] = []

    async def peer(self) -> Peer:
        """Another connection."""
        peer = Peer(*await asyncio.open_connection("127.0.0.1", self.port))
        self._peers.append(peer)
        return peer

    def close(self) -> None:
        for peer in self._peers:
            peer.close()


@asynccontextmanager
async def kafka_door(
    key: str = KEY,
    stored: Iterable[GroupRows] = (),
    settings: CoordinatorSettings = AT_ONCE,
    guard: Guard | None = None,
) -> AsyncIterator[Door]:
    """A door whose node serves the shard of group `key` alone; it knows `orders` with 2 partitions.

    `stored` are the groups that it finds in its database.
    """
    async with Shards(stored, settings=settings) as shards:
        await shards.serve(key)
        services = {
            shard_lane(shard): shards.services.get(shard) or ShardService(shard, shards.premises)
            for shard in range(SHARD_COUNT)
        }
        node = DoorNode()
        listener = NodeListener(node, services, guard=guard)
        listener._cluster._known.learn(*node.learnt)
        door = Door(shards, services, node, listener, listener.server.listen("127.0.0.1", 0))
        try:
            yield door
        finally:
            door.close()
            await listener.drain(grace_ms=0)
