"""This room reads brokers, topics and partitions for the rest of the house; it writes nothing."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple
from uuid import UUID

from psycopg import Connection

from muster.kernel.ids import BrokerId, TopicId, TopicName
from muster.kernel.security_protocols import PLAINTEXT
from muster.kernel.topology import Layouts, TopicLayout

_LAYOUTS = "SELECT name, topic_id, partition_count FROM topic ORDER BY name"
_LIVE_BROKERS = """
SELECT broker_id, rack, endpoints FROM broker WHERE NOT fenced ORDER BY broker_id"""


_RACKS = """
SELECT topic.name, partition.partition, array_agg(DISTINCT broker.rack)
FROM topic JOIN partition USING (topic_id) CROSS JOIN unnest(partition.assigned) AS replica
JOIN broker ON broker.broker_id = replica
WHERE topic.name = ANY (%s) AND broker.rack <> '' GROUP BY 1, 2"""

_PARTITIONS = """
SELECT topic_id, partition, assigned, leader, leader_epoch, isr, version FROM partition
WHERE version > %(above)s"""

_LED = """
SELECT topic.name, topic.topic_id, partition.partition, partition.leader, partition.leader_epoch,
       broker.endpoints ->> 'client', coalesce(broker.endpoints ->> 'client_security', 'PLAINTEXT')
FROM topic JOIN partition ON partition.topic_id = topic.topic_id
LEFT JOIN broker ON broker.broker_id = partition.leader AND NOT broker.fenced
WHERE topic.name = ANY (%s) ORDER BY topic.name, partition.partition"""


class LiveBroker(NamedTuple):
    """A broker with a session; `endpoints` as in muster.messages.link.rows."""

    broker_id: BrokerId
    rack: str
    endpoints: dict[str, str]


def layouts(connection: Connection[Any]) -> Layouts:
    """Every topic with its id and number of partitions, by name."""
    with connection.cursor() as cursor:
        rows = cursor.execute(_LAYOUTS).fetchall()
    return {
        TopicName(name): TopicLayout(TopicName(name), TopicId(UUID(str(topic_id))), partition_count)
        for name, topic_id, partition_count in rows
    }


def with_racks(connection: Connection[Any], layouts: Layouts) -> Layouts:
    """The same, with the racks that hold a replica of each partition."""
    with connection.cursor() as cursor:
        rows = cursor.execute(_RACKS, (list(layouts),)).fetchall()
    racks = {(name, number): frozenset(found) for name, number, found in rows}
    nowhere: frozenset[str] = frozenset()
    return {
        name: replace(
            layout,
            racks=tuple(racks.get((name, number), nowhere) for number in range(layout.partition_count)),
        )
        for name, layout in layouts.items()
    }


def live_brokers(connection: Connection[Any]) -> tuple[LiveBroker, ...]:
    """The brokers that are not fenced, by id."""
    with connection.cursor() as cursor:
        rows = cursor.execute(_LIVE_BROKERS).fetchall()
    return tuple(LiveBroker(BrokerId(broker_id), rack, endpoints) for broker_id, rack, endpoints in rows)


def partitions(
    connection: Connection[Any], above: int
) -> list[tuple[UUID, int, tuple[int, ...], int, int, tuple[int, ...], int]]:
    """(topic, number, replicas, leader, leader epoch, ISR, version) of each that changed above a version."""
    with connection.cursor() as cursor:
        rows = cursor.execute(_PARTITIONS, {"above": above}).fetchall()
    return [
        (UUID(str(topic_id)), number, tuple(assigned), leader, epoch, tuple(isr), version)
        for topic_id, number, assigned, leader, epoch, isr, version in rows
    ]


class LedPartition(NamedTuple):
    """A partition by its topic, with the leader's id (−1: nobody), epoch, address and security."""

    topic: str
    topic_id: UUID
    partition: int
    leader: int
    leader_epoch: int
    address: str | None
    security: str = PLAINTEXT


def led_partitions(connection: Connection[Any], topics: Sequence[str]) -> list[LedPartition]:
    """Every partition of these topics that exists, by topic and number."""
    with connection.cursor() as cursor:
        rows = cursor.execute(_LED, (list(topics),)).fetchall()
    return [LedPartition(name, UUID(str(topic_id)), *rest) for name, topic_id, *rest in rows]
