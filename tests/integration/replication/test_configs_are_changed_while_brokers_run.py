"""Configs are set, described and unset at any door, by unmodified clients, and act without a restart."""

import socket
from collections.abc import Iterable
from typing import Any

import pytest
from confluent_kafka import (
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource, ConfigSource
from confluent_kafka.admin._resource import ResourceType

from muster.kafkawire.api_table import ApiKey, part, request_class
from muster.kernel.error_codes import ErrorCode
from tests.integration.replication.cluster import Cluster
from tests.unit.kafkawire.asking import ClientConnection

SET, DELETE, APPEND = AlterConfigOpType.SET, AlterConfigOpType.DELETE, AlterConfigOpType.APPEND
Change = tuple[str, AlterConfigOpType, str | None]


def doors(cluster: Cluster) -> dict[str, AdminClient]:
    """An admin client of Kafka that knows a broker, and one that knows a node alone."""
    (address,) = cluster.query("SELECT addresses ->> 'kafka' FROM node_session WHERE NOT ended")[0]
    return {
        "broker": cluster.admin(),
        "node": AdminClient({"bootstrap.servers": str(address), "log_level": 0}),
    }


def changed(
    admin: AdminClient, kind: ResourceType, name: str, *changes: Change, patience_s: float = 20.0
) -> str:
    """The error's name; "" if there is none."""
    entries = [ConfigEntry(key, value, incremental_operation=how) for key, how, value in changes]
    resource = ConfigResource(kind, name, incremental_configs=entries)
    try:
        admin.incremental_alter_configs([resource], request_timeout=patience_s)[resource].result(30)
    except KafkaException as refused:
        return str(refused.args[0].name())
    return ""


def told(admin: AdminClient, kind: ResourceType, name: str) -> dict[str, tuple[str | None, ConfigSource]]:
    resource = ConfigResource(kind, name)
    found = admin.describe_configs([resource], request_timeout=20.0)[resource].result(30)
    return {key: (entry.value, ConfigSource(entry.source)) for key, entry in found.items()}


def await_produced(cluster: Cluster, topic: str, size: int, error: str, what: str) -> None:
    """Wait until a record of this size is answered so; a leader may have to hear first that it leads."""
    cluster.await_true(lambda: produced(cluster, topic, size) == error, what)


def produced(cluster: Cluster, topic: str, size: int) -> str:
    """The error of a record of this size with acks=all; "" if it was stored."""
    outcomes: list[str] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "retries": 0, "log_level": 0})
    producer.produce(
        topic, b"x" * size, on_delivery=lambda error, _: outcomes.append(error.name() if error else "")
    )
    assert producer.flush(30) == 0
    return outcomes[0]


def ask(port: int, key: ApiKey, version: int, body: Any) -> Any:
    """One question and its answer: librdkafka names no cluster-wide resource."""
    connection = ClientConnection("ann")
    with socket.create_connection(("127.0.0.1", port), timeout=30) as peer:
        peer.sendall(connection.request(key, version, body)[1])
        while True:
            data = peer.recv(65_536)
            assert data, "hung up"
            for reply in connection.receive_data(data):
                return reply.body


def set_for_all(cluster: Cluster, key: str, value: str, port: int = 0) -> int:
    """The error of setting it for the whole cluster, at the door of this port."""
    shape = request_class(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1)
    change = part(shape, "AlterableConfig")(name=key, config_operation=0, value=value)
    everyone = part(shape, "AlterConfigsResource")(resource_type=4, resource_name="", configs=(change,))
    request = shape(resources=(everyone,), validate_only=False)
    body = ask(port or cluster.ports[1][0], ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request)
    return int(body.responses[0].error_code)


def set_for_everyone(cluster: Cluster) -> dict[str, tuple[str, int]]:
    """What is told to be set for the whole cluster."""
    shape = request_class(ApiKey.DESCRIBE_CONFIGS, 4)
    everyone = part(shape, "DescribeConfigsResource")(
        resource_type=4, resource_name="", configuration_keys=None
    )
    request = shape(resources=(everyone,), include_synonyms=False, include_documentation=False)
    body = ask(cluster.ports[1][0], ApiKey.DESCRIBE_CONFIGS, 4, request)
    return {one.name: (one.value, one.config_source) for one in body.results[0].configs}


