"""This room reads brokers, topics and partitions for the rest of the house; it writes nothing."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
from psycopg import Connection

from controller.core.reassignment import while_moving
from controller.core.records import Phase
from muster.kernel.config_levels import said_by_all
from muster.kernel.ids import BrokerId, TopicId, TopicName
from muster.kernel.security_protocols import PLAINTEXT
from muster.kernel.topology import Layouts, TopicLayout
from muster.messages.link.to_broker import OngoingReassignment

_LAYOUTS = "SELECT name, topic_id, partition_count FROM topic ORDER BY name"
_ADDED_AGAIN = """
SELECT topic_id, partition, base_epoch FROM partition WHERE base_epoch > 0 ORDER BY topic_id, partition"""
_LIVE_BROKERS = """
SELECT broker_id, rack, endpoints FROM broker WHERE NOT fenced ORDER BY broker_id"""

_FENCED_BROKERS = """
SELECT broker_id, rack, endpoints FROM broker WHERE fenced AND broker_epoch > 0 ORDER BY broker_id"""


_RACKS = """
SELECT topic.name, partition.partition, array_agg(DISTINCT broker.rack)
FROM topic JOIN partition USING (topic_id) CROSS JOIN unnest(partition.assigned) AS replica
JOIN broker ON broker.broker_id = replica
WHERE topic.name = ANY (%s) AND broker.rack <> '' GROUP BY 1, 2"""

_PARTITIONS = """
SELECT coalesce(json_agg(json_build_array(
    topic_id, assigned, leader, leader_epoch, isr, version, numbers)), '[]')::text
FROM (SELECT topic_id, assigned, leader, leader_epoch, isr, version, array_agg(partition) AS numbers
      FROM partition WHERE version > %(above)s
      GROUP BY topic_id, assigned, leader, leader_epoch, isr, version) AS alike"""
"""What is alike together, as one text: a turn changes ten thousand rows to a few outcomes."""

_OFFLINE_LOGS = """
SELECT broker_id, topic_id, array_agg(partition) FROM log_note WHERE state = 'offline' GROUP BY 1, 2"""

_ONGOING = """
SELECT moved.topic_name, moved.partition, partition.assigned, partition.adding, partition.removing,
       moved.target, moved.phase
FROM reassignment AS moved JOIN partition
     ON partition.topic_id = moved.topic_id AND partition.partition = moved.partition
WHERE moved.phase IN ('Init', 'InProgress') ORDER BY moved.asked_version, moved.asked_place"""

_LED = """
SELECT topic.name, topic.topic_id, partition.partition, partition.leader, partition.leader_epoch,
       broker.endpoints ->> 'client', coalesce(broker.endpoints ->> 'client_security', 'PLAINTEXT')
