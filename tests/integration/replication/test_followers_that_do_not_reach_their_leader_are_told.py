"""Followers that live and do not reach their leader: producers are refused, and people are told of it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pytest_django import DjangoDbBlocker

from controller import findings, queries
from standalone.children import free_ports
from standalone.redis import Redis
from tests.acceptance.cut_links import Cut, Proxies
from tests.conftest import pointed_at
from tests.integration.replication.cluster import PATIENCE_S, Cluster

BOTH = (1, 2)


@pytest.fixture
def proxies() -> Iterator[Proxies]:
    with Proxies() as made:
        yield made


@pytest.fixture
def quick(tmp_path: Path, fresh_database: str, redis_server: Redis, proxies: Proxies) -> Iterator[Cluster]:
    """Two brokers that reach each other by doors; who lags for a second lags."""
    patience = {"MUSTER_REPLICA_LAG_TIME_MAX_MS": "1000"}
    made = Cluster(tmp_path / "cluster", fresh_database, redis_server, **patience)
    try:
        made.start(brokers=())
        for broker_id, port in zip(BOTH, free_ports(len(BOTH)), strict=True):
            made.start_broker(
                broker_id,
                MUSTER_BROKER_REPLICATION_LISTEN=f"127.0.0.1:{port}",
                MUSTER_BROKER_REPLICATION_ADDRESS=f"127.0.0.1:{proxies.open(f'peers-{broker_id}', port)}",
            )
        made.wait_until_ready(BOTH)
        yield made
    finally:
        made.stop()


@pytest.fixture
def told(quick: Cluster, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """Django's rows are those of the cluster."""
    with django_db_blocker.unblock(), pointed_at(quick.database_url):
        yield


def finding() -> findings.Finding | None:
    """What people are told of partitions that refuse acks=all."""
    rows = queries.brokers()
    (topic,) = queries.topics(BOTH, contains="orders", show="all", after="", limit=1)
    return next(
        (one for one in findings.of_topic(rows, topic) if one.kind == "partitions_under_min_isr"), None
    )


@pytest.mark.usefixtures("told")
def test_a_link_between_two_brokers_is_cut_and_mended(quick: Cluster, proxies: Proxies) -> None:
    """Both have their sessions, and the floor keeps the follower in the ISR: the rows show nothing of it."""

    def produced() -> bool:
        heard: list[bool] = []
        settings = {"bootstrap.servers": quick.bootstrap, "acks": "all", "retries": 0, "log_level": 0}
        producer = Producer({**settings, "message.timeout.ms": 3000})
        producer.produce(
            "orders", b"x", partition=0, on_delivery=lambda error, _: heard.append(error is None)
        )
        producer.flush(PATIENCE_S)
        return heard == [True]

    quick.create_topic("orders", 1, 2, {"min.insync.replicas": "2"})
    quick.await_true(lambda: quick.everybody_in_sync("orders"), "both are in sync")
    quick.await_true(produced, "acks=all is done")
    assert finding() is None
    leader = quick.leader_of("orders")
    proxies.cut(f"peers-{leader}", Cut.CLOSED)
    quick.await_true(lambda: not produced(), "acks=all is done no more")
    quick.await_true(finding, "people are told")
    said = finding()
    assert said is not None and said.facts["because"] == [], "no broker is fenced"
    (lags,) = said.facts["lags"]
    assert (lags["leader"], lags["brokers"]) == (leader, [3 - leader])
    assert set(quick.partitions("orders")[0]["isr"]) == set(BOTH) and quick.live_brokers() == set(BOTH)
    proxies.mend()
    quick.await_true(lambda: finding() is None, "they are told no more")
    quick.await_true(produced, "acks=all is done again")