def rows(cluster: Cluster, topic: str, *keys: str) -> Iterable[object]:
    return [
        cluster.query("SELECT configs ->> %s FROM topic WHERE name = %s", key, topic)[0][0] for key in keys
    ]


@pytest.mark.parametrize("door", ["broker", "node"])
def test_a_topics_configs_act_at_once_and_are_told_as_they_are(
    shared: Cluster, topic: str, door: str
) -> None:
    shared.create_topic(topic, 1)
    admin = doors(shared)[door]
    assert told(admin, ResourceType.TOPIC, topic)["max.message.bytes"] == (
        "1048588",
        ConfigSource.DEFAULT_CONFIG,
    )
    await_produced(shared, topic, 1_000, "", "it is taken")

    assert changed(admin, ResourceType.TOPIC, topic, ("max.message.bytes", SET, "500")) == ""
    by_topic = ("500", ConfigSource.DYNAMIC_TOPIC_CONFIG)
    shared.await_true(
        lambda: told(admin, ResourceType.TOPIC, topic)["max.message.bytes"] == by_topic, "it is told"
    )
    await_produced(shared, topic, 1_000, "MSG_SIZE_TOO_LARGE", "it is too large")
    await_produced(shared, topic, 100, "", "another one is not")

    assert changed(admin, ResourceType.TOPIC, topic, ("max.message.bytes", DELETE, None)) == ""
    await_produced(shared, topic, 1_000, "", "it is taken again")

    refused = changed(admin, ResourceType.TOPIC, topic, ("no.such.key", SET, "1"))
    assert refused == "INVALID_CONFIG"
    refused = changed(admin, ResourceType.TOPIC, topic, ("retention.ms", APPEND, "1"))
    assert refused == "INVALID_CONFIG"
    refused = changed(admin, ResourceType.TOPIC, "clicks", ("retention.ms", SET, "1"))
    assert refused == "UNKNOWN_TOPIC_OR_PART"
    assert rows(shared, topic, "no.such.key", "retention.ms", "max.message.bytes") == [None, None, None]


@pytest.mark.parametrize("door", ["broker", "node"])
def test_what_is_set_for_a_broker_and_for_all_is_told_with_its_source(shared: Cluster, door: str) -> None:
    admin = doors(shared)[door]
    kind = ResourceType.BROKER
    own = told(admin, kind, "1")
    assert own["log.segment.bytes"] == ("1048576", ConfigSource.STATIC_BROKER_CONFIG)
    assert own["log.retention.ms"] == ("604800000", ConfigSource.DEFAULT_CONFIG)
    assert changed(admin, kind, "1", ("log.retention.ms", SET, "7200000")) == ""
    by_broker = ("7200000", ConfigSource.DYNAMIC_BROKER_CONFIG)
    shared.await_true(
        lambda: told(admin, kind, "1")["log.retention.ms"] == by_broker, "the broker says what was set for it"
    )
    assert told(admin, kind, "2")["log.retention.ms"][0] == "604800000"
    # The client looks for a broker 9 for as long as it may.
    assert changed(admin, kind, "9", ("log.retention.ms", SET, "1"), patience_s=1.0) != ""
    assert changed(admin, kind, "1", ("min.insync.replicas", SET, "2")) == "INVALID_CONFIG"
    assert changed(admin, kind, "1", ("log.retention.ms", DELETE, None)) == ""
    by_default = ("604800000", ConfigSource.DEFAULT_CONFIG)
    shared.await_true(lambda: told(admin, kind, "1")["log.retention.ms"] == by_default, "and what was unset")


def test_how_many_replicas_must_hold_a_record_is_one_truth_for_all(cluster: Cluster) -> None:
    """Set for the cluster it holds for topics that set nothing; what a topic sets goes before it."""
    cluster.start()
    cluster.create_topic("orders", 1)
    admin = cluster.admin()
    assert set_for_all(cluster, "min.insync.replicas", "3") == 0
    assert set_for_everyone(cluster) == {"min.insync.replicas": ("3", 3)}
    await_produced(cluster, "orders", 10, "", "all three hold it")
    leader = cluster.leader_of("orders")
    away = next(broker_id for broker_id in cluster.brokers if broker_id != leader)
    cluster.brokers[away].popen.kill()
    await_produced(cluster, "orders", 10, "NOT_ENOUGH_REPLICAS", "two are too few")
    assert changed(admin, ResourceType.TOPIC, "orders", ("min.insync.replicas", SET, "2")) == ""
    await_produced(cluster, "orders", 10, "", "two are enough")
    journal = cluster.query(
        "SELECT count(*) FROM broker_configs WHERE configs ->> 'min.insync.replicas' = '3'"
    )
    assert journal == [(1,)]


