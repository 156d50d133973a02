"""This room holds the SQL of brokers, topics and partitions: each statement has a name and says when it fits.

Everything is in bulk over `unnest`, arrays travel as text literals (binding 10,000 values one by one costs
more than the statement), and every write is conditional: the caller compares the count.
"""

from collections.abc import Iterable
from itertools import chain, repeat
from typing import Final
from uuid import UUID

import msgspec

from controller.core.proposing import Seats
from muster.messages.link.rows import PartitionRow

READ_BROKERS: Final = """
SELECT broker_id, broker_epoch, incarnation, endpoints, rack, NOT fenced, leaving, cordoned,
    static_configs, metadata_version
FROM broker WHERE broker_epoch > 0 ORDER BY broker_id"""

READ_TOPICS: Final = """
SELECT topic_id, name, partition_count, replication_factor, configs, metadata_version, removed_epoch
FROM topic ORDER BY name"""

READ_BROKER_CONFIGS: Final = "SELECT broker_id, configs, metadata_version FROM broker_configs ORDER BY 1"

READ_CLUSTER_CONFIGS: Final = "SELECT configs FROM broker_configs WHERE broker_id = 0"

SAVE_BROKER_CONFIGS: Final = """
INSERT INTO broker_configs (broker_id, configs, metadata_version)
SELECT broker_id, configs, %(version)s
FROM unnest(%(broker_id)s::int[], %(configs)s::jsonb[]) AS u(broker_id, configs)
ON CONFLICT (broker_id) DO UPDATE SET configs = excluded.configs,
    metadata_version = excluded.metadata_version, changed_at = now()
WHERE broker_configs.metadata_version < excluded.metadata_version"""


READ_LIVE: Final = "SELECT broker_id FROM broker WHERE NOT fenced AND NOT leaving"

READ_CONFIGS: Final = "SELECT topic_id, configs FROM topic WHERE configs <> '{}'"

READ_CONFIGS_OF_TOPIC: Final = "SELECT topic_id, configs FROM topic WHERE topic_id = %(topic_id)s"

READ_PARTITIONS: Final = """
SELECT coalesce(json_agg(json_build_array(topic_id, partition, assigned, leader, leader_epoch, isr, version,
    adding, removing, throttle, base_epoch, unproven) ORDER BY topic_id, partition), '[]')::text
FROM partition"""
"""One text for all rows: msgspec reads it several times faster than a driver makes tuples of arrays."""


def _seats(condition: str) -> str:
    """A statement that reads how the partitions of `condition` stand, each way once, as Seats."""
    return f"""
SELECT coalesce(json_agg(json_build_array(topic_id, assigned, leader, isr, adding)), '[]')::text
FROM (SELECT DISTINCT topic_id, assigned, leader, isr, adding FROM partition WHERE {condition}) AS seats"""


GATHER_ALIKE: Final = "SET LOCAL enable_sort = off"
"""Before READ_SEATS: where nothing is analysed yet the planner takes a hundred thousand rows for a few, and
sorts them, which takes twice as long as to gather the few ways in which they stand."""

READ_SEATS_OF_BROKER: Final = _seats("isr @> ARRAY[%(broker_id)s::int]")

READ_SEATS_OF_TOPIC: Final = _seats("topic_id = %(topic_id)s")

READ_SEATS_LEADERLESS: Final = _seats("leader = -1")

READ_SECRETS: Final = "SELECT broker_id, secret_hash FROM broker"

REGISTER_BROKERS: Final = """
UPDATE broker SET broker_epoch = u.broker_epoch, incarnation = u.incarnation, endpoints = u.endpoints,
    rack = u.rack, fenced = u.fenced, leaving = u.leaving, cordoned = u.cordoned,
    static_configs = u.static_configs,
    metadata_version = %(version)s, changed_at = now(),
    registered_at = CASE WHEN broker.broker_epoch = u.broker_epoch THEN registered_at ELSE now() END,
    set_back = CASE WHEN u.fenced THEN set_back ELSE '' END
FROM unnest(%(broker_id)s::int[], %(broker_epoch)s::bigint[], %(incarnation)s::uuid[],
    %(endpoints)s::jsonb[], %(rack)s::text[], %(fenced)s::boolean[], %(leaving)s::boolean[],
    %(cordoned)s::boolean[], %(static_configs)s::jsonb[])
    AS u(broker_id, broker_epoch, incarnation, endpoints, rack, fenced, leaving, cordoned, static_configs)
WHERE broker.broker_id = u.broker_id AND broker.broker_epoch <= u.broker_epoch"""
"""Epochs never fall; a broker that was never enrolled has no row."""

