"""Off loopback a follower asks for a certificate that it trusts, and sends nothing in the clear."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import UUID

import pytest

from broker.core.replica_log import PartitionKey
from broker.replication import PeerFetcher, Replication
from broker.replication_listener import ReplicationListener
from broker.settings import from_environment
from kafkaserver.tls import Certificate
from muster.messages.link.rows import REPLICATION_LISTENER, REPLICATION_SECURITY, BrokerRow
from tests.unit.broker_data_plane.planes import KEY, ORDERS, Broker, broker
from tests.unit.broker_log.logs import append

CERTIFICATES = Path(__file__).parents[1] / "kafkaserver" / "certificates"


@asynccontextmanager
async def tls_leader(one: Broker, name: str = "first") -> AsyncIterator[int]:
    """The port of a replication listener of `one` behind this certificate, for `localhost`."""
    certificate = Certificate(CERTIFICATES / f"{name}.crt", CERTIFICATES / f"{name}.key")
    listener = ReplicationListener(one.plane, certificate=certificate)
    listener.key = KEY
    try:
        yield listener.listen("127.0.0.1", 0)
    finally:
        await listener.drain(grace_ms=0)


@asynccontextmanager
async def following(two: Broker, folder: Path, endpoints: dict[str, str]) -> AsyncIterator[PeerFetcher]:
    """How broker 2 fares that follows broker 1 at these endpoints, and trusts the first certificate."""
    settings = from_environment(
        {
            "MUSTER_BROKER_ID": "2",
            "MUSTER_BROKER_DATA": str(folder),
            "MUSTER_NODES": "ws://127.0.0.1:9301",
            "MUSTER_BROKER_SECRET": "s3cret",
            "MUSTER_KAFKA_TLS_CA": str(CERTIFICATES / "first.crt"),
            "MUSTER_REPLICA_FETCH_BACKOFF_MS": "10",
        }
    )
    replication = Replication(two.plane, settings)
    replication.know_self(1, KEY)
    replication.know_brokers([BrokerRow(1, 1, str(UUID(int=1)), endpoints)])
    replication.look_at(PartitionKey(ORDERS, 0))
    try:
        yield replication.peers[1]
    finally:
        await replication.close()


async def test_records_arrive_behind_a_certificate_that_is_trusted(tmp_path: Path) -> None:
    async with broker(tmp_path, 1) as one, broker(tmp_path, 2) as two, tls_leader(one) as port:
        for each in (one, two):
            each.obey(1, replicas=(1, 2))
        leads, follows = one.plane.hosted(ORDERS, 0), two.plane.hosted(ORDERS, 0)
        assert leads is not None and follows is not None
        append(leads.log, *(b"%d" % number * 1_000 for number in range(300)))
        endpoints = {REPLICATION_LISTENER: f"localhost:{port}", REPLICATION_SECURITY: "SSL"}
        async with asyncio.timeout(10), following(two, tmp_path, endpoints):
            while follows.log.end_offset < 300:
                await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    ("served", "endpoints", "why"),
    [
        ("second", {REPLICATION_LISTENER: "localhost:{}", REPLICATION_SECURITY: "SSL"}, "CERTIFICATE_VERIFY"),
        ("elsewhere", {REPLICATION_LISTENER: "localhost:{}", REPLICATION_SECURITY: "SSL"}, "CERTIFICATE_VER"),
        ("first", {REPLICATION_LISTENER: "192.0.2.1:{}"}, "speaks no TLS"),
    ],
    ids=["an unknown authority", "another name", "in the clear"],
)
async def test_nobody_is_followed_who_could_be_somebody_else(
    tmp_path: Path, served: str, endpoints: dict[str, str], why: str
) -> None:
    async with broker(tmp_path, 1) as one, broker(tmp_path, 2) as two, tls_leader(one, served) as port:
        for each in (one, two):
            each.obey(1, replicas=(1, 2))
        there = {name: value.format(port) for name, value in endpoints.items()}
        async with asyncio.timeout(10), following(two, tmp_path, there) as peer:
            while not peer._last_failure:
                await asyncio.sleep(0.01)
            assert why in peer._last_failure
            assert peer.bytes_fetched == 0
