"""Partitions move to another broker under a producer, as Kafka's tool asks; a controller dies meanwhile."""

import asyncio
from datetime import timedelta
from typing import Any

from muster.kafkawire.api_table import ApiKey, build, part, request_class
from tests.integration.replication.cluster import Cluster, Producing, nothing_lost_nothing_twice
from tests.unit.broker_data_plane.planes import client

PARTITIONS = 4


def test_a_broker_is_drained_under_a_producer_and_a_node_that_dies_meanwhile(cluster: Cluster) -> None:
    cluster.start((1, 2, 3), nodes=2)
    cluster.start_broker(4, MUSTER_FILE_DELETE_DELAY_MS="1000")
    cluster.wait_until_ready((1, 2, 3, 4))
    cluster.create_topic("orders", PARTITIONS, configs={"min.insync.replicas": "2"})
    victim = cluster.leader_of("orders")
    producing = Producing(cluster, "orders", PARTITIONS)
    cluster.await_true(lambda: producing.acknowledged_count >= 200, "producing goes on")

    targets = {
        number: tuple(another(row["assigned"]) if b == victim else b for b in row["assigned"])
        for number, row in cluster.partitions("orders").items()
    }
    assert set(asyncio.run(reassign(cluster, targets)).values()) == {0}
    cluster.nodes[cluster.controller()].kill()
    cluster.await_true(lambda: assigned(cluster) == targets, "all have moved")
    assert not cluster.query("SELECT 1 FROM reassignment WHERE phase <> 'Done'")
    cluster.await_true(lambda: cluster.everybody_in_sync("orders"), "all are in sync")
    producing.finish()
    assert producing.refused == []
    found = cluster.read_everything("orders", PARTITIONS)
    nothing_lost_nothing_twice(producing, found)
    cluster.await_true(lambda: cluster.logs_are_equal("orders"), "the replicas are equal")
    assert asyncio.run(ongoing(cluster)) == ()


def another(assigned: list[int]) -> int:
    """A broker that does not hold the partition."""
    return next(b for b in (4, 3, 2, 1) if b not in assigned)


def assigned(cluster: Cluster) -> dict[int, tuple[int, ...]]:
    return {number: tuple(row["assigned"]) for number, row in cluster.partitions("orders").items()}


async def ask(cluster: Cluster, key: ApiKey, version: int, body: Any, door: int = 1) -> Any:
    """Of this broker, as a tool would."""
    async with client(cluster.ports[door][0]) as tool:
        return await tool.ask(key, version, body)


async def reassign(cluster: Cluster, targets: dict[int, tuple[int, ...]], door: int = 1) -> dict[int, int]:
    """The error of each partition."""
    key = ApiKey.ALTER_PARTITION_REASSIGNMENTS
    shape = request_class(key, 0)
    places = tuple(
        build(part(shape, "ReassignablePartition"), partition_index=number, replicas=target)
        for number, target in targets.items()
    )
    topic = build(part(shape, "ReassignableTopic"), name="orders", partitions=places)
    answer = await ask(cluster, key, 0, build(shape, topics=(topic,), timeout=timedelta(seconds=10)), door)
    return {one.partition_index: int(one.error_code) for one in answer.responses[0].partitions}


async def ongoing(cluster: Cluster) -> tuple[Any, ...]:
    key = ApiKey.LIST_PARTITION_REASSIGNMENTS
    body = build(request_class(key, 0), topics=None, timeout=timedelta(seconds=10))
    topics: tuple[Any, ...] = (await ask(cluster, key, 0, body)).topics
    return topics
