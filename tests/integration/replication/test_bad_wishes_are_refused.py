"""What cannot be done is refused with Kafka's error, and who has no secret is not let in."""

import socket

import pytest

from tests.integration.replication.cluster import PATIENCE_S, Cluster


def test_bad_topics_are_refused(cluster: Cluster) -> None:
    cluster.start()
    cluster.create_topic("orders", 1)
    assert cluster.refusal("orders", 1, 1) == "TOPIC_ALREADY_EXISTS"
    assert cluster.refusal("clicks", 1, 4) == "INVALID_REPLICATION_FACTOR"
    assert cluster.refusal("clicks", 0, 1) == "INVALID_PARTITIONS"
    assert cluster.refusal("no/slashes", 1, 1) == "TOPIC_EXCEPTION"
    assert set(cluster.leaders("clicks")) == set()


def test_a_broker_with_a_wrong_secret_never_registers(cluster: Cluster) -> None:
    cluster.start(brokers=(1,))
    cluster.enroll(2)
    cluster.secrets[2] = "not the secret"
    cluster.start_broker(2)
    cluster.await_true(lambda: "no broker by this secret" in cluster.probe(2, "readyz")[1], "it is told why")
    assert 2 not in cluster.live_brokers()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", cluster.ports[2][0]), timeout=5)


def test_a_listener_that_others_reach_and_nobody_guards_is_refused(cluster: Cluster) -> None:
    cluster.addresses["node-1"] = "ws://127.0.0.1:1"
    process = cluster.start_broker(1, MUSTER_BROKER_LISTEN="0.0.0.0:9092")
    assert process.popen.wait(timeout=PATIENCE_S) == 2
    assert "needs MUSTER_KAFKA_SASL=1" in process.tail()
