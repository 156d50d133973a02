"""This room gives replication tests a cluster of their own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from standalone.redis import Redis
from tests.integration.replication.cluster import Cluster


@pytest.fixture
def cluster(tmp_path: Path, fresh_database: str, redis_server: Redis) -> Iterator[Cluster]:
    made = Cluster(tmp_path / "cluster", fresh_database, redis_server)
    yield made
    made.stop()
