"""librdkafka, kafka-python and aiokafka against one broker process, which is killed and comes back."""

import os
import signal
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AiokafkaPartition
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka import admin as librdkafka

from muster.kafkawire.batches import headers
from muster.kafkawire.compression import NAMES
from tests.benchmarks.free_ports import free_port

with warnings.catch_warnings():
    # kafka-python reads its schemas by an old way of the standard library.
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka

pytestmark = pytest.mark.filterwarnings("ignore:read_text is deprecated:DeprecationWarning")

TOPIC, PARTITIONS = "orders", 2
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
TOPICS = (TOPIC, "kafka-python", "aiokafka", *CODECS)
PATIENCE_S = 60.0
ROOT = Path(__file__).parents[3]


class BrokerProcess:
    """A broker as a process of its own, on one port and one folder over all its lives."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._port = free_port()
        self._process: subprocess.Popen[str] | None = None

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self._port}"

    def start(self) -> None:
        module = "tests.benchmarks.produce_consume_broker"
        topics = [f"{topic}:{PARTITIONS}" for topic in TOPICS]
        command = [sys.executable, "-m", module, str(self.folder), *topics]
        environment = {**os.environ, "MUSTER_LONE_BROKER_PORT": str(self._port)}
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environment
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline().startswith("ready")

    def end(self, how: signal.Signals) -> int:
        assert self._process is not None
        self._process.send_signal(how)
        code = self._process.wait(PATIENCE_S)
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._process = None
        return code


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """One broker for all tests; each writes a topic of its own."""
    process = BrokerProcess(tmp_path_factory.mktemp("broker") / "logs")
    process.start()
    yield process
    process.end(signal.SIGTERM)


def _produced(producer: Producer, topic: str, values: range, failures: list[Any]) -> None:
    for number in values:
        producer.produce(
            topic,
            b"%d" % number,
            partition=number % PARTITIONS,
            on_delivery=lambda error, _message: failures.append(error) if error else None,
        )


def _consumed(bootstrap: str, topic: str, count: int) -> dict[int, list[int]]:
    """Values by partition, in the order they were read from the beginning."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "ann", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    found: dict[int, list[int]] = {partition: [] for partition in range(PARTITIONS)}
    try:
        while sum(map(len, found.values())) < count:
            message = consumer.poll(PATIENCE_S)
            assert message is not None, found
            assert message.error() is None, message.error()
            partition, value = message.partition(), message.value()
            assert partition is not None and value is not None
            found[partition].append(int(value))
    finally:
        consumer.close()
    return found


def _expected(count: int) -> dict[int, list[int]]:
    return {partition: list(range(partition, count, PARTITIONS)) for partition in range(PARTITIONS)}


def test_a_transactional_producer_is_told_at_once_that_there_are_no_transactions(
    broker: BrokerProcess,
) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "ann", "log_level": 0})
    with pytest.raises(KafkaException, match="transactions are not served") as refused:
        producer.init_transactions(PATIENCE_S)
    assert refused.value.args[0].fatal()


def test_a_producer_to_a_name_that_no_topic_can_have_is_told_so(broker: BrokerProcess) -> None:
    """It does not wait for that topic to be created."""
    failures: list[Any] = []
    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    _produced(producer, "orders/eu", range(2), failures)
    assert producer.flush(PATIENCE_S) == 0
    assert {error.code() for error in failures} == {KafkaError.TOPIC_EXCEPTION}


@pytest.mark.parametrize("codec", CODECS)
def test_librdkafka_idempotent_with_every_codec(broker: BrokerProcess, codec: str) -> None:
    failures: list[Any] = []
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap, "enable.idempotence": True, "compression.type": codec}
    )
    _produced(producer, codec, range(1_000), failures)
    assert producer.flush(PATIENCE_S) == 0
    assert failures == []
    assert _consumed(broker.bootstrap, codec, 1_000) == _expected(1_000)


