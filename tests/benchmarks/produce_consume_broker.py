"""This room runs one broker's data plane as a process of its own, with topics given on the command line.

There is no controller: the process itself states that it leads every partition, as a controller
would by rows, and gives out producer ids. On SIGUSR1 it compacts what is dirty and prints how many passes
there were. Used by the benchmark and by the tests with real clients.
"""

import asyncio
import contextlib
import logging
import os
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from uuid import UUID, uuid5

import msgspec
import structlog

from broker.command import new_loop, settle
from broker.listener import ClientListener
from broker.log.shelf import LogShelf
from broker.plane_settings import DataPlaneSettings
from broker.replicas import DataPlane
from broker.settings import guard_of, reader
from kafkaserver.admin.asking import ControllerUnreachable
from kafkaserver.cluster_answers import BrokerView, MetadataView, PartitionView, TopicView
from kafkaserver.compiled import running
from kafkaserver.producer_ids import ProducerIdBlock
from muster.kernel.instants import Instant
from muster.messages.link.callers import CallerRow
from muster.messages.link.from_broker import CreateTopics, NewTopic, Wish
from muster.messages.link.rows import PartitionRow, TopicRow
from muster.messages.link.to_broker import CreatedTopic, CreateTopicsAnswer, WishAnswer

ALONE = 1
PORT = "MUSTER_LONE_BROKER_PORT"
"""Names the variable that says where to listen; by default the system chooses."""
CALLERS = "MUSTER_LONE_BROKER_CALLERS"
"""Names the variable with the file of those who may come in, where the settings ask for SASL."""
_TOPIC_IDS = UUID("6f1d1c0e-5a35-4d0b-9d1e-1c0f5d2b7a11")


class LoneController:
    """Decides for one broker what a controller would: its topics and its producer ids."""

    def __init__(self, plane: DataPlane) -> None:
        self._plane = plane
        self._next_producer_id = 1_000
        self._version = 0
        self.endpoint = ("127.0.0.1", 0)

    def publish(self) -> None:
        """State the view that clients are told."""
        topics: dict[str, TopicView] = {}
        for hosted in self._plane.partitions():
            known = topics.get(hosted.topic) or TopicView(hosted.topic, hosted.key.topic_id, ())
            partitions = (
                *known.partitions,
                PartitionView(ALONE, hosted.replica.leader_epoch, (ALONE,), (ALONE,)),
            )
            topics[hosted.topic] = TopicView(hosted.topic, hosted.key.topic_id, partitions)
        me = BrokerView(ALONE, *self.endpoint)
        self._plane.view = MetadataView.of("lone-cluster", [me], topics.values())

    def add_topic(self, name: str, partition_count: int, configs: Mapping[str, str] = {}) -> UUID:
        """Host and lead every partition of a topic."""
        topic_id = uuid5(_TOPIC_IDS, name)
        self._plane.know_topics([TopicRow(topic_id, name, partition_count, 1, dict(configs))])
        for partition in range(partition_count):
            self._version += 1
            row = PartitionRow(topic_id, partition, (ALONE,), ALONE, 1, (ALONE,), self._version)
            self._plane.obey(row)
        return topic_id

    def renew(self, topic_id: UUID, partition: int) -> None:
        """Remove a partition, and add another under its number."""
        self.elect(topic_id, partition, is_another=True)

    def elect(self, topic_id: UUID, partition: int, *, is_another: bool = False) -> None:
        """Lead it in the next epoch."""
        self._version += 1
        hosted = self._plane.hosted(topic_id, partition)
        assert hosted is not None and hosted.replica.row is not None
        epoch, base = hosted.replica.leader_epoch + 1, hosted.replica.row.base_epoch
        if is_another:
            epoch, base = epoch + 1, epoch
        version = self._version
        row = PartitionRow(topic_id, partition, (ALONE,), ALONE, epoch, (ALONE,), version, base_epoch=base)
        self._plane.obey(row)
        self.publish()

    async def ask(self, wish: Wish) -> WishAnswer:
        """Topics are created; nothing else can be asked of a broker that is alone."""
        if not isinstance(wish, CreateTopics):
            raise ControllerUnreachable("this broker has no controller")
        created = tuple(self._create(topic) for topic in wish.topics)
        self.publish()
        return CreateTopicsAnswer(correlation_id=wish.correlation_id, topics=created)

    def _create(self, topic: NewTopic) -> CreatedTopic:
        count = max(topic.partition_count, 1)
        configs = {name: value for name, value in topic.configs.items() if value is not None}
        topic_id = self.add_topic(topic.name, count, configs)
        return CreatedTopic(name=topic.name, topic_id=topic_id, partition_count=count, replication_factor=1)

    async def producer_ids(self) -> ProducerIdBlock:
        first = self._next_producer_id
        self._next_producer_id += 1_000
        return ProducerIdBlock(first, 1_000)


async def serve(folder: Path, topics: dict[str, int], port: int) -> None:
    """Serve until SIGTERM; prints `ready PORT` and how it runs when clients may come."""
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
    for name, partition_count in topics.items():
        controller.add_topic(name, partition_count)
    guard = guard_of(reader())
    listener = ClientListener(plane, controller, guard=guard)
    if CALLERS in os.environ:
        rows = Path(os.environ[CALLERS]).read_bytes()
        listener.know_callers(msgspec.json.decode(rows, type=tuple[CallerRow, ...]))
    controller.endpoint = ("127.0.0.1", listener.listen("127.0.0.1", port))
    controller.publish()
    print(f"ready {controller.endpoint[1]} {running}", flush=True)
    stopped, wanted = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stopped.set)
    loop.add_signal_handler(signal.SIGUSR1, wanted.set)
    cleaning = loop.create_task(clean_when_told(plane, wanted))
    settle()
    await stopped.wait()
    cleaning.cancel()
    await asyncio.gather(cleaning, return_exceptions=True)
    await plane.close()
    await listener.drain(grace_ms=1_000)


async def clean_when_told(plane: DataPlane, wanted: asyncio.Event) -> None:
    """Compact what is dirty enough each time; ends with its task."""
    while True:
        await wanted.wait()
        wanted.clear()
        print(f"cleaned {await plane.cleaner.clean_dirty()}", flush=True)


def main() -> None:
    """`python -m tests.benchmarks.produce_consume_broker FOLDER TOPIC:PARTITIONS …`"""
    # Nobody reads standard output after the first line; a pipe that is full would stop the loop.
    structlog.configure(
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
    )
    folder, *pairs = sys.argv[1:]
    topics = {name: int(count) for name, _, count in (pair.partition(":") for pair in pairs)}
    with contextlib.suppress(KeyboardInterrupt), asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(serve(Path(folder), topics, int(os.environ.get(PORT, "0"))))


if __name__ == "__main__":
    main()
