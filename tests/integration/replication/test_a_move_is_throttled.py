"""A drain keeps to its rate, in-sync replicas are not held up, and another rate holds at once."""

import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from pytest_django import DjangoDbBlocker

from tests.conftest import pointed_at
from tests.integration.replication.cluster import PATIENCE_S, Cluster
from tests.integration.replication.test_a_plan_is_run_over_rest import Operator

PARTITIONS = 6
RATE = 1_000_000
VALUE = bytes(100_000)
PER_PARTITION = 40


@pytest.fixture
def olga(cluster: Cluster, django_db_blocker: DjangoDbBlocker) -> Iterator[Operator]:
    with django_db_blocker.unblock(), pointed_at(cluster.database_url):
        yield Operator(cluster.token("olga", "operator"))


def on_disk(cluster: Cluster, broker_id: int) -> int:
    """How many bytes of the topic's records a broker has."""
    folders = (cluster.data(broker_id) / "partitions").glob("orders-*")
    return sum(file.stat().st_size for folder in folders for file in folder.glob("*.log"))


def test_a_drain_keeps_to_its_rate_and_a_producer_is_not_held_up(cluster: Cluster, olga: Operator) -> None:
    cluster.start((1, 2, 3))
    cluster.create_topic("orders", PARTITIONS, 2, {"min.insync.replicas": "2"})
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "linger.ms": 5})
    for number in range(PARTITIONS):
        for _ in range(PER_PARTITION):
            producer.produce("orders", VALUE, partition=number)
    assert producer.flush(PATIENCE_S) == 0
    cluster.await_true(lambda: cluster.everybody_in_sync("orders"), "all are in sync")
    stored = PARTITIONS * PER_PARTITION * len(VALUE)
    cluster.await_true(
        lambda: (
            cluster.query("SELECT coalesce(sum(size_bytes), 0) >= %s FROM partition_progress", stored)
            == [(True,)]
        ),
        "the controller knows how much there is",
    )

    address = olga.propose(cluster, kind="drain", brokers=[3], throttle=RATE)
    plan = olga.get(address).json()
    copied = plan["cost"]["bytes"]
    assert copied >= plan["cost"]["replicas_added"] * PER_PARTITION * len(VALUE)
    before = on_disk(cluster, 1) + on_disk(cluster, 2)
    olga.change(address, "approve")
    began = time.monotonic()
    olga.change(address, "run")

    def arrived() -> int:
        return on_disk(cluster, 1) + on_disk(cluster, 2) - before

    # A leader sends, and a follower takes, no more than the rate; two of each work at a time.
    cluster.await_true(lambda: arrived() >= copied // 2, "half of it has come")
    assert arrived() <= 2 * RATE * (time.monotonic() - began + 2), "never above what two brokers may take"
    acknowledged: list[object] = []
    for number in range(PARTITIONS):
        producer.produce(
            "orders", b"x", partition=number, on_delivery=lambda error, _: acknowledged.append(error)
        )
    assert producer.flush(PATIENCE_S) == 0 and acknowledged == [None] * PARTITIONS
    olga.change(address, "throttle", throttle=0)
    cluster.await_true(lambda: olga.get(address).json()["phase"] == "Done", "the rest comes at once")
    assert cluster.query("SELECT count(*) FROM partition WHERE throttle <> 0") == [(0,)]
    cluster.await_true(lambda: cluster.logs_are_equal("orders"), "the replicas are equal")
