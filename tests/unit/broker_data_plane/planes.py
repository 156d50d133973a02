"""This room runs data planes with their real listeners in one event loop; the test is their controller."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar
from uuid import UUID

import msgspec

from broker.core.cluster_view import ClusterView
from broker.core.peer_proof import Incarnation, ReplicationKey
from broker.introduction import introduce
from broker.listener import ClientListener
from broker.log.outcomes import LogSettings
from broker.log.shelf import LogShelf
from broker.plane_settings import DataPlaneSettings
from broker.replicas import DataPlane
from broker.replication_listener import ReplicationListener
from kafkaserver.admin.asking import ControllerUnreachable
from kafkaserver.cluster_answers import BrokerView, MetadataView, PartitionView, TopicView
from kafkaserver.limits import ServerLimits
from kafkaserver.producer_ids import ProducerIdBlock
from kafkaserver.quotas import ClientQuotas
from muster.kafkawire.api_table import ApiKey, build, part, request_class
from muster.kernel.instants import Instant
from muster.messages.link.configs import AlterConfigs, ConfigResult, ConfigResults
from muster.messages.link.from_broker import (
    AlterReassignments,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    GrownTopic,
    ListReassignments,
    NamedTopic,
    NewTopic,
    WantedReplicas,
    Wish,
)
from muster.messages.link.rows import PROVEN, PartitionRow, TopicRow
from muster.messages.link.to_broker import (
    CreatedTopic,
    CreateTopicsAnswer,
    OngoingReassignment,
    OngoingReassignments,
    ReassignmentResult,
    ReassignmentResults,
    TopicResult,
    TopicResults,
    WishAnswer,
)
from tests.unit.kafkawire.asking import ClientConnection
from tests.unit.kafkawire.made_batches import NO_PRODUCER, made_batch

Answer = TypeVar("Answer")

ORDERS = UUID(int=1)
BROKERS = (1, 2, 3)
KEY = ReplicationKey("test", b"what all brokers of the test know")


def _said(answer: Answer | None) -> Answer:
    if answer is None:
        raise ControllerUnreachable("no link")
    return answer


class StubbornController:
    """Answers as the test has said; unreachable until then."""

    def __init__(self) -> None:
        self.blocks: list[ProducerIdBlock] = []
        self.asked: list[tuple[NewTopic, ...]] = []
        self.created: tuple[CreatedTopic, ...] | None = None
        self.changed: list[tuple[NamedTopic, ...] | tuple[GrownTopic, ...]] = []
        self.results: tuple[TopicResult, ...] | None = None
        self.wished: list[tuple[WantedReplicas, ...]] = []
        self.may_change_factor: list[bool] = []
        self.reassigned: tuple[ReassignmentResult, ...] | None = None
        self.listed: list[tuple[tuple[str, int], ...] | None] = []
        self.ongoing: tuple[OngoingReassignment, ...] | None = None
        self.altered: list[AlterConfigs] = []
        self.configured: tuple[ConfigResult, ...] | None = None
        self.asked_for_blocks = 0
        self.delay: asyncio.Event | None = None
        """Until it is set, nobody who asks for a block is answered."""

    async def ask(self, wish: Wish) -> WishAnswer:
        match wish:
            case CreateTopics():
                self.asked.append(wish.topics)
                return CreateTopicsAnswer(correlation_id=0, topics=_said(self.created))
            case DeleteTopics() | CreatePartitions():
                self.changed.append(wish.topics)
                return TopicResults(correlation_id=0, topics=_said(self.results))
            case AlterReassignments():
                self.wished.append(wish.partitions)
                self.may_change_factor.append(wish.may_change_factor)
                return ReassignmentResults(correlation_id=0, results=_said(self.reassigned))
            case ListReassignments():
                self.listed.append(wish.partitions)
                return OngoingReassignments(correlation_id=0, ongoing=_said(self.ongoing))
            case AlterConfigs():
                self.altered.append(wish)
                return ConfigResults(correlation_id=0, results=_said(self.configured))
            case _:
                raise ControllerUnreachable("this one decides nothing of the kind")

    async def producer_ids(self) -> ProducerIdBlock:
        self.asked_for_blocks += 1
        if self.delay is not None:
            await self.delay.wait()
        if not self.blocks:
            raise ControllerUnreachable("no link")
        return self.blocks.pop(0)


class Broker:
    """One data plane and its two doors."""

    def __init__(
        self, broker_id: int, folder: Path, settings: DataPlaneSettings, limits: ServerLimits | None
    ) -> None:
        shelf = self.shelf = LogShelf(folder, was_clean=False)
        shelf.scan()
        self.now_ms = 1_000_000
        self.plane = DataPlane(
            broker_id, shelf, settings, lambda: Instant(self.now_ms), lambda: int(time.time() * 1000)
        )
        self.controller = StubbornController()
        self.quotas = ClientQuotas()
        self.known = ClusterView(broker_id)
        self.client = ClientListener(
            self.plane, self.controller, limits, quotas=self.quotas, known=self.known
        )
        self.plane.broker_epochs = dict.fromkeys(BROKERS, 1)
        self.replication = ReplicationListener(self.plane, limits)
        self.replication.key = KEY
        self.client_port = self.client.listen("127.0.0.1", 0)
        self.replication_port = self.replication.listen("127.0.0.1", 0)

    def obey(
        self,
        version: int,
        *,
        leader: int = 1,
        epoch: int = 1,
        replicas: tuple[int, ...] = (1,),
        isr: tuple[int, ...] | None = None,
        configs: dict[str, str] | None = None,
        partitions: int = 1,
        racks: Mapping[int, str] = MappingProxyType({}),
        base_epoch: int = 0,
        unproven: int = PROVEN,
    ) -> None:
        """Tell the plane what the controller decided about orders, of which there is partition 0 alone."""
        isr = replicas if isr is None else isr
        self.plane.know_topics([TopicRow(ORDERS, "orders", partitions, len(replicas), configs or {})])
        known = PartitionView(leader, epoch, replicas, isr)
        self.plane.view = MetadataView.of(
            "test",
            [BrokerView(b, "127.0.0.1", 9000 + b, racks.get(b)) for b in BROKERS],
            [TopicView("orders", ORDERS, (known,) * partitions)],
        )
        self.plane.live = frozenset(BROKERS)
        for number in range(partitions):
            row = PartitionRow(ORDERS, number, replicas, leader, epoch, isr, version, base_epoch=base_epoch)
            self.plane.obey(msgspec.structs.replace(row, unproven=unproven))


@asynccontextmanager
async def broker(
    folder: Path,
    broker_id: int = 1,
    settings: DataPlaneSettings | None = None,
    limits: ServerLimits | None = None,
) -> AsyncIterator[Broker]:
    """A broker that is open inside the block."""
    small = DataPlaneSettings(log=LogSettings(segment_bytes=10_000))
    opened = Broker(broker_id, folder / str(broker_id), settings or small, limits)
    try:
        yield opened
    finally:
        await opened.plane.close()
        await opened.client.drain(grace_ms=0)
        await opened.replication.drain(grace_ms=0)


class Client:
    """A Kafka connection of a test: questions out, replies in order."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._connection = ClientConnection("ann")
        self._replies: list[Any] = []

    def send(self, api_key: int, version: int, body: Any, *, expects_reply: bool = True) -> None:
        """Ask without waiting for the answer."""
        _, frame = self._connection.request(api_key, version, body, expects_reply=expects_reply)
        self._writer.write(frame)

    def write(self, frame: bytes) -> None:
        """Send bytes as they are."""
        self._writer.write(frame)

    async def exchange(self, frame: bytes) -> bytes:
        """The frame that answers `frame`, as it is but for its length."""
        self._writer.write(frame)
        async with asyncio.timeout(5.0):
            return await self._reader.readexactly(int.from_bytes(await self._reader.readexactly(4), "big"))

    async def hear(self, within_s: float = 5.0) -> Any:
        """The body of the next reply. Raises EOFError if the broker hangs up first."""
        async with asyncio.timeout(within_s):
            while not self._replies:
                data = await self._reader.read(1 << 20)
                if not data:
                    raise EOFError
                self._replies += [reply.body for reply in self._connection.receive_data(data)]
        return self._replies.pop(0)

    async def ask(self, api_key: int, version: int, body: Any) -> Any:
        """Ask and wait."""
        self.send(api_key, version, body)
        return await self.hear()

    async def is_quiet(self, for_s: float = 0.05) -> bool:
        """True if nothing arrives for a while."""
        try:
            self._replies.append(await self.hear(for_s))
        except TimeoutError:
            return True
        return False


