"""Fixtures of the coordinator's and the SDK's tests: nodes and workers as real processes.

`plane` is shared by all tests of a session, each with a group of its own; tests that kill and stop nodes and
workers share `two_nodes`, which runs whole again for each. On both a session may be shorter than people may
make it, and a member that stays silent is given one more chance instead of four: tests wait for both.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pytest

from standalone.postgres import Postgres
from standalone.redis import Redis
from tests.integration.coordinator.control_plane import ControlPlane
from tests.kept_databases import lent_database

IMPATIENT = {"MUSTER_GROUP_MIN_SESSION_TIMEOUT_MS": "2000", "MUSTER_REBALANCE_MAX_RETRIES": "1"}


@contextmanager
def _new_plane(server: Postgres, template: str, home: Path) -> Iterator[ControlPlane]:
    """A control plane with topics `orders` (4 partitions) and `clicks` (2), and no process yet."""
    redis = Redis(home / "redis-home")
    redis.start()
    with lent_database(server, template) as url:
        plane = ControlPlane(home / "plane", url, redis, **IMPATIENT)
        try:
            plane.add_topic("orders", 4)
            plane.add_topic("clicks", 2)
            yield plane
        finally:
            plane.stop()
            redis.stop()


@pytest.fixture(scope="session")
def plane(
    postgres_server: Postgres, migrated_template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    """A node that serves all shards and a worker, shared: tests use groups and topics of their own."""
    with _new_plane(postgres_server, migrated_template, tmp_path_factory.mktemp("shared")) as shared:
        shared.start_worker()
        shared.start_node()
        shared.wait_until_serving()
        yield shared


@pytest.fixture(scope="session")
def nodes_to_kill(
    postgres_server: Postgres, migrated_template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    """Two nodes and a worker, shared by the tests that kill and stop them; take `two_nodes`."""
    with _new_plane(postgres_server, migrated_template, tmp_path_factory.mktemp("killed")) as shared:
        yield shared


@pytest.fixture
def two_nodes(nodes_to_kill: ControlPlane) -> ControlPlane:
    """Two nodes that share the shards, and a worker; what an earlier test killed runs again."""
    if not nodes_to_kill.workers or nodes_to_kill.workers[-1].ended:
        nodes_to_kill.start_worker()
    for name in ("node-1", "node-2"):
        if name not in nodes_to_kill.nodes or nodes_to_kill.nodes[name].ended:
            nodes_to_kill.start_node(name)
    nodes_to_kill.wait_until_serving()
    return nodes_to_kill


@pytest.fixture
def group() -> str:
    """The name of a group of this test alone."""
    return f"departures-{uuid4().hex[:8]}"
