"""This room gives replication tests a cluster of their own, or one for all tests of a module."""

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from pytest_django import DjangoDbBlocker

from controller.topics_api import created_topics
from standalone.postgres import Postgres
from standalone.redis import Redis
from tests.conftest import pointed_at
from tests.integration.replication.cluster import PATIENCE_S, Cluster
from tests.integration.replication.rest_operator import Operator
from tests.kept_databases import lent_database


@pytest.fixture(autouse=True)
def patient_doors(monkeypatch: pytest.MonkeyPatch) -> None:
    """REST and pages in this process wait for the owner's answer until it comes, however slow it is."""
    monkeypatch.setattr("runtime.asking.WAIT_S", PATIENCE_S)


@pytest.fixture
def cluster(tmp_path: Path, fresh_database: str, redis_server: Redis) -> Iterator[Cluster]:
    made = Cluster(tmp_path / "cluster", fresh_database, redis_server)
    yield made
    made.stop()


@pytest.fixture(scope="module")
def shared(
    postgres_server: Postgres, migrated_template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """A node and three brokers, for all tests of this module: each has topics of its own."""
    home = tmp_path_factory.mktemp("rest")
    redis = Redis(home / "redis")
    redis.start()
    with lent_database(postgres_server, migrated_template) as url:
        cluster = Cluster(Path(home / "cluster"), url, redis)
        try:
            cluster.start()
            yield cluster
        finally:
            cluster.stop()
            redis.stop()


@pytest.fixture
def olga(shared: Cluster, django_db_blocker: DjangoDbBlocker) -> Iterator[Operator]:
    """An operator; Django's rows are those of the cluster."""
    created_topics.forget()
    with django_db_blocker.unblock(), pointed_at(shared.database_url):
        yield Operator(shared.token("olga", "operator"))


@pytest.fixture
def topic() -> str:
    return f"gates-{uuid4().hex[:8]}"