@asynccontextmanager
async def client(port: int) -> AsyncIterator[Client]:
    """A connection that is open inside the block."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield Client(reader, writer)
    finally:
        writer.close()


@asynccontextmanager
async def introduced(
    port: int, key: ReplicationKey, me: Incarnation, leader: int = 1
) -> AsyncIterator[Client]:
    """A connection to a replication listener of a broker that has proved to be one."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        await introduce(reader, writer, key, me, leader)
        yield Client(reader, writer)
    finally:
        writer.close()


def follower(of: Broker, broker_id: int = 2) -> AbstractAsyncContextManager[Client]:
    """A connection of another broker of the test."""
    return introduced(of.replication_port, KEY, Incarnation(broker_id, 1), of.plane.broker_id)


def produce(
    *values: bytes,
    acks: int = -1,
    timeout_ms: int = 10_000,
    topic: str = "orders",
    producer: tuple[int, int, int] = NO_PRODUCER,
    batch: bytes | None = None,
    partition: int = 0,
    version: int = 9,
) -> Any:
    """A Produce request of one batch for one partition."""
    shape = request_class(ApiKey.PRODUCE, version)
    records = batch if batch is not None else bytes(made_batch(values, producer=producer))
    data = part(shape, "PartitionProduceData")(index=partition, records=records)
    return shape(
        acks=acks,
        timeout=timedelta(milliseconds=timeout_ms),
        topic_data=(part(shape, "TopicProduceData")(name=topic, partition_data=(data,)),),
    )


