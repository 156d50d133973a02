"""This room holds the SQL of brokers, topics and partitions: each statement has a name and says when it fits.

Everything is in bulk over `unnest`, arrays travel as text literals (binding 10,000 values one by one costs
more than the statement), and every write is conditional: the caller compares the count.
"""

from collections.abc import Iterable
from itertools import chain, repeat
from typing import Final
from uuid import UUID

import msgspec

from controller.core.proposing import StoredPartitions
from muster.messages.link.rows import PartitionRow

READ_BROKERS: Final = """
SELECT broker_id, broker_epoch, incarnation, endpoints, rack, NOT fenced
FROM broker WHERE broker_epoch > 0 ORDER BY broker_id"""

READ_TOPICS: Final = """
SELECT topic_id, name, partition_count, replication_factor, configs FROM topic ORDER BY name"""

READ_LIVE: Final = "SELECT broker_id FROM broker WHERE NOT fenced"

READ_CONFIGS: Final = "SELECT topic_id, configs FROM topic WHERE configs <> '{}'"

READ_CONFIGS_OF_TOPIC: Final = "SELECT topic_id, configs FROM topic WHERE topic_id = %(topic_id)s"

READ_PARTITIONS: Final = """
SELECT coalesce(json_agg(json_build_array(topic_id, partition, assigned, leader, leader_epoch, isr, version,
    adding, removing) ORDER BY topic_id, partition), '[]')::text FROM partition"""
"""One text for all rows: msgspec reads it several times faster than a driver makes tuples of arrays."""


def _alike(condition: str) -> str:
    """A statement that reads the partitions of `condition`, alike ones together, as StoredPartitions."""
    return f"""
SELECT coalesce(json_agg(json_build_array(
    json_build_array(topic_id, assigned, leader, leader_epoch, isr, partitions, adding, removing),
    versions)), '[]')::text
FROM (SELECT topic_id, assigned, leader, leader_epoch, isr, adding, removing,
          array_agg(partition) AS partitions, array_agg(version) AS versions
      FROM partition WHERE {condition}
      GROUP BY topic_id, assigned, leader, leader_epoch, isr, adding, removing) AS alike"""


READ_ALIKE_OF_BROKER: Final = _alike("assigned @> ARRAY[%(broker_id)s::int]")

READ_ALIKE_OF_TOPIC: Final = _alike("topic_id = %(topic_id)s")

READ_ALIKE_LEADERLESS: Final = _alike("leader = -1")

READ_SECRETS: Final = "SELECT broker_id, secret_hash FROM broker"

REGISTER_BROKERS: Final = """
UPDATE broker SET broker_epoch = u.broker_epoch, incarnation = u.incarnation, endpoints = u.endpoints,
    rack = u.rack, fenced = u.fenced, metadata_version = %(version)s, changed_at = now(),
    registered_at = CASE WHEN broker.broker_epoch = u.broker_epoch THEN registered_at ELSE now() END,
    set_back = CASE WHEN u.fenced THEN set_back ELSE '' END
FROM unnest(%(broker_id)s::int[], %(broker_epoch)s::bigint[], %(incarnation)s::uuid[],
    %(endpoints)s::jsonb[], %(rack)s::text[], %(fenced)s::boolean[])
    AS u(broker_id, broker_epoch, incarnation, endpoints, rack, fenced)
WHERE broker.broker_id = u.broker_id AND broker.broker_epoch <= u.broker_epoch"""
"""Epochs never fall; a broker that was never enrolled has no row."""

NOTE_SET_BACK: Final = """
UPDATE broker SET set_back = %(why)s, metadata_version = %(version)s WHERE broker_id = %(broker_id)s"""

LIFT_BROKERS: Final = """
UPDATE broker SET broker_epoch = broker_epoch + CASE WHEN broker_epoch > 0 THEN %(by)s ELSE 0 END,
    set_back = '', metadata_version = %(version)s, changed_at = now()
WHERE broker_epoch > 0 OR set_back <> ''"""

LIFT_PARTITIONS: Final = """
UPDATE partition SET leader_epoch = leader_epoch + %(by)s, version = %(version)s, changed_at = now()
WHERE cardinality(isr) > 0"""
"""Those that never had a leader have given out no epoch."""

