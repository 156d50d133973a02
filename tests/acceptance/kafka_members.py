"""This room runs members of Kafka groups by unmodified clients: each in a thread, with what it read."""

import asyncio
import threading
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

from aiokafka import AIOKafkaConsumer
from confluent_kafka import Consumer

with warnings.catch_warnings():
    # kafka-python reads its schemas by an old way of the standard library.
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka

PATIENCE_S = 60.0
SESSION_MS = 45_000
"""What Kafka's clients ask for unless told otherwise: nobody is expelled for a machine that is slow."""


class Read(NamedTuple):
    """One record, as a member got it."""

    partition: int
    offset: int
    key: bytes
    value: bytes


class KafkaMember:
    """One consumer of a group, polling and committing in a thread of its own until it is closed."""

    def __init__(self, bootstrap: str, group: str, topic: str, name: str, **options: Any) -> None:
        self.bootstrap = bootstrap
        self.group = group
        self.topic = topic
        self.name = name
        self.options = options
        self.read: list[Read] = []
        self.assigned: frozenset[int] = frozenset()
        self.rebalances = 0
        self.failure: BaseException | None = None
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._guarded, name=name, daemon=True)

    def start(self) -> "KafkaMember":
        """Join, and begin to read."""
        self._thread.start()
        return self

    def close(self) -> None:
        """Commit, leave the group, and end. Raises what the client raised meanwhile."""
        self._closing.set()
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive(), f"{self.name} did not end"
        if self.failure is not None:
            raise AssertionError(f"{self.name} failed: {self.failure!r}") from self.failure

    def _guarded(self) -> None:
        try:
            self._run(lambda: self._closing.is_set())
        except BaseException as failure:
            self.failure = failure

    def _owns(self, numbers: Any) -> None:
        self.assigned = frozenset(numbers)
        self.rebalances += 1

    def _run(self, closing: Callable[[], bool]) -> None:
        raise NotImplementedError


class Librdkafka(KafkaMember):
    """confluent-kafka."""

    def _run(self, closing: Callable[[], bool]) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": self.group,
                "client.id": self.name,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "session.timeout.ms": SESSION_MS,
                "heartbeat.interval.ms": 500,
                **self.options,
            }
        )

        def told(_consumer: Any, _partitions: Any) -> None:
            self._owns(one.partition for one in consumer.assignment())

        def assigned(_consumer: Any, partitions: Any) -> None:
            self._owns(one.partition for one in partitions)

        consumer.subscribe([self.topic], on_assign=assigned, on_revoke=told)
        try:
            while not closing():
                records = consumer.consume(500, timeout=0.2)
                for record in records:
                    if record.error():
                        raise RuntimeError(str(record.error()))
                    place = int(record.partition() or 0), int(record.offset() or 0)
                    self.read.append(Read(*place, record.key() or b"", record.value() or b""))
                if records:
                    consumer.commit(asynchronous=False)
        finally:
            consumer.close()


class KafkaPython(KafkaMember):
    """kafka-python."""

    def _run(self, closing: Callable[[], bool]) -> None:
        consumer = kafka.KafkaConsumer(
            self.topic,
            bootstrap_servers=self.bootstrap,
            group_id=self.group,
            client_id=self.name,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=500,
            **self.options,
        )
        try:
            while not closing():
                batch = consumer.poll(timeout_ms=200, max_records=500)
                mine = frozenset(one.partition for one in consumer.assignment())
                if mine != self.assigned:
                    self._owns(mine)
                for records in batch.values():
                    self.read += [Read(one.partition, one.offset, one.key, one.value) for one in records]
                if batch:
                    consumer.commit()
        finally:
            consumer.close()


class Aiokafka(KafkaMember):
    """aiokafka, on an event loop of its own."""

    def _run(self, closing: Callable[[], bool]) -> None:
        asyncio.run(self._consume(closing))

    async def _consume(self, closing: Callable[[], bool]) -> None:
        consumer = AIOKafkaConsumer(
            self.topic,
            bootstrap_servers=self.bootstrap,
            group_id=self.group,
            client_id=self.name,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=500,
            **self.options,
        )
        await consumer.start()
        try:
            while not closing():
                batch = await consumer.getmany(timeout_ms=200, max_records=500)
                mine = frozenset(one.partition for one in consumer.assignment())
                if mine != self.assigned:
                    self._owns(mine)
                for records in batch.values():
                    self.read += [
                        Read(one.partition, one.offset, one.key or b"", one.value or b"") for one in records
                    ]
                if batch:
                    await consumer.commit()
        finally:
            await consumer.stop()


CLIENTS: dict[str, type[KafkaMember]] = {
    "librdkafka": Librdkafka,
    "kafka-python": KafkaPython,
    "aiokafka": Aiokafka,
}