FROM topic JOIN partition ON partition.topic_id = topic.topic_id
LEFT JOIN broker ON broker.broker_id = partition.leader AND NOT broker.fenced
WHERE topic.name = ANY (%s) ORDER BY topic.name, partition.partition"""

_CONFIGS_OF_TOPICS = "SELECT name, configs FROM topic WHERE name = ANY (%s)"

_CONFIGS_OF_BROKERS = """
SELECT broker.broker_id, coalesce(broker_configs.configs, '{}'), broker.static_configs
FROM broker LEFT JOIN broker_configs USING (broker_id)
WHERE broker.broker_id = ANY (%s) AND broker.broker_epoch > 0"""

_STATIC_CONFIGS = "SELECT DISTINCT static_configs FROM broker WHERE NOT fenced"

_CONFIGS_OF_THE_CLUSTER = "SELECT configs FROM broker_configs WHERE broker_id = 0"


class LiveBroker(NamedTuple):
    """A broker with a session, or one that had one; `endpoints` as in muster.messages.link.rows."""

    broker_id: BrokerId
    rack: str
    endpoints: dict[str, str]


def layouts(connection: Connection[Any]) -> Layouts:
    """Every topic with its id and number of partitions, by name."""
    with connection.cursor() as cursor:
        added_again: dict[UUID, list[tuple[int, int]]] = defaultdict(list)
        for topic_id, number, base_epoch in cursor.execute(_ADDED_AGAIN):
            added_again[topic_id].append((number, base_epoch))
        rows = cursor.execute(_LAYOUTS).fetchall()
    return {
        TopicName(name): TopicLayout(
            TopicName(name),
            TopicId(UUID(str(topic_id))),
            partition_count,
            added_again=tuple(added_again.get(topic_id, ())),
        )
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
    return _brokers(connection, _LIVE_BROKERS)


def fenced_brokers(connection: Connection[Any]) -> tuple[LiveBroker, ...]:
    """The registered brokers that are fenced, by id, as they last were."""
    return _brokers(connection, _FENCED_BROKERS)


def _brokers(connection: Connection[Any], question: str) -> tuple[LiveBroker, ...]:
    with connection.cursor() as cursor:
        rows = cursor.execute(question).fetchall()
    return tuple(LiveBroker(BrokerId(broker_id), rack, endpoints) for broker_id, rack, endpoints in rows)


class AlikeRows(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Partitions of one topic, by number, whose rows differ in nothing else."""

    topic_id: UUID
    assigned: tuple[int, ...]
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    version: int
    numbers: tuple[int, ...]


_alike_rows = msgspec.json.Decoder(list[AlikeRows])


def partitions(connection: Connection[Any], above: int) -> list[AlikeRows]:
    """Those that changed above a version."""
    with connection.cursor() as cursor:
        found = cursor.execute(_PARTITIONS, {"above": above}).fetchone()
    return _alike_rows.decode(found[0]) if found else []


def offline_logs(connection: Connection[Any]) -> list[tuple[int, UUID, tuple[int, ...]]]:
    """By broker and topic: the partitions whose log it can neither read nor write, as it said last."""
    with connection.cursor() as cursor:
        rows = cursor.execute(_OFFLINE_LOGS).fetchall()
    return [(broker_id, topic_id, tuple(numbers)) for broker_id, topic_id, numbers in rows]


def ongoing_reassignments(connection: Connection[Any]) -> list[OngoingReassignment]:
    """Those that are asked for or under way, as the controller itself tells of them (conformance 198)."""
    with connection.cursor() as cursor:
        rows = cursor.execute(_ONGOING).fetchall()
    told = []
    for topic, partition, assigned, adding, removing, target, phase in rows:
        places = tuple(assigned), tuple(adding), tuple(removing)
        if phase == Phase.INIT:
            places = while_moving(places[0], places[1], tuple(target))
        told.append(OngoingReassignment(topic, partition, *places))
    return told


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


class ConfigsOfBroker(NamedTuple):
    """What was set for a broker while it ran, and what it was started with."""

    configs: dict[str, str]
    static: dict[str, str]


class StoredConfigs(NamedTuple):
    """What is set for topics by name, brokers by id, and the cluster; what does not exist is missing."""

    topics: dict[str, dict[str, str]]
    brokers: dict[int, ConfigsOfBroker]
    cluster: dict[str, str]
    static: dict[str, str]
    """What all live brokers were started with alike."""


def configs(connection: Connection[Any], topics: Sequence[str], brokers: Sequence[int]) -> StoredConfigs:
    """What is set for these, and for the cluster."""
    with connection.cursor() as cursor:
        of_topics = cursor.execute(_CONFIGS_OF_TOPICS, (topics,)).fetchall() if topics else []
        of_brokers = cursor.execute(_CONFIGS_OF_BROKERS, (brokers,)).fetchall() if brokers else []
        cluster = cursor.execute(_CONFIGS_OF_THE_CLUSTER).fetchone()
        statics = cursor.execute(_STATIC_CONFIGS).fetchall()
    return StoredConfigs(
        dict(of_topics),
        {broker_id: ConfigsOfBroker(*rest) for broker_id, *rest in of_brokers},
        cluster[0] if cluster else {},
        said_by_all(static for (static,) in statics),
    )
