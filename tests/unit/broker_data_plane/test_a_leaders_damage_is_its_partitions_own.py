"""One damaged batch at a leader holds up its own partition, with rests between, and no other."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import structlog

from broker.core.replica_log import PartitionKey
from broker.hosted import HostedPartition
from broker.log.outcomes import LogSettings
from broker.plane_settings import DataPlaneSettings
from broker.replication import PeerFetcher, Replication
from broker.settings import from_environment
from muster.kafkawire import batches
from muster.messages.link.rows import REPLICATION_LISTENER, BrokerRow, PartitionRow
from tests.unit.broker_data_plane.planes import KEY, ORDERS, Broker, broker
from tests.unit.broker_log.logs import append

LENGTH, MAGIC = 8, 16
COUNT = 3


def _partition(of: Broker, number: int) -> HostedPartition:
    hosted = of.plane.hosted(ORDERS, number)
    assert hosted is not None
    return hosted


@asynccontextmanager
async def _following(folder: Path) -> AsyncIterator[tuple[Broker, Broker, Replication]]:
    """Broker 2 is to follow partitions 0 to 2 of broker 1; nothing is fetched yet."""
    settings = from_environment(
        {
            "MUSTER_BROKER_ID": "2",
            "MUSTER_BROKER_DATA": str(folder),
            "MUSTER_NODES": "ws://127.0.0.1:9301",
            "MUSTER_BROKER_SECRET": "s3cret",
            "MUSTER_REPLICA_FETCH_BACKOFF_MS": "1",
        }
    )
    large = DataPlaneSettings(log=LogSettings())
    async with broker(folder, 1, large) as one, broker(folder, 2, large) as two:
        for each in (one, two):
            # Nobody else could lead it, so its leader goes on.
            each.obey(1, replicas=(1, 2), isr=(1,))
            for number in range(1, COUNT):
                each.plane.obey(PartitionRow(ORDERS, number, (1, 2), 1, 1, (1, 2), 1))
        replication = Replication(two.plane, settings)
        replication.know_self(1, KEY)
        endpoint = f"127.0.0.1:{one.replication_port}"
        replication.know_brokers([BrokerRow(1, 1, "a", {REPLICATION_LISTENER: endpoint})])
        try:
            yield one, two, replication
        finally:
            await replication.close()


@pytest.mark.parametrize("at", [LENGTH, MAGIC])
async def test_the_others_of_the_same_leader_go_on(tmp_path: Path, at: int) -> None:
    async with _following(tmp_path) as (one, two, replication):
        for number in range(COUNT):
            append(_partition(one, number).log, b"a")
        log = _partition(one, 0).log
        for _ in range(3):
            append(log, b"b" * 50)
        (path,) = log.folder.glob("*.log")
        data = bytearray(path.read_bytes())
        data[batches.read_header(data, 0).size_bytes + at] ^= 0x10
        path.write_bytes(data)
        with structlog.testing.capture_logs() as said:
            for number in range(COUNT):
                replication.look_at(PartitionKey(ORDERS, number))
            fetcher = replication.peers[1]
            await _until(lambda: _rests(fetcher) >= 4)
            for number in range(1, COUNT):
                append(_partition(one, number).log, b"c")
                _partition(one, number).log_grew()
            others = [_partition(two, number).log for number in range(1, COUNT)]
            await _until(lambda: all(log.end_offset == 2 for log in others))
        assert _partition(two, 0).log.end_offset == 1
        assert one.replication.server.counters.accepted == 1
        assert len([line for line in said if line["event"] == "fetched records not stored"]) == 1


def _rests(fetcher: PeerFetcher) -> int:
    return max((times for _, times in fetcher._refusals.values()), default=0)


async def _until(holds: object) -> None:
    assert callable(holds)
    async with asyncio.timeout(10):
        while not holds():
            await asyncio.sleep(0.005)
