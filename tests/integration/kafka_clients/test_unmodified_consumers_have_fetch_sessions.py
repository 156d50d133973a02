"""kafka-python, whose fetch sessions are those of Java's consumer, reads all records once, by one session."""

import signal
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.integration.kafka_clients.test_unmodified_clients_produce_and_fetch import BrokerProcess

with warnings.catch_warnings():
    # kafka-python reads its schemas by an old way of the standard library.
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka

pytestmark = pytest.mark.filterwarnings("ignore:read_text is deprecated:DeprecationWarning")

TOPIC, PARTITIONS, COUNT = "orders", 2, 3_000
PATIENCE_MS = 30_000


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    process = BrokerProcess(tmp_path / "logs")
    process.start()
    yield process
    process.end(signal.SIGTERM)


def produce(bootstrap: str) -> None:
    """A few records at a time, so that most fetches find nothing in most partitions."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    for number in range(COUNT):
        producer.produce(TOPIC, b"%d" % number, partition=number % PARTITIONS)
        if not number % 50:
            assert producer.flush(PATIENCE_MS / 1000) == 0
    assert producer.flush(PATIENCE_MS / 1000) == 0


def test_everything_is_read_by_one_session(broker: BrokerProcess) -> None:
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=broker.bootstrap,
        auto_offset_reset="earliest",
        consumer_timeout_ms=PATIENCE_MS,
        fetch_max_wait_ms=100,
    )
    values: list[int] = []
    sessions: set[int] = set()
    try:
        consumer.assign([kafka.TopicPartition(TOPIC, number) for number in range(PARTITIONS)])
        writing = threading.Thread(target=produce, args=(broker.bootstrap,))
        writing.start()
        while len(values) < COUNT:
            values.append(int(next(consumer).value))
            sessions |= {one.next_metadata.session_id for one in consumer._fetcher._session_handlers.values()}
        writing.join()
    finally:
        consumer.close()
    assert sorted(values) == list(range(COUNT))
    by_partition = [[value for value in values if value % PARTITIONS == part] for part in range(PARTITIONS)]
    assert all(one == sorted(one) for one in by_partition)
    # Without an answer yet there is none; after the first it is the same until the end.
    assert len(sessions - {0}) == 1