ADD_TOPICS: Final = """
INSERT INTO topic (topic_id, name, partition_count, replication_factor, configs, metadata_version)
SELECT topic_id, name, partition_count, replication_factor, configs, %(version)s
FROM unnest(%(topic_id)s::uuid[], %(name)s::text[], %(partition_count)s::int[],
    %(replication_factor)s::smallint[], %(configs)s::jsonb[])
    AS u(topic_id, name, partition_count, replication_factor, configs)"""

CHANGE_TOPICS: Final = """
UPDATE topic SET partition_count = u.partition_count, replication_factor = u.replication_factor,
    configs = u.configs, metadata_version = %(version)s
FROM unnest(%(topic_id)s::uuid[], %(partition_count)s::int[], %(replication_factor)s::smallint[],
    %(configs)s::jsonb[]) AS u(topic_id, partition_count, replication_factor, configs)
WHERE topic.topic_id = u.topic_id"""

DELETE_PROGRESS: Final = """
DELETE FROM partition_progress USING partition
WHERE partition_progress.partition_id = partition.id AND partition.topic_id = ANY (%(topic_id)s::uuid[])"""

DELETE_PARTITIONS: Final = "DELETE FROM partition WHERE topic_id = ANY (%(topic_id)s::uuid[])"

DELETE_TOPICS: Final = "DELETE FROM topic WHERE topic_id = ANY (%(topic_id)s::uuid[])"

READ_REASSIGNMENTS: Final = """
SELECT id, topic_id, topic_name, partition, origin, target, phase, principal, reason
FROM reassignment WHERE phase IN ('Init', 'InProgress') ORDER BY asked_version, asked_place"""

ADD_REASSIGNMENTS: Final = """
INSERT INTO reassignment (id, topic_id, topic_name, partition, origin, target, phase, principal, reason,
    asked_version, asked_place, version, started_at, ended_at)
SELECT id, topic_id, topic_name, partition, origin::int[], target::int[], phase, principal, reason,
    %(version)s, place, %(version)s, CASE WHEN phase <> 'Init' THEN now() END,
    CASE WHEN phase IN ('Init', 'InProgress') THEN NULL ELSE now() END
FROM unnest(%(id)s::uuid[], %(topic_id)s::uuid[], %(topic_name)s::text[], %(partition)s::int[],
    %(origin)s::text[], %(target)s::text[], %(phase)s::text[], %(principal)s::text[], %(reason)s::text[])
    WITH ORDINALITY
    AS u(id, topic_id, topic_name, partition, origin, target, phase, principal, reason, place)"""

CHANGE_REASSIGNMENTS: Final = """
UPDATE reassignment SET phase = u.phase, origin = u.origin::int[], reason = u.reason, version = %(version)s,
    started_at = CASE WHEN u.phase = 'InProgress' THEN now() ELSE started_at END,
    ended_at = CASE WHEN u.phase = 'InProgress' THEN NULL ELSE now() END
FROM unnest(%(id)s::uuid[], %(phase)s::text[], %(origin)s::text[], %(reason)s::text[])
    AS u(id, phase, origin, reason)
WHERE reassignment.id = u.id AND reassignment.phase IN ('Init', 'InProgress')"""
"""What has ended stays as it ended."""

_ALIKE: Final = """
WITH alike AS MATERIALIZED (
    SELECT n::int, topic_id, assigned::int[], leader, leader_epoch, isr::int[], version, adding::int[],
        removing::int[]
    FROM unnest(%(topic_id)s::uuid[], %(assigned)s::text[], %(leader)s::int[], %(leader_epoch)s::int[],
        %(isr)s::text[], %(version)s::bigint[], %(adding)s::text[], %(removing)s::text[]) WITH ORDINALITY
        AS u(topic_id, assigned, leader, leader_epoch, isr, version, adding, removing, n))"""
"""What is alike travels once; the numbers of the partitions come beside it, each with its place in here."""

ADD_PARTITIONS: Final = f"""{_ALIKE}
INSERT INTO partition (topic_id, partition, assigned, adding, removing, leader, leader_epoch, isr, version)
SELECT topic_id, partition, assigned, adding, removing, leader, leader_epoch, isr, version
FROM unnest(%(n)s::int[], %(partition)s::int[]) AS u(n, partition) JOIN alike USING (n)"""