def stored_time(cluster: Cluster, topic: str, stated_ms: int) -> tuple[str, int, int]:
    """The error of a record that states this time; else the kind and the number that it was stored with."""
    outcomes: list[tuple[str, int]] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "retries": 0, "log_level": 0})

    def delivered(error: KafkaError | None, message: Message) -> None:
        outcomes.append((error.name() if error else "", message.offset() or 0))

    producer.produce(topic, b"x", timestamp=stated_ms, partition=0, on_delivery=delivered)
    assert producer.flush(30) == 0
    [(error, offset)] = outcomes
    if error:
        return error, 0, 0
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "times", "log_level": 0})
    try:
        consumer.assign([TopicPartition(topic, 0, offset)])
        message = consumer.poll(30)
        assert message is not None and message.error() is None
        return "", *message.timestamp()
    finally:
        consumer.close()


def test_times_of_records_are_judged_and_made_as_is_set_by_then(shared: Cluster, topic: str) -> None:
    shared.create_topic(topic, 1)
    admin, kind = shared.admin(), ResourceType.TOPIC
    long_ago = 1_000_000
    as_stated = ("", TIMESTAMP_CREATE_TIME, long_ago)
    shared.await_true(lambda: stored_time(shared, topic, long_ago) == as_stated, "as it is stated")

    assert changed(admin, kind, topic, ("message.timestamp.before.max.ms", SET, "1000")) == ""
    shared.await_true(
        lambda: stored_time(shared, topic, long_ago)[0] == "INVALID_TIMESTAMP", "it is too old by now"
    )
    assert changed(admin, kind, topic, ("message.timestamp.type", SET, "LogAppendTime")) == ""

    def made_by_the_leader() -> bool:
        _, made_by, time_ms = stored_time(shared, topic, long_ago)
        return made_by == TIMESTAMP_LOG_APPEND_TIME and time_ms > long_ago

    shared.await_true(made_by_the_leader, "the leader's time")


def test_topics_cannot_be_deleted_while_the_cluster_says_so(shared: Cluster, topic: str) -> None:
    shared.create_topic(topic, 1)
    assert set_for_all(shared, "delete.topic.enable", "false") == 0
    admin = shared.admin()
    with pytest.raises(KafkaException, match="TOPIC_DELETION_DISABLED"):
        admin.delete_topics([topic], request_timeout=20.0)[topic].result(30)
    assert set_for_all(shared, "delete.topic.enable", "true") == 0
    admin.delete_topics([topic], request_timeout=20.0)[topic].result(30)
    shared.await_true(lambda: not shared.partitions(topic), "it is gone")


def test_a_text_that_no_database_takes_is_refused_with_a_reason(shared: Cluster) -> None:
    (address,) = shared.query("SELECT addresses ->> 'kafka' FROM node_session WHERE NOT ended")[0]
    node = int(str(address).rpartition(":")[2])
    for port, error in ((node, ErrorCode.POLICY_VIOLATION), (shared.ports[1][0], ErrorCode.INVALID_CONFIG)):
        assert set_for_all(shared, "a\0", "1", port) == error
        shape = request_class(ApiKey.DESCRIBE_CONFIGS, 4)
        resource = part(shape, "DescribeConfigsResource")
        asked = resource(resource_type=2, resource_name="a\0", configuration_keys=None)
        request = shape(resources=(asked,), include_synonyms=False, include_documentation=False)
        body = ask(port, ApiKey.DESCRIBE_CONFIGS, 4, request)
        assert int(body.results[0].error_code) == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert set_for_all(shared, "log.retention.ms", "\\u0000", node) == ErrorCode.INVALID_CONFIG
