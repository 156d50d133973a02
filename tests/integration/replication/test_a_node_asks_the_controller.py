"""Whoever knows only a node makes, grows, moves and deletes topics there; it sends nobody to a broker."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from muster.kafkawire.api_table import ApiKey, part, request_class
from tests.integration.replication.cluster import PATIENCE_S, Cluster
from tests.unit.gateway.doors import Peer

PATIENCE = timedelta(seconds=20)


async def test_a_node_answers_what_changes_the_cluster(cluster: Cluster) -> None:
    await asyncio.to_thread(cluster.start, (1, 2))
    host, port = await kafka_door(cluster)
    admin = AdminClient({"bootstrap.servers": f"{host}:{port}", "log_level": 0})
    await asyncio.to_thread(made_by, admin)
    # An admin client asks whoever it is told is the controller: a broker, if one was known by then.
    by_then = adopted(cluster)

    peer = Peer(*await asyncio.open_connection(host, port))
    assert await created(peer, "orders", 2) == (0, None)
    await asyncio.to_thread(
        cluster.await_true, lambda: -1 not in cluster.leaders("orders").values(), "every partition leads"
    )
    assert (await created(peer, "orders", 2))[0] == 36
    assert (await created(peer, "no/slashes", 2))[0] == 17
    assert await grown(peer, "orders", 3) == (0, None)
    assert set(cluster.leaders("orders")) == {0, 1, 2}

    (before,) = {tuple(row["assigned"]) for row in cluster.partitions("by-an-admin").values()}
    target = (3 - before[0],)
    assert await moved(peer, "by-an-admin", target) == 0
    await asyncio.to_thread(
        cluster.await_true,
        lambda: cluster.partitions("by-an-admin")[0]["assigned"] == list(target),
        "it has moved",
    )
    assert await ongoing(peer) == []
    assert await deleted(peer, "orders", "nothing") == [0, 3]
    peer.close()
    assert adopted(cluster) == by_then + 5, "what no topic can be called is refused at the door"


async def test_an_admin_client_that_came_before_the_brokers_is_answered_and_served_when_they_are_there(
    cluster: Cluster,
) -> None:
    """Told of no controller, librdkafka does not look again before its own minute is over."""
    await asyncio.to_thread(cluster.start, ())
    host, port = await kafka_door(cluster)
    admin = AdminClient({"bootstrap.servers": f"{host}:{port}", "log_level": 0})
    with pytest.raises(KafkaException, match="INVALID_REPLICATION_FACTOR"):
        await asyncio.to_thread(made_by, admin)
    await asyncio.to_thread(cluster.start, (1, 2), 0)
    await asyncio.to_thread(made_by, admin)
    assert set(cluster.leaders("by-an-admin")) == {0}


def adopted(cluster: Cluster) -> int:
    """How many requests of nodes the controller has answered."""
    asked = "SELECT count(*) FROM work_item WHERE kind = 'controller.request' AND state = 'adopted'"
    [(number,)] = cluster.query(asked)
    assert isinstance(number, int)
    return number


async def kafka_door(cluster: Cluster) -> tuple[str, int]:
    """Where the only node listens for Kafka's clients, as soon as it does."""
    asked = "SELECT addresses ->> 'kafka' FROM node_session WHERE NOT ended"
    told = await asyncio.to_thread(cluster.await_true, lambda: cluster.query(asked), "the node is there")
    assert isinstance(told, list)
    host, _, port = str(told[0][0]).rpartition(":")
    return host, int(port)


def made_by(admin: AdminClient) -> None:
    """Have a topic made; raises KafkaException with the refusal."""
    futures = admin.create_topics([NewTopic("by-an-admin", 1, 1)], operation_timeout=20.0)
    futures["by-an-admin"].result(PATIENCE_S)


async def created(peer: Peer, name: str, partitions: int) -> tuple[int, str | None]:
    shape = part(request_class(ApiKey.CREATE_TOPICS, 7), "CreatableTopic")
    topic = shape(name=name, num_partitions=partitions, replication_factor=2, assignments=(), configs=())
    body = await peer.ask(ApiKey.CREATE_TOPICS, 7, topics=(topic,), timeout=PATIENCE, validate_only=False)
    return int(body.topics[0].error_code), body.topics[0].error_message if not body.topics[
        0
    ].error_code else ""


async def grown(peer: Peer, name: str, count: int) -> tuple[int, str | None]:
    shape = part(request_class(ApiKey.CREATE_PARTITIONS, 3), "CreatePartitionsTopic")
    topic = shape(name=name, count=count, assignments=None)
    body = await peer.ask(ApiKey.CREATE_PARTITIONS, 3, topics=(topic,), timeout=PATIENCE, validate_only=False)
    return int(body.results[0].error_code), body.results[0].error_message


async def moved(peer: Peer, name: str, replicas: tuple[int, ...]) -> int:
    request = request_class(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0)
    place = part(request, "ReassignablePartition")(partition_index=0, replicas=replicas)
    topic = part(request, "ReassignableTopic")(name=name, partitions=(place,))
    body = await peer.ask(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, topics=(topic,), timeout=PATIENCE)
    return int(body.responses[0].partitions[0].error_code)


async def ongoing(peer: Peer) -> list[Any]:
    body = await peer.ask(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, topics=None, timeout=PATIENCE)
    assert int(body.error_code) == 0
    return list(body.topics)


async def deleted(peer: Peer, *names: str) -> list[int]:
    body = await peer.ask(ApiKey.DELETE_TOPICS, 5, topic_names=names, timeout=PATIENCE)
    return [int(one.error_code) for one in body.responses]
