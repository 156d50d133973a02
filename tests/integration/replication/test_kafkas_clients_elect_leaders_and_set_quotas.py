"""Admin clients and Kafka's own tools elect leaders, set quotas and list brokers, at broker and node."""

import asyncio
import warnings
from typing import Any

import pytest
from confluent_kafka import ElectionType, TopicPartition
from confluent_kafka.admin import AdminClient

from muster.kafkawire.api_table import ApiKey, part, request_class
from tests.acceptance.kafka_tools import Said, Tools
from tests.acceptance.members import missing
from tests.integration.replication.cluster import Cluster
from tests.unit.gateway.doors import Peer

with warnings.catch_warnings():
    # kafka-python reads its schemas by an old way of the standard library.
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka

PREFERRED = 0
CLIENT_APP = ("--entity-type", "clients", "--entity-name", "app")

pytestmark = [
    pytest.mark.filterwarnings("ignore:read_text is deprecated:DeprecationWarning"),
    pytest.mark.timeout(400),
]


def doors(cluster: Cluster) -> dict[str, str]:
    """The address of a broker, and of a node."""
    (address,) = cluster.query("SELECT addresses ->> 'kafka' FROM node_session WHERE NOT ended")[0]
    return {"broker": cluster.bootstrap.rpartition(",")[2], "node": str(address)}


def led_by_others(cluster: Cluster, topic: str) -> None:
    """The broker that stands first for `topic` stops and comes back: another leads now."""
    ((number, row),) = cluster.partitions(topic).items()
    first = row["assigned"][0]
    cluster.end(first)
    cluster.await_true(lambda: cluster.leaders(topic)[number] not in (first, -1), "another one leads")
    cluster.start_broker(first)
    cluster.await_true(lambda: cluster.everybody_in_sync(topic), "it is in sync again")
    assert cluster.leaders(topic)[number] not in (first, -1)


def is_led_by_who_stands_first(cluster: Cluster, topic: str) -> bool:
    return all(row["leader"] == row["assigned"][0] for row in cluster.partitions(topic).values())


def test_leaders_are_elected_by_librdkafka_and_kafka_python(cluster: Cluster) -> None:
    cluster.start()
    cluster.create_topic("orders", 1)
    by_librdkafka = AdminClient({"bootstrap.servers": doors(cluster)["node"], "log_level": 0})

    def elect() -> dict[TopicPartition, Any]:
        wanted = [TopicPartition("orders", 0), TopicPartition("orders", 7)]
        told: dict[TopicPartition, Any] = by_librdkafka.elect_leaders(ElectionType.PREFERRED, wanted).result(
            30
        )
        return told

    led_by_others(cluster, "orders")
    told = {one.partition: error and error.name() for one, error in elect().items()}
    assert told == {0: None, 7: "UNKNOWN_TOPIC_OR_PART"}
    assert is_led_by_who_stands_first(cluster, "orders")
    told = {one.partition: error and error.name() for one, error in elect().items()}
    assert told[0] == "ELECTION_NOT_NEEDED"

    by_kafka_python = kafka.KafkaAdminClient(bootstrap_servers=doors(cluster)["broker"])
    led_by_others(cluster, "orders")
    by_kafka_python.elect_leaders(PREFERRED)
    assert is_led_by_who_stands_first(cluster, "orders")
    by_kafka_python.close()
    who = cluster.query("SELECT summary -> 'asked' FROM journal WHERE summary::text LIKE '%%ElectLeaders%%'")
    # What changed nothing has no row.
    assert len(who) == 2


async def test_quotas_are_set_and_told_at_both_doors(cluster: Cluster) -> None:
    await asyncio.to_thread(cluster.start, (1,))
    told = []
    for place, address in doors(cluster).items():
        host, _, port = address.rpartition(":")
        peer = Peer(*await asyncio.open_connection(host, int(port)))
        assert await altered(peer, place, 1_048_576.0) == [(0, None)]
        (refused,) = await altered(peer, place, 0.5)
        assert refused[0] == 42 and "whole number" in (refused[1] or "")
        answer = await peer.ask(
            ApiKey.DESCRIBE_CLIENT_QUOTAS,
            1,
            components=(component("client-id", 2),),
            strict=True,
        )
        told.append({entry.entity[0].entity_name: entry.values[0].value for entry in answer.entries})
        answer = await peer.ask(ApiKey.ELECT_LEADERS, 2, election_type=0, topic_partitions=None)
        assert (int(answer.error_code), answer.replica_election_results) == (0, ())
        level = part(request_class(ApiKey.UPDATE_FEATURES, 1), "FeatureUpdateKey")
        update = level(feature="kraft.version", max_version_level=1, upgrade_type=1)
        answer = await peer.ask(ApiKey.UPDATE_FEATURES, 1, feature_updates=(update,), validate_only=False)
        assert int(answer.error_code) == 95
        peer.close()
    # What one door was told the other one knows.
    assert told == [{"broker": 1_048_576.0}, {"broker": 1_048_576.0, "node": 1_048_576.0}]