def produced(body: Any) -> tuple[int, int]:
    """(error code, base offset) of the only partition in a Produce reply."""
    (answer,) = body.responses[0].partition_responses
    return int(answer.error_code), answer.base_offset


def fetch(
    offset: int,
    *,
    version: int = 12,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    replica: tuple[int, int] | None = None,
    leader_epoch: int = -1,
    last_epoch: int = -1,
    start_offset: int = -1,
    session: tuple[int, int] = (0, -1),
    is_empty: bool = False,
    is_forgotten: bool = False,
    topic: str = "orders",
    rack: str = "",
) -> Any:
    """A Fetch request for partition 0; `replica` is (id, broker epoch), `session` (id, epoch), `rack` where
    a consumer stands.

    `is_empty` names no partition, `is_forgotten` leaves it out of the session from now on.
    """
    shape = request_class(ApiKey.FETCH, version)
    partition = build(
        part(shape, "FetchPartition"),
        partition=0,
        current_leader_epoch=leader_epoch,
        fetch_offset=offset,
        last_fetched_epoch=last_epoch,
        log_start_offset=start_offset,
        partition_max_bytes=1_000_000,
    )
    asked = build(part(shape, "FetchTopic"), topic=topic, topic_id=ORDERS, partitions=(partition,))
    fields: dict[str, Any] = {}
    if version >= 15 and replica is not None:
        fields["replica_state"] = part(shape, "ReplicaState")(replica_id=replica[0], replica_epoch=replica[1])
    elif version < 15:
        fields["replica_id"] = -1 if replica is None else replica[0]
    if version >= 11:
        fields["rack_id"] = rack
    return build(
        shape,
        max_wait=timedelta(milliseconds=max_wait_ms),
        min_bytes=min_bytes,
        isolation_level=0,
        session_id=session[0],
        session_epoch=session[1],
        topics=() if is_empty or is_forgotten else (asked,),
        forgotten_topics_data=(
            (part(shape, "ForgottenTopic")(topic_id=ORDERS, partitions=(0,)),) if is_forgotten else ()
        ),
        **fields,
    )


def fetched(body: Any) -> Any:
    """The answer for the only partition in a Fetch reply."""
    (answer,) = body.responses[0].partitions
    return answer


def error_codes(answers: Iterable[Any]) -> list[int]:
    """Error codes as numbers."""
    return [int(answer.error_code) for answer in answers]
