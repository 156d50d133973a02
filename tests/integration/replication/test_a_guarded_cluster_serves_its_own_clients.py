"""Where brokers ask for a token behind TLS, the SDK, Kafka's clients and our own workers come in."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer as KafkaConsumer
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pytest_django import DjangoDbBlocker

from access.grants import Role
from access.service import create_token
from muster import BlockingConsumer
from runtime import wake
from standalone.children import free_ports
from standalone.redis import Redis
from tests.conftest import pointed_at
from tests.integration.coordinator.operators import Operator
from tests.integration.replication.cluster import PATIENCE_S, Cluster

CERTIFICATES = Path(__file__).parents[2] / "unit" / "kafkaserver" / "certificates"
CA = str(CERTIFICATES / "first.crt")
RECORDS = 20
GUARDED = {
    "MUSTER_KAFKA_SASL": "1",
    "MUSTER_KAFKA_TLS_CERTIFICATE": CA,
    "MUSTER_KAFKA_TLS_KEY": str(CERTIFICATES / "first.key"),
    "MUSTER_KAFKA_TLS_CA": CA,
    "MUSTER_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
}


@pytest.fixture
def guarded(tmp_path: Path, fresh_database: str, redis_server: Redis) -> Iterator[Cluster]:
    """A node and brokers that ask for a token behind TLS, and no worker: the spare process stands in.

    The brokers find each other as on two machines: they listen everywhere, by a name and a certificate.
    """
    made = Cluster(tmp_path / "cluster", fresh_database, redis_server, **GUARDED)
    try:
        made.start_node("node-1")
        for broker_id, port in zip((1, 2), free_ports(2), strict=True):
            everywhere = {"MUSTER_BROKER_REPLICATION_LISTEN": f"0.0.0.0:{port}"}
            made.start_broker(broker_id, MUSTER_BROKER_REPLICATION_ADDRESS=f"localhost:{port}", **everywhere)
        made.wait_until_ready((1, 2))
        yield made
    finally:
        made.stop()


def _token(cluster: Cluster) -> str:
    """One for all: to make another costs a process."""
    return cluster.token("olga", "operator")


def _kafka(cluster: Cluster, **more: Any) -> dict[str, Any]:
    """How an unmodified client comes in with an operator's token, which may consume as well."""
    return {
        **_with_tls(),
        "bootstrap.servers": cluster.bootstrap,
        "sasl.username": "olga",
        "sasl.password": _token(cluster),
        **more,
    }


def _with_tls() -> dict[str, Any]:
    return {
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": CA,
        "sasl.mechanism": "SCRAM-SHA-512",
        "log_level": 0,
    }


def _fill(cluster: Cluster) -> None:
    operator = _kafka(cluster)
    admin = AdminClient(operator)
    admin.create_topics([NewTopic("orders", 1, 2)])["orders"].result(PATIENCE_S)
    producer = Producer(operator)
    for number in range(RECORDS):
        producer.produce("orders", b"%d" % number)
    assert producer.flush(PATIENCE_S) == 0
    cluster.await_true(lambda: cluster.everybody_in_sync("orders"), "the follower is in sync by TLS")


def _read_by_the_sdk(cluster: Cluster, count: int) -> list[int]:
    consumer = BlockingConsumer(
        "departures",
        ["orders"],
        nodes=list(cluster.addresses.values()),
        token=_token(cluster),
        ca_file=CA,
        auto_offset_reset="earliest",
        session_timeout_ms=6_000,
    )
    with consumer:
        offsets = [next(consumer).offset for _ in range(count)]
        consumer.commit()
    return offsets


def test_everybody_comes_in(guarded: Cluster, django_db_blocker: DjangoDbBlocker) -> None:
    _fill(guarded)
    assert _read_by_the_sdk(guarded, RECORDS) == list(range(RECORDS))

    unmodified = KafkaConsumer(_kafka(guarded, **{"group.id": "readers", "auto.offset.reset": "earliest"}))
    unmodified.subscribe(["orders"])
    read = unmodified.consume(RECORDS, PATIENCE_S)
    unmodified.close()
    assert [message.value() for message in read] == [b"%d" % number for number in range(RECORDS)]

    with django_db_blocker.unblock(), pointed_at(guarded.database_url):
        olga = Operator(_token(guarded), "departures")
        for to, after in (("latest", RECORDS), ("earliest", 0)):
            answer = olga.ask("reset_offsets", to=to).json()
            assert [one["after"] for one in answer["changes"]] == [after], answer
        by_time = olga.ask("reset_offsets", to="time", time="2020-01-01T00:00:00Z", dry_run=True).json()
        assert [one["after"] for one in by_time["changes"]] == [0], by_time
    assert _read_by_the_sdk(guarded, 1) == [0]


def test_a_token_that_nobody_was_told_of_is_good_at_once_at_every_broker(
    guarded: Cluster, django_db_blocker: DjangoDbBlocker, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The wake-up is lost: the node reads tokens, and tells brokers of them, ten seconds after the last time.
    monkeypatch.setattr(wake, "notify", lambda *_: None)
    refused: list[str] = []
    for broker_id, (client, _) in guarded.ports.items():
        for replace in (False, True):
            name = f"newcomer-{broker_id}"
            with django_db_blocker.unblock(), pointed_at(guarded.database_url):
                token = create_token(name, Role.OPERATOR, replace=replace)
            who = {"sasl.username": name, "sasl.password": token, "bootstrap.servers": f"127.0.0.1:{client}"}
            told: dict[str, Any] = {"error_cb": lambda error: refused.append(error.name())}
            admin = AdminClient({**_with_tls(), **who, **told})
            assert {1, 2} <= admin.list_topics(timeout=PATIENCE_S).brokers.keys()
            # Now it says what it met before.
            admin.poll(0)
    assert "_AUTHENTICATION" not in refused
