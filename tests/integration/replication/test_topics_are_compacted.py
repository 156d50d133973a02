"""Kafka's own clients write to a compacted topic, and read each key's last value from every replica."""

import asyncio
import json
from functools import partial

from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AiokafkaPartition
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from tests.integration.replication.cluster import Cluster

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
KEYS = 50
COMPACTED = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "segment.bytes": "1048576",
}


def test_each_key_has_its_last_value_for_every_client_past_a_change_of_leader(cluster: Cluster) -> None:
    cluster.start()
    cluster.create_topic("tables", 1, configs=COMPACTED)
    latest: dict[bytes, bytes | None] = {}
    for number, codec in enumerate(CODECS * 2):
        fill(cluster, codec, number, latest)
    cluster.await_true(lambda: cluster.everybody_in_sync("tables"), "all are in sync")
    cluster.await_true(partial(were_compacted, cluster), "each replica was compacted", within_s=90)
    # A pass may have come before the last records did; the next one follows.
    cluster.await_true(lambda: len(read(cluster)) < 2_500, "old values are gone", within_s=90)
    assert dict(read(cluster)) == latest
    assert asyncio.run(read_with_aiokafka(cluster)) == latest

    leader = cluster.leader_of("tables")
    cluster.brokers[leader].kill()
    cluster.await_true(lambda: cluster.leaders("tables")[0] not in (leader, -1), "another leads")
    # It serves no more than it knows to be committed, which it learns from its followers.
    cluster.await_true(lambda: dict(read(cluster)) == latest, "it serves each key's last value")
    fill(cluster, "none", 99, latest)
    cluster.start_broker(leader)
    cluster.wait_until_ready((leader,))
    cluster.await_true(lambda: cluster.everybody_in_sync("tables"), "it is in sync again")
    cluster.await_true(lambda: dict(read(cluster)) == latest, "nothing has changed by that")


def fill(cluster: Cluster, codec: str, number: int, latest: dict[bytes, bytes | None]) -> None:
    """A megabyte of values of a few keys; one key is deleted."""
    settings = {"bootstrap.servers": cluster.bootstrap, "log_level": 0, "compression.type": codec}
    producer = Producer(
        {**settings, "enable.idempotence": True, "batch.num.messages": 50, "linger.ms": 1_000}
    )
    for count in range(700):
        if count == 680:
            # The producer's last batch is compressed, and others write all its keys later.
            assert producer.flush(60) == 0
        key, value = b"k%d" % (count % KEYS), b"%d-%d" % (number, count) + filling(number, count)
        producer.produce("tables", value, key, partition=0)
        latest[key] = value
        producer.poll(0)
    gone = b"k%d" % number
    producer.produce("tables", None, gone, partition=0)
    latest[gone] = None
    assert producer.flush(60) == 0


def filling(number: int, count: int) -> bytes:
    """What no codec makes much smaller."""
    return b"".join(b"%x" % ((number * 7919 + count * 104729 + n * n * 31) % 65521) for n in range(500))


def were_compacted(cluster: Cluster) -> bool:
    """Every broker says so in its log."""
    return all(
        any(
            one.get("event") == "compacted" and one["bytes_after"] < one["bytes_before"]
            for one in map(json.loads, filter(is_json, process.log.read_text().splitlines()))
        )
        for process in cluster.brokers.values()
    )


def is_json(line: str) -> bool:
    return line.startswith("{")


def read(cluster: Cluster) -> list[tuple[bytes | None, bytes | None]]:
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "readers",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "check.crcs": True,
            "log_level": 0,
        }
    )
    found: list[tuple[bytes | None, bytes | None]] = []
    try:
        consumer.assign([TopicPartition("tables", 0, 0)])
        while True:
            message = consumer.poll(60.0)
            assert message is not None
            error = message.error()
            if error is None:
                found.append((message.key(), message.value()))
            elif error.code() == KafkaError._PARTITION_EOF:
                return found
            else:
                assert error.retriable(), error
    finally:
        consumer.close()


async def read_with_aiokafka(cluster: Cluster) -> dict[bytes | None, bytes | None]:
    consumer = AIOKafkaConsumer(bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest")
    await consumer.start()
    try:
        partition = AiokafkaPartition("tables", 0)
        consumer.assign([partition])
        end = (await consumer.end_offsets([partition]))[partition]
        found: dict[bytes | None, bytes | None] = {}
        async with asyncio.timeout(60):
            while await consumer.position(partition) < end:
                for one in (await consumer.getmany(timeout_ms=1_000)).get(partition, ()):
                    found[one.key] = one.value
        return found
    finally:
        await consumer.stop()
