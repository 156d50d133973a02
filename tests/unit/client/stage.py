"""This room is all that a consumer needs in one event loop: a coordinator, and a real broker."""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

from broker.listener import ClientListener
from broker.log.shelf import LogShelf
from broker.plane_settings import DataPlaneSettings
from broker.replicas import DataPlane
from kafkaserver.guard import Guard
from muster import Consumer
from muster.client.broker_connection import BrokerConnection, Question
from muster.client.securing import IN_THE_CLEAR, Security
from muster.kafkawire.api_table import ApiKey, part, request_class
from muster.kernel.instants import Instant
from muster.kernel.security_protocols import PLAINTEXT
from tests.benchmarks.produce_consume_broker import ALONE, LoneController
from tests.unit.client.coordinators import LoneCoordinator, Place, coordinating
from tests.unit.kafkawire.made_batches import made_batch


class Stage:
    """Its topics are the test's; each record of a topic is produced as a batch of its own, or many as one."""

    def __init__(
        self,
        coordinator: LoneCoordinator,
        port: int,
        security: Security,
        controller: LoneController,
        ids: Mapping[str, UUID],
    ) -> None:
        self.coordinator = coordinator
        self.controller = controller
        self.ids = ids
        self.address = f"127.0.0.1:{port}"
        self._security = security

    def consumer(self, *topics: Any, **options: Any) -> Consumer:
        """Of group `readers`, from the beginning of its logs, without auto_commit."""
        stated = {
            "nodes": [self.coordinator.address],
            "token": "mst_",
            "auto_offset_reset": "earliest",
            "auto_commit": False,
            **options,
        }
        return Consumer("readers", topics[0] if topics else ["orders"], **stated)

    async def produce(self, values: "list[bytes]", partition: int = 0, topic: str = "orders") -> None:
        """One batch, acknowledged."""
        shape = request_class(ApiKey.PRODUCE, 9)
        data = part(shape, "PartitionProduceData")(index=partition, records=bytes(made_batch(values)))
        asked = shape(
            acks=-1,
            timeout=timedelta(seconds=10),
            topic_data=(part(shape, "TopicProduceData")(name=topic, partition_data=(data,)),),
        )
        connection = await BrokerConnection.open(self.address, "producer", self._security)
        try:
            answer = await connection.ask(Question(ApiKey.PRODUCE, 9, asked), timeout_s=10)
        finally:
            connection.close()
        assert answer.responses[0].partition_responses[0].error_code == 0

    async def fill(self, count: int, partitions: int = 1, topic: str = "orders") -> None:
        """So many records in each partition, whose values are their offsets."""
        for partition in range(partitions):
            await self.produce([b"%d" % number for number in range(count)], partition, topic)


def places(*partitions: int, topic: str = "orders") -> set[Place]:
    """Partitions of one topic."""
    return {(topic, partition) for partition in partitions}


async def take(consumer: Consumer, count: int) -> list[tuple[int, int]]:
    """The (partition, offset) of the next records; the last one is in hand."""
    async with asyncio.timeout(20):
        found = [await anext(consumer) for _ in range(count)]
    return [(record.partition, record.offset) for record in found]


async def quiet(consumer: Consumer, for_s: float = 0.05) -> bool:
    """True if nothing is handed out for a while."""
    return not await consumer.next_batch(timeout_ms=int(for_s * 1000))


async def until(condition: Any) -> None:
    """Wait for it."""
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.005)


async def cancelled() -> None:
    """Wait for what somebody else has cancelled."""
    given_up: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    given_up.cancel()
    await given_up


@asynccontextmanager
async def staged(
    folder: Path,
    topics: Mapping[str, int] | None = None,
    guard: Guard | None = None,
    security: Security = IN_THE_CLEAR,
) -> AsyncIterator[Stage]:
    """A broker that leads the topics (orders with 4 partitions), and a coordinator that knows of it.

    Where it has a guard, records are produced with `security`.
    """
    shelf = LogShelf(folder, was_clean=False)
    shelf.scan()
    plane = DataPlane(
        ALONE,
        shelf,
        DataPlaneSettings(),
        lambda: Instant(time.monotonic_ns() // 1_000_000),
        lambda: int(time.time() * 1000),
    )
    controller = LoneController(plane)
    ids: dict[str, UUID] = {
        name: controller.add_topic(name, count) for name, count in (topics or {"orders": 4}).items()
    }
    listener = ClientListener(plane, controller, guard=guard)
    port = listener.listen("127.0.0.1", 0)
    controller.endpoint = ("127.0.0.1", port)
    controller.publish()
    try:
        protocol = guard.protocol if guard is not None else PLAINTEXT
        async with coordinating(ids, f"127.0.0.1:{port}", protocol) as coordinator:
            yield Stage(coordinator, port, security, controller, ids)
    finally:
        await plane.close()
        await listener.drain(grace_ms=0)