async def altered(peer: Peer, client_id: str, rate: float) -> list[tuple[int, str | None]]:
    shape = request_class(ApiKey.ALTER_CLIENT_QUOTAS, 1)
    entry = part(shape, "EntryData")(
        entity=(part(shape, "EntityData")(entity_type="client-id", entity_name=client_id),),
        ops=(part(shape, "OpData")(key="producer_byte_rate", value=rate, remove=False),),
    )
    answer = await peer.ask(ApiKey.ALTER_CLIENT_QUOTAS, 1, entries=(entry,), validate_only=False)
    return [(int(one.error_code), one.error_message) for one in answer.entries]


def component(entity_type: str, match_type: int) -> Any:
    shape = part(request_class(ApiKey.DESCRIBE_CLIENT_QUOTAS, 1), "ComponentData")
    return shape(entity_type=entity_type, match_type=match_type, match=None)


def test_kafkas_own_tools_run_unmodified(cluster: Cluster) -> None:
    if reason := missing("java"):
        pytest.skip(reason)
    cluster.start()
    cluster.create_topic("orders", 1)
    with Tools(doors(cluster)["broker"]) as at_broker, Tools(doors(cluster)["node"]) as at_node:
        led_by_others(cluster, "orders")
        for tools in (at_broker, at_node):
            said = done(tools.elections("--election-type", "preferred", "--all-topic-partitions"))
            assert is_led_by_who_stands_first(cluster, "orders")
            named = ("--topic", "orders", "--partition")
            said = done(tools.elections("--election-type", "preferred", *named, 0))
            assert "Valid replica already elected for partitions orders-0" in said.text
            said = tools.elections("--election-type", "unclean", *named, 4)
            assert said.status == 1 and "UnknownTopicOrPartition" in said.text
        quotas_by_the_tool(at_broker, at_node)
        for tools in (at_broker, at_node):
            assert "Cluster ID: " in done(tools.cluster("cluster-id")).text
            listed = done(tools.cluster("list-endpoints", "--include-fenced-brokers"))
            assert {int(row[0]) for row in map(str.split, listed.text.splitlines()[1:]) if row} >= {1, 2, 3}
            versions = done(tools.api_versions()).text
            assert "ElectLeaders(43): 0 to 2 [usable: 2]" in versions
            assert "DescribeCluster(60): 0 to 2 [usable: 2]" in versions
            said = tools.features("upgrade", "--feature", "metadata.version=30")
            assert said.status == 1 and "there is no feature to change" in said.text


def quotas_by_the_tool(at_broker: Tools, at_node: Tools) -> None:
    """What is set through one door is described through the other."""
    rates = "producer_byte_rate=1048576,consumer_byte_rate=2097152"
    entities = (
        (CLIENT_APP, "client-id 'app'"),
        (("--entity-type", "clients", "--entity-default"), "the default client-id"),
        (("--entity-type", "users", "--entity-name", "olga"), "user-principal 'olga'"),
        (
            ("--entity-type", "users", "--entity-name", "olga", *CLIENT_APP),
            "user-principal 'olga', client-id 'app'",
        ),
    )
    for words, called in entities:
        said = done(at_broker.configs("--alter", "--add-config", rates, *words))
        assert "Completed updating" in said.text
        said = done(at_node.configs("--describe", *words))
        assert f"Quota configs for {called} are" in said.text, said.text
        assert "producer_byte_rate=1048576.0" in said.text and "consumer_byte_rate=2097152.0" in said.text
        done(at_node.configs("--alter", "--delete-config", "producer_byte_rate", *words))
        said = done(at_broker.configs("--describe", *words))
        assert "producer_byte_rate" not in said.text and "consumer_byte_rate=2097152.0" in said.text
    words, _ = entities[0]
    said = at_node.configs("--alter", "--add-config", "request_percentage=50", *words)
    assert said.status == 1 and "request_percentage is not obeyed here" in said.text


def done(said: Said) -> Said:
    assert said.status == 0, said.text
    return said
