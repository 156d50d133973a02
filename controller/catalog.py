"""This room reads brokers, topics and partitions for the rest of the house; it writes nothing."""

from typing import Any, NamedTuple
from uuid import UUID

from psycopg import Connection

from muster.kernel.ids import BrokerId, TopicId, TopicName
from muster.kernel.topology import Layouts, TopicLayout

_LAYOUTS = "SELECT name, topic_id, partition_count FROM topic ORDER BY name"
_LIVE_BROKERS = """
SELECT broker_id, rack, endpoints FROM broker WHERE NOT fenced ORDER BY broker_id"""


_PARTITIONS = """
SELECT topic_id, partition, assigned, leader, leader_epoch, isr, version FROM partition
WHERE version > %(above)s"""


class LiveBroker(NamedTuple):
    """A broker with a session; `endpoints` maps a listener (`client`, `replication`) to host:port."""

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
