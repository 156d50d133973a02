"""What a turn changes is found by its numbers: no turn looks at the partitions that it leaves alone."""

from collections.abc import Iterable, Iterator
from uuid import UUID

import pytest
from django.core.management import call_command
from msgspec.structs import replace

from controller import store
from controller.core import records as facts
from controller.core.state import ClusterRows
from muster.messages.link.rows import PartitionRow
from runtime.postgres import LaneConnection
from tests.unit.messages import made_rows

TOPICS, PARTITIONS = 20, 1_000
BROKERS = 100

TOPICS_MADE = """
INSERT INTO topic (name, topic_id, partition_count, replication_factor, configs, metadata_version)
SELECT 'clicks-' || n, md5(n::text)::uuid, %s, 3, '{}'::jsonb, 0 FROM generate_series(1, %s) n"""
PARTITIONS_MADE = """
INSERT INTO partition (topic_id, partition, assigned, adding, removing, leader, leader_epoch, isr, version)
SELECT topic_id, number, led, '{}', '{}', 1, 1, led, 0
FROM topic, generate_series(0, partition_count - 1) number,
    LATERAL (SELECT ARRAY[1, 2 + number %% %s] AS led) AS replicas"""


@pytest.fixture(params=[True, False], ids=["analysed", "never analysed"])
def connection(fresh_database: str, request: pytest.FixtureRequest) -> Iterator[LaneConnection]:
    """Broker 1 leads all partitions; many others follow it in each topic."""
    call_command("initialise_cluster", verbosity=0)
    with LaneConnection.connect(fresh_database) as opened:
        opened.execute(TOPICS_MADE, (PARTITIONS, TOPICS))
        opened.execute(PARTITIONS_MADE, (BROKERS,))
        if request.param:
            opened.execute("ANALYZE topic, partition")
        yield opened
        opened.rollback()


def rows_read(connection: LaneConnection) -> int:
    """Partitions that this transaction has read so far."""
    row = connection.execute(
        "SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relname = 'partition'"
    ).fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.parametrize("numbers", [range(PARTITIONS), range(700, PARTITIONS), range(3)])
def test_elections_in_one_topic_read_no_other(connection: LaneConnection, numbers: range) -> None:
    rows = store.load(connection)
    before = rows_read(connection)
    store.save(connection, rows, led_anew(rows, [min(rows.topics)], numbers))
    assert rows_read(connection) - before <= 2 * len(numbers)


@pytest.mark.parametrize("step", [100, 400])
def test_a_few_elections_in_each_topic_read_nothing_between_them(
    connection: LaneConnection, step: int
) -> None:
    rows = store.load(connection)
    numbers = range(0, PARTITIONS, step)
    before = rows_read(connection)
    store.save(connection, rows, led_anew(rows, rows.topics, numbers))
    assert rows_read(connection) - before <= 2 * TOPICS * len(numbers)


def led_anew(rows: ClusterRows, topic_ids: Iterable[UUID], numbers: range) -> tuple[facts.ClusterRecord, ...]:
    """A turn in which the second replica leads these partitions of each topic."""
    version = rows.metadata_version + 1
    before = [rows.partitions[topic_id, number] for topic_id in topic_ids for number in numbers]
    led: list[PartitionRow] = [
        replace(row, leader=row.assigned[1], leader_epoch=2, isr=row.assigned[1:], version=version)
        for row in before
    ]
    return facts.TurnStamped(version), *(
        facts.PartitionsChanged(one, version, (0,) * len(one.partitions)) for one in made_rows.gathered(led)
    )
