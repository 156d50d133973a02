"""Processes die and sleep, links are cut, partitions move: what was acknowledged is there once, in order."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from standalone.postgres import Postgres
from standalone.redis import Redis
from tests.acceptance.chaos_cluster import ChaosCluster
from tests.acceptance.chaos_plan import DEEDS, SHORT, Chaos
from tests.acceptance.chaos_records import Account

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(3_600)]
ROUNDS = int(os.environ.get("CHAOS") or bool(os.environ.get("WHOLE")))
"""`make chaos ROUNDS=3`: how often every deed is done; 0: the short form."""

SEED = int(os.environ.get("SEED") or 0)
ONLY = os.environ.get("DEED", "")
"""One deed alone."""


@pytest.fixture
def cluster(
    tmp_path: Path, fresh_database: str, redis_server: Redis, postgres_server: Postgres
) -> Iterator[ChaosCluster]:
    made = ChaosCluster(tmp_path / "cluster", fresh_database, redis_server, postgres_server)
    try:
        with made.proxies:
            yield made
            made.stop()
            if postgres_server.pid is None:
                postgres_server.start()
    finally:
        made.disk.unmount()


def test_acknowledged_records_are_there_once_in_order_on_every_replica(
    cluster: ChaosCluster, tmp_path: Path
) -> None:
    cluster.start()
    cluster.create_topics()
    account = Account(cluster, tmp_path)
    try:
        account.wait_goes_on("before chaos")
        for number in range(max(1, ROUNDS)):
            chaos = Chaos(cluster, account, SEED + number, print)
            chaos.play([ONLY] if ONLY else list(DEEDS) if ROUNDS else SHORT)
        account.settle()
    finally:
        account.end()
    assert cluster.grumbles() == []