def test_a_kill_loses_nothing_acknowledged_and_a_retry_doubles_nothing(broker: BrokerProcess) -> None:
    """One replica, a killed process, a machine that goes on: the page cache has every acknowledged record.

    The first stop is a kill in the middle of the sends, the second a clean one.
    """
    failures: list[Any] = []
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap, "enable.idempotence": True, "linger.ms": 1, "log_level": 0}
    )
    _produced(producer, TOPIC, range(1_000), failures)
    broker.end(signal.SIGKILL)
    broker.start()
    _produced(producer, TOPIC, range(1_000, 2_000), failures)
    assert producer.flush(PATIENCE_S) == 0
    assert broker.end(signal.SIGTERM) == 0
    broker.start()
    _produced(producer, TOPIC, range(2_000, 3_000), failures)
    assert producer.flush(PATIENCE_S) == 0
    assert failures == []
    assert _consumed(broker.bootstrap, TOPIC, 3_000) == _expected(3_000)


def test_librdkafkas_admin_creates_a_topic_with_configs_and_lists_offsets(broker: BrokerProcess) -> None:
    names: Any = librdkafka
    admin = names.AdminClient({"bootstrap.servers": broker.bootstrap})
    created = admin.create_topics([names.NewTopic("admin", 1, 1, config={"retention.ms": "60000"})])
    created["admin"].result(PATIENCE_S)
    partition = TopicPartition("admin", 0)
    specs = names.OffsetSpec
    # In an empty log no record has the largest timestamp.
    for spec, offset in ((specs.earliest(), 0), (specs.latest(), 0), (specs.max_timestamp(), -1)):
        assert admin.list_offsets({partition: spec})[partition].result(PATIENCE_S).offset == offset


@pytest.mark.parametrize(("wanted", "sent"), [("zstd", "gzip"), ("gzip", "none"), ("uncompressed", "lz4")])
def test_a_topics_codec_is_what_its_records_are_stored_in(
    broker: BrokerProcess, wanted: str, sent: str
) -> None:
    names: Any = librdkafka
    admin = names.AdminClient({"bootstrap.servers": broker.bootstrap})
    topic = f"stored-{wanted}"
    made = names.NewTopic(topic, PARTITIONS, 1, config={"compression.type": wanted})
    admin.create_topics([made])[topic].result(PATIENCE_S)
    failures: list[Any] = []
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap, "enable.idempotence": True, "compression.type": sent}
    )
    _produced(producer, topic, range(1_000), failures)
    assert producer.flush(PATIENCE_S) == 0
    assert failures == []
    assert _consumed(broker.bootstrap, topic, 1_000) == _expected(1_000)
    stored = b"".join(path.read_bytes() for path in broker.folder.glob(f"**/{topic}-*/*.log"))
    assert {header.codec for _, header in headers(stored)} == {NAMES[wanted]}


def test_kafka_python(broker: BrokerProcess) -> None:
    producer = kafka.KafkaProducer(bootstrap_servers=broker.bootstrap)
    futures = [producer.send("kafka-python", b"%d" % n, partition=n % PARTITIONS) for n in range(200)]
    assert [future.get(PATIENCE_S).offset for future in futures] == [n // PARTITIONS for n in range(200)]
    producer.close()
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=broker.bootstrap, enable_auto_commit=False, consumer_timeout_ms=30_000
    )
    partitions = [kafka.TopicPartition("kafka-python", number) for number in range(PARTITIONS)]
    consumer.assign(partitions)
    consumer.seek_to_beginning()
    assert consumer.end_offsets(partitions) == dict.fromkeys(partitions, 100)
    found = {int(next(consumer).value) for _ in range(200)}
    consumer.close()
    assert found == set(range(200))


async def test_aiokafka(broker: BrokerProcess) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap, enable_idempotence=True)
    await producer.start()
    for number in range(200):
        await producer.send("aiokafka", b"%d" % number, partition=number % PARTITIONS)
    await producer.stop()
    consumer = AIOKafkaConsumer(bootstrap_servers=broker.bootstrap, enable_auto_commit=False)
    await consumer.start()
    consumer.assign([AiokafkaPartition("aiokafka", number) for number in range(PARTITIONS)])
    await consumer.seek_to_beginning()
    found: set[int] = set()
    while len(found) < 200:
        batches = await consumer.getmany(timeout_ms=30_000)
        assert batches, len(found)
        found |= {int(record.value) for records in batches.values() for record in records}
    await consumer.stop()
    assert found == set(range(200))
