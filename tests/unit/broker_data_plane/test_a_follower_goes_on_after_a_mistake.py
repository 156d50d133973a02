"""Whatever goes wrong with one peer, its partitions are followed again a moment later."""

import asyncio
from pathlib import Path
from uuid import UUID

from broker.core.replica_log import PartitionKey
from broker.replication import Replication
from broker.settings import from_environment
from muster.messages.link.rows import REPLICATION_LISTENER, BrokerRow
from tests.unit.broker_data_plane.planes import KEY, ORDERS, broker
from tests.unit.broker_log.logs import append


def _leader_at(port: str) -> list[BrokerRow]:
    return [BrokerRow(1, 1, str(UUID(int=1)), {REPLICATION_LISTENER: f"127.0.0.1:{port}"})]


async def test_an_address_that_is_none_stops_nobody_for_ever(tmp_path: Path) -> None:
    settings = from_environment(
        {
            "MUSTER_BROKER_ID": "2",
            "MUSTER_BROKER_DATA": str(tmp_path),
            "MUSTER_NODES": "ws://127.0.0.1:9301",
            "MUSTER_BROKER_SECRET": "s3cret",
            "MUSTER_REPLICA_FETCH_BACKOFF_MS": "10",
        }
    )
    async with broker(tmp_path, 1) as one, broker(tmp_path, 2) as two:
        for each in (one, two):
            each.obey(1, replicas=(1, 2))
        leads, follows = one.plane.hosted(ORDERS, 0), two.plane.hosted(ORDERS, 0)
        assert leads is not None and follows is not None
        append(leads.log, b"a", b"b")
        replication = Replication(two.plane, settings)
        replication.know_self(1, KEY)
        try:
            replication.know_brokers(_leader_at("a-port"))
            replication.look_at(PartitionKey(ORDERS, 0))
            await asyncio.sleep(0)
            replication.know_brokers(_leader_at(str(one.replication_port)))
            async with asyncio.timeout(10):
                while follows.log.end_offset < 2:
                    await asyncio.sleep(0.01)
        finally:
            await replication.close()