UNREGISTER_BROKERS: Final = "DELETE FROM broker WHERE broker_id = ANY (%(broker_id)s::int[]) AND fenced"
"""With the row goes the secret: who is to come under the id again is enrolled again."""

NOTE_SET_BACK: Final = """
UPDATE broker SET set_back = %(why)s, metadata_version = %(version)s WHERE broker_id = %(broker_id)s"""

MOST_LACKING: Final = """
SELECT lacking, record ->> 'why'
FROM journal, jsonb_array_elements(records) AS record, coalesce((record ->> 'lacking')::numeric, 0) AS lacking
WHERE lane = 'controller' AND summary ? 'set_back'
    AND record ->> 'record' = 'SetBackProven' AND (%(since)s::timestamptz IS NULL OR at > %(since)s)
    AND (%(below)s::numeric IS NULL OR lacking < %(below)s)
ORDER BY lacking DESC LIMIT 1"""

LIFT_BROKERS: Final = """
UPDATE broker SET broker_epoch = broker_epoch + CASE WHEN broker_epoch > 0 THEN %(by)s ELSE 0 END,
    set_back = '', metadata_version = %(version)s, changed_at = now()
WHERE broker_epoch > 0 OR set_back <> ''"""

_LIFTED: Final = {
    "leader_epoch": "least(leader_epoch::bigint + %(by)s, %(last_epoch)s)",
    "leader": """CASE WHEN leader_epoch::bigint + %(by)s < %(last_epoch)s AND cardinality(assigned) = 1
        THEN leader ELSE -1 END""",
    "unproven": """CASE WHEN leader_epoch::bigint + %(by)s < %(last_epoch)s AND cardinality(assigned) > 1
        THEN CASE unproven WHEN 0 THEN %(unproven)s WHEN %(unproven)s THEN %(again)s ELSE unproven END
        ELSE 0 END""",
    "version": "%(version)s",
}
"""Those that never had a leader have given out no epoch. In the last epoch nobody leads.

Where others than the one replica may hold what was committed, nobody does before all have shown their logs.
"""

LIFT_PARTITIONS: Final = f"""
UPDATE partition SET {", ".join(f"{name} = {value}" for name, value in _LIFTED.items())}, changed_at = now()
WHERE cardinality(isr) > 0"""

TELL_LIFTED_PARTITIONS: Final = f"""
SELECT coalesce(sum(cardinality(partitions)), 0), '[' || coalesce(string_agg(json_build_object(
    'record', 'PartitionsChanged', 'version', %(version)s::bigint, 'base_versions', base_versions,
    'alike', json_build_array(topic_id, assigned, leader, leader_epoch, isr, partitions, adding, removing,
        throttle, base_epoch, unproven))::text, ','), '') || ']'
FROM (
    SELECT topic_id, assigned, leader, leader_epoch, isr, adding, removing, throttle, base_epoch, unproven,
        array_agg(partition ORDER BY partition) AS partitions,
        array_agg(version ORDER BY partition) AS base_versions
    FROM (SELECT topic_id, partition, assigned, {_LIFTED["leader"]} AS leader,
            {_LIFTED["leader_epoch"]} AS leader_epoch, isr, adding, removing, throttle, base_epoch,
            {_LIFTED["unproven"]} AS unproven, version
        FROM partition WHERE cardinality(isr) > 0) AS each
    GROUP BY topic_id, assigned, leader, leader_epoch, isr, adding, removing, throttle, base_epoch, unproven
) AS alike"""
"""Before they are lifted: how many will be, and by which records (facts.PartitionsChanged) the journal tells
it. They name the versions that are replaced; of 300,000 the words take Python three times as long.
"""

LIFT_TOPICS: Final = "UPDATE topic SET removed_epoch = least(removed_epoch::bigint + %(by)s, %(last_epoch)s)"
"""Partitions that are added from now on may have had their numbers in what was lost."""

ADD_TOPICS: Final = """
INSERT INTO topic (topic_id, name, partition_count, replication_factor, configs, metadata_version)
SELECT topic_id, name, partition_count, replication_factor, configs, %(version)s
FROM unnest(%(topic_id)s::uuid[], %(name)s::text[], %(partition_count)s::int[],
    %(replication_factor)s::smallint[], %(configs)s::jsonb[])
    AS u(topic_id, name, partition_count, replication_factor, configs)"""

