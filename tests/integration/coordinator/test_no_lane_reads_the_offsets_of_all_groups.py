"""What is looked for among many offsets reads those that it is about: no lane waits for all the others."""

from collections.abc import Iterator
from uuid import UUID

import pytest
from django.core.management import call_command
from msgspec.structs import replace

from controller import store as controllers_store
from controller.core import records as facts
from coordinator.store import GroupStore
from coordinator.store_outlived import Outlived
from muster.messages.link.rows import PartitionRow
from runtime.postgres import LaneConnection
from tests.unit.messages import made_rows

ORDERS = UUID(int=10)
GROUPS, SHARDS, OFFSETS_OF_A_GROUP = 64, 16, 1_000
WEEK_MINUTES = 7 * 24 * 60

TOPICS = """
INSERT INTO topic (name, topic_id, partition_count, replication_factor, configs, metadata_version)
SELECT 'clicks-' || n, md5(n::text)::uuid, %s, 1, '{}'::jsonb, 0 FROM generate_series(1, %s) n
UNION ALL SELECT 'orders', %s, 1, 1, '{}', 0"""
PARTITIONS = """
INSERT INTO partition (topic_id, partition, assigned, adding, removing, leader, leader_epoch, isr, version)
SELECT topic_id, number, '{1}', '{}', '{}', -1, 0, '{}', 1
FROM topic, generate_series(0, partition_count - 1) number WHERE name <> 'orders'"""
CONSUMERS = """
INSERT INTO consumer_group (name, shard, protocol, phase, generation, version, rebalance_mode, assignor,
    error, ephemeral)
SELECT 'group-' || n, n %% %s, 'native', 'Stable', 1, 1, 'eager', 'sticky', '', false
FROM generate_series(1, %s) n"""
COMMITTED = """
INSERT INTO committed_offset (group_name, topic_id, topic_name, partition, committed_offset, leader_epoch,
    metadata, version)
SELECT 'group-' || n, md5(n::text)::uuid, 'clicks-' || n, number, 5, -1, '', 1
FROM generate_series(0, %s) number, generate_series(1, %s) n
UNION ALL SELECT 'group-3', %s, 'orders', 0, 5, -1, '', 1"""


@pytest.fixture
def connection(fresh_database: str) -> Iterator[LaneConnection]:
    """Each group reads a topic of its own; group 3 reads `orders`, too, whose one partition is gone."""
    call_command("initialise_cluster", verbosity=0)
    with LaneConnection.connect(fresh_database) as opened:
        opened.execute(TOPICS, (OFFSETS_OF_A_GROUP, GROUPS, ORDERS))
        opened.execute(PARTITIONS)
        opened.execute(CONSUMERS, (SHARDS, GROUPS))
        opened.execute(COMMITTED, (OFFSETS_OF_A_GROUP - 1, GROUPS, ORDERS))
        opened.execute("ANALYZE committed_offset, consumer_group, partition, topic")
        yield opened
        opened.rollback()


def offsets_read(connection: LaneConnection) -> int:
    """Offsets that this transaction has read so far."""
    row = connection.execute(
        "SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relname = 'committed_offset'"
    ).fetchone()
    assert row is not None
    return int(row[0])


def test_what_a_shard_may_let_go_of_is_found_without_the_offsets_of_others(
    connection: LaneConnection,
) -> None:
    before = offsets_read(connection)
    found = GroupStore().outlived(connection, 3, WEEK_MINUTES)
    assert set(found.removed) == {"group-3"}
    assert GroupStore().outlived(connection, 4, WEEK_MINUTES) == Outlived({}, {}, {})
    # Three questions: what is old, what is of no topic any more, what of no partition.
    of_two_shards = 2 * GROUPS // SHARDS * OFFSETS_OF_A_GROUP + 1
    assert offsets_read(connection) - before <= 3 * of_two_shards


def test_a_number_is_taken_again_without_a_look_at_what_is_committed_for_others(
    connection: LaneConnection,
) -> None:
    rows = controllers_store.load(connection)
    version = rows.metadata_version + 1
    topic = replace(rows.topics[ORDERS], version=version)
    [again] = made_rows.gathered([PartitionRow(ORDERS, 0, (1,), -1, 7, (), version, base_epoch=7)])
    turn = (
        facts.TurnStamped(version),
        facts.TopicChanged(topic),
        facts.PartitionsCreated(again, version),
    )
    before = offsets_read(connection)
    controllers_store.save(connection, rows, turn)
    assert offsets_read(connection) - before <= 1
    assert set(GroupStore().outlived(connection, 3, WEEK_MINUTES).removed) == {"group-3"}