CHANGE_PARTITIONS: Final = f"""{_ALIKE}
UPDATE partition SET assigned = alike.assigned, leader = alike.leader, leader_epoch = alike.leader_epoch,
    isr = alike.isr, version = alike.version, adding = alike.adding, removing = alike.removing,
    changed_at = now()
FROM unnest(%(n)s::int[], %(partition)s::int[], %(version_before)s::bigint[])
    AS u(n, partition, version_before) JOIN alike USING (n)
WHERE partition.topic_id = alike.topic_id AND partition.partition = u.partition
    AND partition.version = u.version_before AND partition.leader_epoch <= alike.leader_epoch"""
"""As many rows as were given, or one of them is not what was decided on."""

PLAN_FOR_BULK: Final = (
    "SET LOCAL enable_nestloop = off; SET LOCAL enable_mergejoin = off; SET LOCAL enable_seqscan = off"
)
"""The planner cannot know how many numbers come with a few alike rows: thousands are found by hashing."""

NOTE_PROGRESS: Final = """
INSERT INTO partition_progress (partition_id, high_watermark, at)
SELECT partition.id, u.high_watermark, now()
FROM unnest(%(topic_id)s::uuid[], %(partition)s::int[], %(high_watermark)s::bigint[])
    AS u(topic_id, partition, high_watermark)
JOIN partition ON partition.topic_id = u.topic_id AND partition.partition = u.partition
ORDER BY partition.id
ON CONFLICT (partition_id) DO UPDATE SET
    earlier_high_watermark = CASE WHEN partition_progress.recent_at <= now() - interval '1 minute'
        THEN partition_progress.recent_high_watermark ELSE partition_progress.earlier_high_watermark END,
    earlier_at = CASE WHEN partition_progress.recent_at <= now() - interval '1 minute'
        THEN partition_progress.recent_at ELSE partition_progress.earlier_at END,
    recent_high_watermark = CASE WHEN partition_progress.recent_at > now() - interval '1 minute'
        THEN partition_progress.recent_high_watermark ELSE partition_progress.high_watermark END,
    recent_at = CASE WHEN partition_progress.recent_at > now() - interval '1 minute'
        THEN partition_progress.recent_at ELSE partition_progress.at END,
    high_watermark = EXCLUDED.high_watermark, at = EXCLUDED.at"""
"""The end now, and two older ones: of each moment from a minute on one is known that is not much older."""

ENROLL: Final = """
INSERT INTO broker (broker_id, secret_hash, endpoints, rack, broker_epoch, fenced, metadata_version)
VALUES (%(broker_id)s, %(secret_hash)s, '{}', '', 0, true, 0)
ON CONFLICT (broker_id) DO NOTHING"""

ROTATE_SECRET: Final = "UPDATE broker SET secret_hash = %(secret_hash)s WHERE broker_id = %(broker_id)s"


def numbers(values: Iterable[int]) -> str:
    """The literal of an array of whole numbers."""
    return "{" + ",".join(map(str, values)) + "}"


def uuids(values: Iterable[UUID]) -> str:
    """The literal of an array of UUIDs."""
    return "{" + ",".join(map(str, values)) + "}"


def arrays(values: Iterable[Iterable[int]]) -> str:
    """The literal of an array of texts, each the literal of an array of whole numbers."""
    return "{" + ",".join(f'"{numbers(value)}"' for value in values) + "}"


def places(sizes: Iterable[int]) -> str:
    """The literal of an array that holds 1 as often as the first size says, then 2, and so on."""
    return numbers(chain.from_iterable(repeat(place, size) for place, size in enumerate(sizes, start=1)))


_partition_rows = msgspec.json.Decoder(list[PartitionRow])
_stored_partitions = msgspec.json.Decoder(list[StoredPartitions])


def partition_rows(answer: tuple[str] | None) -> list[PartitionRow]:
    """The rows that READ_PARTITIONS has read."""
    return _partition_rows.decode(answer[0]) if answer else []


def stored_partitions(answer: tuple[str] | None) -> list[StoredPartitions]:
    """The alike partitions that one of the statements above has read."""
    return _stored_partitions.decode(answer[0]) if answer else []