CHANGE_TOPICS: Final = """
UPDATE topic SET partition_count = u.partition_count, replication_factor = u.replication_factor,
    configs = u.configs, removed_epoch = u.removed_epoch, metadata_version = %(version)s
FROM unnest(%(topic_id)s::uuid[], %(partition_count)s::int[], %(replication_factor)s::smallint[],
    %(configs)s::jsonb[], %(removed_epoch)s::int[])
    AS u(topic_id, partition_count, replication_factor, configs, removed_epoch)
WHERE topic.topic_id = u.topic_id"""

DELETE_PARTITIONS: Final = "DELETE FROM partition WHERE topic_id = ANY (%(topic_id)s::uuid[]) RETURNING id"

REMOVE_PARTITIONS: Final = (
    "DELETE FROM partition WHERE topic_id = %(topic_id)s AND partition >= %(first)s RETURNING id"
)

DELETE_PROGRESS: Final = "DELETE FROM partition_progress WHERE partition_id = ANY (%s::bigint[])"
"""Behind the partitions: progress that is noted at this moment either is there by then, or finds none."""

DELETE_TOPICS: Final = "DELETE FROM topic WHERE topic_id = ANY (%(topic_id)s::uuid[])"

READ_QUOTAS: Final = """
SELECT user_name, client_id, producer_byte_rate, consumer_byte_rate, version FROM client_quota
ORDER BY user_name, client_id"""

SET_QUOTAS: Final = """
INSERT INTO client_quota (user_name, client_id, producer_byte_rate, consumer_byte_rate, version)
SELECT * FROM unnest(%(user_name)s::text[], %(client_id)s::text[], %(producer_byte_rate)s::bigint[],
    %(consumer_byte_rate)s::bigint[], %(version)s::bigint[])
ON CONFLICT (user_name, client_id) DO UPDATE SET producer_byte_rate = EXCLUDED.producer_byte_rate,
    consumer_byte_rate = EXCLUDED.consumer_byte_rate, version = EXCLUDED.version, changed_at = now()
WHERE client_quota.version < EXCLUDED.version"""

DELETE_QUOTAS: Final = """
DELETE FROM client_quota USING unnest(%(user_name)s::text[], %(client_id)s::text[]) AS u(user_name, client_id)
WHERE client_quota.user_name IS NOT DISTINCT FROM u.user_name
    AND client_quota.client_id IS NOT DISTINCT FROM u.client_id"""

_ALIKE: Final = """
WITH alike AS MATERIALIZED (
    SELECT n::int, topic_id, assigned::int[], leader, leader_epoch, isr::int[], version, adding::int[],
        removing::int[], throttle, base_epoch, unproven
    FROM unnest(%(topic_id)s::uuid[], %(assigned)s::text[], %(leader)s::int[], %(leader_epoch)s::int[],
        %(isr)s::text[], %(version)s::bigint[], %(adding)s::text[], %(removing)s::text[],
        %(throttle)s::bigint[], %(base_epoch)s::int[], %(unproven)s::int[]) WITH ORDINALITY
        AS u(topic_id, assigned, leader, leader_epoch, isr, version, adding, removing, throttle, base_epoch,
            unproven, n))"""
"""What is alike travels once; the numbers of the partitions come beside it, each with its place in here."""

ADD_PARTITIONS: Final = f"""{_ALIKE}, numbered AS MATERIALIZED (
    SELECT n, partition FROM unnest(%(n)s::int[], %(partition)s::int[]) AS u(n, partition)
), again AS MATERIALIZED (
    SELECT n, (
        SELECT max(committed_at) + interval '1 microsecond' FROM committed_offset
        WHERE committed_offset.topic_id = alike.topic_id
            AND committed_offset.partition >= (
                SELECT min(partition) FROM numbered WHERE numbered.n = alike.n)) AS after
    FROM alike WHERE base_epoch > 0
)
INSERT INTO partition (topic_id, partition, assigned, adding, removing, leader, leader_epoch, isr, version,
    throttle, base_epoch, added_again_at)
SELECT topic_id, partition, assigned, adding, removing, leader, leader_epoch, isr, version, throttle,
    base_epoch, CASE WHEN base_epoch > 0 THEN GREATEST(now(), (SELECT after FROM again WHERE n = alike.n)) END
FROM numbered JOIN alike USING (n)"""
"""What takes a number again is younger than every commit for it, also where the server's clock was set back.
Only what is committed for such numbers is looked through: to find the newest of all takes a look at each."""


