"""A batch of commits locks its rows in the order of all batches: two of them never wait in a circle."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from uuid import UUID

import pytest
from django.core.management import call_command

from coordinator import store_offsets
from coordinator.store_offsets import StoredOffset
from groups.core.state import OffsetNote
from muster.messages.partitions import Partition
from runtime.postgres import LaneConnection

BOUND_S = 30.0
GROUP, ORDERS, MANY = "departures", UUID(int=10), 2_000
PARTITIONS = [Partition("orders", ORDERS, number) for number in (3, 500, 1_000, 1_999)]
STORED = """
INSERT INTO committed_offset (group_name, topic_id, topic_name, partition, committed_offset, leader_epoch,
    metadata, version)
SELECT %s, %s, 'orders', number, 5, -1, '', 1 FROM generate_series(0, %s) number"""
GROUP_STORED = """
INSERT INTO consumer_group (name, shard, protocol, phase, generation, version, rebalance_mode, assignor,
    error, ephemeral)
VALUES (%s, 0, 'native', 'Stable', 1, 1, 'eager', 'sticky', '', false)"""
WAITS = "SELECT count(*) FROM pg_stat_activity WHERE pid = %s AND wait_event_type = 'Lock'"
LAST = "SELECT FROM committed_offset WHERE partition = %s FOR UPDATE"
FREE = "SELECT partition FROM committed_offset WHERE partition = ANY (%s) FOR UPDATE SKIP LOCKED"


@pytest.fixture
def connections(fresh_database: str) -> Iterator[list[LaneConnection]]:
    """Three of a database in which so many offsets are committed that rows are found by their index."""
    call_command("initialise_cluster", verbosity=0)
    with ExitStack() as opened:
        made = [opened.enter_context(LaneConnection.connect(fresh_database)) for _ in range(3)]
        made[0].execute(GROUP_STORED, (GROUP,))
        made[0].execute(STORED, (GROUP, ORDERS, MANY - 1))
        made[0].execute("ANALYZE committed_offset")
        made[0].commit()
        yield made


@pytest.mark.parametrize("known", [False, True], ids=["by key", "by id"])
@pytest.mark.parametrize("offset", [7, (7, OffsetNote(3, "noted"))], ids=["alone", "with notes"])
def test_a_batch_that_waits_for_its_last_row_holds_all_before_it(
    connections: list[LaneConnection], offset: StoredOffset, known: bool
) -> None:
    batch, somebody, looking = connections
    backwards = {(GROUP, partition): offset for partition in reversed(PARTITIONS)}

    def write() -> None:
        store_offsets.write(batch, backwards)
        batch.commit()

    if known:
        write()
    somebody.execute(LAST, (PARTITIONS[-1].number,))
    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write)
        try:
            _wait_until_it_waits(looking, batch.info.backend_pid)
            free = looking.execute(FREE, ([one.number for one in PARTITIONS],)).fetchall()
        finally:
            # Whatever they hold, the batch is waited for.
            looking.rollback()
            somebody.rollback()
        writing.result(BOUND_S)
    assert free == []


def _wait_until_it_waits(looking: LaneConnection, backend_pid: int) -> None:
    give_up_at = time.monotonic() + BOUND_S
    while looking.execute(WAITS, (backend_pid,)).fetchone() == (0,):
        assert time.monotonic() < give_up_at, "the batch waits for no row"
        looking.rollback()
        time.sleep(0.005)
