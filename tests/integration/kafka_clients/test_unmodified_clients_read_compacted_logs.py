"""librdkafka, kafka-python and aiokafka read what compaction and deletion leave: all of it, to its end."""

import asyncio
import warnings
from pathlib import Path
from random import Random
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AiokafkaPartition
from confluent_kafka import Consumer, KafkaError, TopicPartition

from broker.log.outcomes import LogSettings
from broker.plane_settings import DataPlaneSettings
from kafkaserver.cluster_answers import BrokerView, MetadataView, PartitionView, TopicView
from muster.kafkawire.api_table import ApiKey
from muster.kafkawire.records import ConsumedRecord
from tests.unit.broker_data_plane.planes import ORDERS, Broker, broker, client, produce, produced
from tests.unit.broker_log.compacted_logs import keyed, records

with warnings.catch_warnings():
    # kafka-python reads its schemas by an old way of the standard library.
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka

pytestmark = pytest.mark.filterwarnings("ignore:read_text is deprecated:DeprecationWarning")

SMALL = DataPlaneSettings(log=LogSettings(segment_bytes=1_500))
COMPACTED = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
PATIENCE_S = 60.0

Found = list[tuple[int, int, bytes | None, bytes | None]]
"""Offset, time, key and value."""


def lead(one: Broker, epoch: int, append_time: bool) -> None:
    """The broker leads orders, and clients are told where it is."""
    kind = "LogAppendTime" if append_time else "CreateTime"
    one.obey(epoch, epoch=epoch, configs={**COMPACTED, "message.timestamp.type": kind})
    known = TopicView("orders", ORDERS, (PartitionView(1, epoch, (1,), (1,)),))
    one.plane.view = MetadataView.of("test", [BrokerView(1, "127.0.0.1", one.client_port)], [known])


async def fill(one: Broker, rng: Random, codecs: tuple[int, ...]) -> None:
    """Batches of many producers, of which later ones write all keys again; compacted now and then."""
    sequences: dict[int, int] = {}
    async with client(one.client_port) as ann:
        for number in range(150):
            if number % 40 == 0:
                lead(one, 1 + number // 40, append_time=number == 80)
            pairs = [
                (b"k%d" % rng.randint(0, 5), rng.choice((None, b"", b"%d " % number * rng.randint(1, 60))))
                for _ in range(rng.randint(1, 6))
            ]
            producer = number // 5
            sequence = sequences.get(producer, 0)
            sequences[producer] = sequence + len(pairs)
            batch = keyed(
                pairs,
                producer=(producer, 0, sequence),
                compression=rng.choice(codecs),
                timestamp_ms=10 * number,
            )
            error, _ = produced(await ann.ask(ApiKey.PRODUCE, 9, produce(batch=batch)))
            assert error == 0
            if number in (60, 120):
                assert await one.plane.cleaner.clean_dirty() == 1
    assert await one.plane.cleaner.clean_dirty() == 1


def wanted(read: list[ConsumedRecord], offset: int) -> Found:
    return [(one.offset, one.timestamp_ms, one.key, one.value) for one in read if one.offset >= offset]


def by_librdkafka(bootstrap: str, offset: int, **settings: Any) -> Found:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "ann",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "check.crcs": True,
            "auto.offset.reset": "error",
            **settings,
        }
    )
    found: Found = []
    consumer.assign([TopicPartition("orders", 0, offset)])
    try:
        while True:
            message = consumer.poll(PATIENCE_S)
            assert message is not None, found
            error = message.error()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                return found
            at, (_, timestamp_ms) = message.offset(), message.timestamp()
            assert at is not None
            found.append((at, timestamp_ms, message.key(), message.value()))
    finally:
        consumer.close()


def by_kafka_python(bootstrap: str, offset: int) -> Found:
    consumer = kafka.KafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False)
    partition = kafka.TopicPartition("orders", 0)
    consumer.assign([partition])
    consumer.seek(partition, offset)
    found: Found = []
    try:
        end = consumer.end_offsets([partition])[partition]
        while consumer.position(partition) < end:
            for one in consumer.poll(timeout_ms=1_000).get(partition, ()):
                found.append((one.offset, one.timestamp, one.key, one.value))
        return found
    finally:
        consumer.close()


async def by_aiokafka(bootstrap: str, offset: int) -> Found:
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False)
    partition = AiokafkaPartition("orders", 0)
    await consumer.start()
    found: Found = []
    try:
        consumer.assign([partition])
        consumer.seek(partition, offset)
        end = (await consumer.end_offsets([partition]))[partition]
        async with asyncio.timeout(PATIENCE_S):
            while await consumer.position(partition) < end:
                for one in (await consumer.getmany(timeout_ms=1_000)).get(partition, ()):
                    found.append((one.offset, one.timestamp, one.key, one.value))
        return found
    finally:
        await consumer.stop()


@pytest.mark.parametrize("seed", range(3))
async def test_every_client_reads_what_is_left_from_anywhere_to_the_end(tmp_path: Path, seed: int) -> None:
    rng = Random(seed)
    async with broker(tmp_path, settings=SMALL) as one:
        await fill(one, rng, codecs=(0, 1, 2, 3, 4))
        (hosted,) = one.plane.partitions()
        hosted.delete_before(rng.randint(1, 40), 0)
        log, bootstrap = hosted.log, f"127.0.0.1:{one.client_port}"
        read = records(log)
        for offset in (log.start_offset, rng.randrange(log.start_offset, log.end_offset)):
            assert await asyncio.to_thread(by_librdkafka, bootstrap, offset) == wanted(read, offset)
            assert await by_aiokafka(bootstrap, offset) == wanted(read, offset)
        narrow = {"max.partition.fetch.bytes": 100, "isolation.level": "read_committed"}
        assert await asyncio.to_thread(by_librdkafka, bootstrap, log.start_offset, **narrow) == wanted(
            read, 0
        )


async def test_kafka_python_reads_what_is_left(tmp_path: Path) -> None:
    """Of the codecs it has gzip alone here."""
    async with broker(tmp_path, settings=SMALL) as one:
        await fill(one, Random(4), codecs=(0, 1))
        (hosted,) = one.plane.partitions()
        hosted.delete_before(17, 0)
        bootstrap = f"127.0.0.1:{one.client_port}"
        assert await asyncio.to_thread(by_kafka_python, bootstrap, 17) == wanted(records(hosted.log), 17)


async def test_librdkafka_gets_past_many_segments_without_records(tmp_path: Path) -> None:
    async with broker(tmp_path, settings=SMALL) as one, client(one.client_port) as ann:
        lead(one, 1, append_time=False)
        for number in range(160):
            value = Random(number).randbytes(300)
            batch = keyed([(b"k", value)], producer=(number, 0, 0), compression=number % 5)
            await ann.ask(ApiKey.PRODUCE, 9, produce(batch=batch))
        assert await one.plane.cleaner.clean_dirty() == 1
        (hosted,) = one.plane.partitions()
        assert len(hosted.log._segments) > 30
        found = await asyncio.to_thread(by_librdkafka, f"127.0.0.1:{one.client_port}", 0)
        assert found == wanted(records(hosted.log), 0)