def _change_partitions(join: str, condition: str) -> str:
    """As many rows as were given are changed, or one of them is not what was decided on."""
    return f"""{_ALIKE}, changed AS MATERIALIZED (
    SELECT alike.*, partition, version_before
    FROM unnest(%(n)s::int[], %(partition)s::int[], %(version_before)s::bigint[])
        AS u(n, partition, version_before) {join} alike USING (n))
UPDATE partition SET assigned = changed.assigned, leader = changed.leader,
    leader_epoch = changed.leader_epoch, isr = changed.isr, version = changed.version,
    adding = changed.adding, removing = changed.removing, throttle = changed.throttle,
    unproven = changed.unproven, changed_at = now()
FROM changed
WHERE partition.topic_id = changed.topic_id AND partition.partition = changed.partition
    AND partition.version = changed.version_before AND partition.leader_epoch <= changed.leader_epoch
    {condition}"""


CHANGE_PARTITIONS: Final = _change_partitions("JOIN", "")
"""The planner takes them for a few, and looks each of them up."""

CHANGE_PARTITIONS_IN_BULK: Final = _change_partitions(
    "LEFT JOIN",
    "AND partition.topic_id = ANY (%(topics)s::uuid[])"
    " AND partition.partition BETWEEN %(lowest)s AND %(highest)s",
)
"""LEFT, as each number has its place: so the planner knows how many they are, and whether it is better to
look each of them up or to read all of their topics between the lowest and the highest.

Of few that lie far apart it would read all of these, too; where nothing is analysed yet, once for each.
"""

_NOTED_LATELY: Final = "partition_progress.recent_at BETWEEN now() - interval '1 minute' AND now()"
NOTE_PROGRESS: Final = f"""
INSERT INTO partition_progress (partition_id, high_watermark, size_bytes, at)
SELECT partition.id, u.high_watermark, nullif(u.size_bytes, -1), now()
FROM unnest(%(topic_id)s::uuid[], %(partition)s::int[], %(high_watermark)s::bigint[],
    %(size_bytes)s::bigint[])
    AS u(topic_id, partition, high_watermark, size_bytes)
JOIN partition ON partition.topic_id = u.topic_id AND partition.partition = u.partition
ORDER BY partition.id FOR KEY SHARE OF partition
ON CONFLICT (partition_id) DO UPDATE SET
    earlier_high_watermark = CASE WHEN NOT ({_NOTED_LATELY})
        THEN partition_progress.recent_high_watermark ELSE partition_progress.earlier_high_watermark END,
    earlier_at = CASE WHEN NOT ({_NOTED_LATELY})
        THEN partition_progress.recent_at ELSE partition_progress.earlier_at END,
    recent_high_watermark = CASE WHEN {_NOTED_LATELY}
        THEN partition_progress.recent_high_watermark ELSE partition_progress.high_watermark END,
    recent_at = CASE WHEN {_NOTED_LATELY}
        THEN partition_progress.recent_at ELSE partition_progress.at END,
    earlier_size_bytes = CASE WHEN NOT ({_NOTED_LATELY})
        THEN partition_progress.recent_size_bytes ELSE partition_progress.earlier_size_bytes END,
    recent_size_bytes = CASE WHEN {_NOTED_LATELY}
        THEN partition_progress.recent_size_bytes ELSE partition_progress.size_bytes END,
    high_watermark = EXCLUDED.high_watermark, at = EXCLUDED.at,
    size_bytes = coalesce(EXCLUDED.size_bytes, partition_progress.size_bytes)"""
"""The end now, and two older ones: of each moment from a minute on one is known that is not much older.
What stands in the future, as this server's clock was set back, is no newer than the end now.

The lock is the foreign key's, taken first: what is deleted at this moment is waited for and left out.
"""

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
_seats_found = msgspec.json.Decoder(list[Seats])


def partition_rows(answer: tuple[str] | None) -> list[PartitionRow]:
    """The rows that READ_PARTITIONS has read."""
    return _partition_rows.decode(answer[0]) if answer else []


def seats_found(answer: tuple[str] | None) -> list[Seats]:
    """What one of the statements READ_SEATS has read."""
    return _seats_found.decode(answer[0]) if answer else []
