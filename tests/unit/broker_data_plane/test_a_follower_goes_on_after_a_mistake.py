"""Whatever goes wrong with one peer, its partitions are followed again a moment later."""

import asyncio
import socket
from pathlib import Path
from uuid import UUID

import pytest
import structlog

from broker.core.replica_log import PartitionKey
from broker.replication import Replication
from broker.settings import BrokerSettings, from_environment
from kafkaserver.missed import MissedBrokers
from muster.messages.link.rows import REPLICATION_LISTENER, BrokerRow
from tests.unit.broker_data_plane.planes import KEY, ORDERS, broker
from tests.unit.broker_log.logs import append


def _leader_at(port: str) -> list[BrokerRow]:
    return [BrokerRow(1, 1, str(UUID(int=1)), {REPLICATION_LISTENER: f"127.0.0.1:{port}"})]


def _settings(folder: Path) -> BrokerSettings:
    return from_environment(
        {
            "MUSTER_BROKER_ID": "2",
            "MUSTER_BROKER_DATA": str(folder),
            "MUSTER_NODES": "ws://127.0.0.1:9301",
            "MUSTER_BROKER_SECRET": "s3cret",
            "MUSTER_REPLICA_FETCH_BACKOFF_MS": "10",
        }
    )


class _Counted(MissedBrokers):
    """Counts how often a peer was missed."""

    times = 0

    def lose(self, broker_id: int) -> None:
        self.times += 1


async def test_a_leader_whose_door_hangs_up_each_time_is_missed_once(tmp_path: Path) -> None:
    """Else clients would wait for another leader again and again, though nobody is to be elected."""
    calls, enough = 0, asyncio.Event()

    async def hang_up(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal calls
        calls += 1
        writer.transport.abort()
        if calls == 5:
            enough.set()

    door = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    async with door, broker(tmp_path, 2) as two:
        two.obey(1, replicas=(1, 2))
        missed = _Counted()
        replication = Replication(two.plane, _settings(tmp_path), missed)
        replication.know_self(1, KEY)
        try:
            replication.know_brokers(_leader_at(str(door.sockets[0].getsockname()[1])))
            replication.look_at(PartitionKey(ORDERS, 0))
            async with asyncio.timeout(10):
                await enough.wait()
        finally:
            await replication.close()
    assert missed.times == 1


async def test_a_leader_that_says_nothing_is_told_by_its_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a network swallows what is sent: no error of the system names anybody then."""
    monkeypatch.setattr("broker.replication.CONNECT_TIMEOUT_S", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as nobody, structlog.testing.capture_logs() as logged:
        port = nobody.getsockname()[1]
        async with broker(tmp_path, 2) as two:
            two.obey(1, replicas=(1, 2))
            replication = Replication(two.plane, _settings(tmp_path))
            replication.know_self(1, KEY)
            try:
                replication.know_brokers(_leader_at(str(port)))
                replication.look_at(PartitionKey(ORDERS, 0))
                async with asyncio.timeout(10):
                    while not any(one["event"] == "cannot follow" for one in logged):
                        await asyncio.sleep(0.01)
            finally:
                await replication.close()
    [reason] = [one["reason"] for one in logged if one["event"] == "cannot follow"]
    assert reason == f"TimeoutError no answer of 127.0.0.1:{port} to an introduction within 0.05 s"


async def test_an_address_that_is_none_stops_nobody_for_ever(tmp_path: Path) -> None:
    settings = _settings(tmp_path)
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
