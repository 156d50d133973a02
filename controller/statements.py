"""This room holds the SQL of brokers, topics and partitions: each statement has a name and says when it fits.

Everything is in bulk over `unnest`, arrays travel as text literals (binding 10,000 values one by one costs
more than the statement), and every write is conditional: the caller compares the count.
"""

from collections.abc import Iterable, Sequence
from typing import Final
from uuid import UUID

import msgspec

from muster.messages.cluster import PartitionRow

READ_BROKERS: Final = """
SELECT broker_id, broker_epoch, incarnation, endpoints, rack, NOT fenced
FROM broker WHERE broker_epoch > 0 ORDER BY broker_id"""

READ_TOPICS: Final = """
SELECT topic_id, name, partition_count, replication_factor, configs FROM topic ORDER BY name"""

READ_LIVE: Final = "SELECT broker_id FROM broker WHERE NOT fenced"

READ_CONFIGS: Final = "SELECT topic_id, configs FROM topic WHERE configs <> '{}'"

_PARTITIONS: Final = """
SELECT coalesce(json_agg(json_build_array(topic_id, partition, assigned, leader, leader_epoch, isr, version)
    ORDER BY topic_id, partition), '[]')::text FROM partition"""
"""One text for all rows: msgspec reads it several times faster than a driver makes tuples of arrays."""

READ_PARTITIONS: Final = _PARTITIONS

READ_PARTITIONS_OF_BROKER: Final = f"{_PARTITIONS} WHERE assigned @> ARRAY[%(broker_id)s::int]"

READ_PARTITIONS_OF_TOPIC: Final = f"{_PARTITIONS} WHERE topic_id = %(topic_id)s"

READ_LEADERLESS: Final = f"{_PARTITIONS} WHERE leader = -1"

READ_SECRETS: Final = "SELECT broker_id, secret_hash FROM broker"

REGISTER_BROKERS: Final = """
UPDATE broker SET broker_epoch = u.broker_epoch, incarnation = u.incarnation, endpoints = u.endpoints,
    rack = u.rack, fenced = u.fenced, metadata_version = %(version)s, changed_at = now(),
    registered_at = CASE WHEN broker.broker_epoch = u.broker_epoch THEN registered_at ELSE now() END
FROM unnest(%(broker_id)s::int[], %(broker_epoch)s::bigint[], %(incarnation)s::uuid[],
    %(endpoints)s::jsonb[], %(rack)s::text[], %(fenced)s::boolean[])
    AS u(broker_id, broker_epoch, incarnation, endpoints, rack, fenced)
WHERE broker.broker_id = u.broker_id AND broker.broker_epoch <= u.broker_epoch"""
"""Epochs never fall; a broker that was never enrolled has no row."""

ADD_TOPICS: Final = """
INSERT INTO topic (topic_id, name, partition_count, replication_factor, configs, metadata_version)
SELECT topic_id, name, partition_count, replication_factor, configs, %(version)s
FROM unnest(%(topic_id)s::uuid[], %(name)s::text[], %(partition_count)s::int[],
    %(replication_factor)s::smallint[], %(configs)s::jsonb[])
    AS u(topic_id, name, partition_count, replication_factor, configs)"""

ADD_PARTITIONS: Final = """
INSERT INTO partition (topic_id, partition, assigned, adding, removing, leader, leader_epoch, isr, version)
SELECT topic_id, partition, assigned::int[], '{}', '{}', leader, leader_epoch, isr::int[], version
FROM unnest(%(topic_id)s::uuid[], %(partition)s::int[], %(assigned)s::text[], %(leader)s::int[],
    %(leader_epoch)s::int[], %(isr)s::text[], %(version)s::bigint[])
    AS u(topic_id, partition, assigned, leader, leader_epoch, isr, version)"""

CHANGE_PARTITIONS: Final = """
UPDATE partition SET assigned = u.assigned::int[], leader = u.leader, leader_epoch = u.leader_epoch,
    isr = u.isr::int[], version = u.version, changed_at = now()
FROM unnest(%(topic_id)s::uuid[], %(partition)s::int[], %(assigned)s::text[], %(leader)s::int[],
    %(leader_epoch)s::int[], %(isr)s::text[], %(version)s::bigint[], %(version_before)s::bigint[])
    AS u(topic_id, partition, assigned, leader, leader_epoch, isr, version, version_before)
WHERE partition.topic_id = u.topic_id AND partition.partition = u.partition
    AND partition.version = u.version_before AND partition.leader_epoch <= u.leader_epoch"""
"""As many rows as were given, or one of them is not what was decided on."""

PLAN_FOR_BULK: Final = "SET LOCAL enable_nestloop = off; SET LOCAL enable_seqscan = off"

NOTE_PROGRESS: Final = """
INSERT INTO partition_progress (partition_id, high_watermark, at)
SELECT partition.id, u.high_watermark, now()
FROM unnest(%(topic_id)s::uuid[], %(partition)s::int[], %(high_watermark)s::bigint[])
    AS u(topic_id, partition, high_watermark)
JOIN partition ON partition.topic_id = u.topic_id AND partition.partition = u.partition
ORDER BY partition.id
ON CONFLICT (partition_id) DO UPDATE SET high_watermark = EXCLUDED.high_watermark, at = EXCLUDED.at"""

ENROLL: Final = """
INSERT INTO broker (broker_id, secret_hash, endpoints, rack, broker_epoch, fenced, metadata_version)
VALUES (%(broker_id)s, %(secret_hash)s, '{}', '', 0, true, 0)
ON CONFLICT (broker_id) DO NOTHING"""

ROTATE_SECRET: Final = "UPDATE broker SET secret_hash = %(secret_hash)s WHERE broker_id = %(broker_id)s"


def numbers(values: Iterable[int]) -> str:
    """The literal of an array of whole numbers."""
    return "{" + ",".join(map(str, values)) + "}"


def uuids(values: Iterable[UUID | str]) -> str:
    """The literal of an array of UUIDs."""
    # A topic has many partitions, which may share its id's object: the text of each object is made once.
    texts: dict[int, str] = {}
    kept = list(values)
    return "{" + ",".join([texts.get(id(v)) or texts.setdefault(id(v), str(v)) for v in kept]) + "}"


def arrays(values: Sequence[tuple[int, ...]]) -> str:
    """The literal of an array of texts, each the literal of an array of whole numbers."""
    # Ten thousand partitions share a few sets of replicas.
    literals = {value: numbers(value) for value in set(values)}
    return '{"' + '","'.join([literals[value] for value in values]) + '"}' if values else "{}"


_partition_rows = msgspec.json.Decoder(list[PartitionRow])


def partition_rows(answer: tuple[str] | None) -> list[PartitionRow]:
    """The rows that one of the statements above has read."""
    return _partition_rows.decode(answer[0]) if answer else []
