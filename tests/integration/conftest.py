"""Fixtures of the coordinator's and the SDK's tests: nodes and workers as real processes.

`plane` is shared by all tests of a session, each with a group of its own; tests that kill and stop nodes and
workers share `two_nodes`, which runs whole again for each. On both a session may be shorter than people may
make it, and a member that stays silent is given one more chance instead of four: tests wait for both. Their
processes end where a file begins whose first test does not ask for them, and start again for one that does.
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

SHARED: list[ControlPlane] = []
"""Those of this session."""

IMPATIENT = {"MUSTER_GROUP_MIN_SESSION_TIMEOUT_MS": "2000", "MUSTER_REBALANCE_MAX_RETRIES": "1"}


@contextmanager
def _new_plane(server: Postgres, template: str, home: Path) -> Iterator[ControlPlane]:
    """A control plane with topics `orders` (4 partitions) and `clicks` (2), and no process yet."""
    redis = Redis(home / "redis-home")
    redis.start()
    with lent_database(server, template) as url:
        plane = ControlPlane(home / "plane", url, redis, **IMPATIENT)
        SHARED.append(plane)
        try:
            plane.add_topic("orders", 4)
            plane.add_topic("clicks", 2)
            yield plane
        finally:
            SHARED.remove(plane)
            plane.stop()
            redis.stop()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Function | None) -> None:
    """An idle node takes a fortieth of a core, and a session has rooms without nodes for many minutes."""
    if nextitem is not None and nextitem.path == item.path:
        return
    if nextitem is None or not {"shared_plane", "nodes_to_kill"} & set(nextitem.fixturenames):
        for plane in SHARED:
            plane.end_processes()


@pytest.fixture(scope="session")
def shared_plane(
    postgres_server: Postgres, migrated_template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    """What serves the tests that share it; take `plane`."""
    with _new_plane(postgres_server, migrated_template, tmp_path_factory.mktemp("shared")) as shared:
        yield shared


@pytest.fixture
def plane(shared_plane: ControlPlane) -> ControlPlane:
    """A node that serves all shards and a worker, shared: tests use groups and topics of their own."""
    _run_again(shared_plane, "node-1")
    return shared_plane


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
    _run_again(nodes_to_kill, "node-1", "node-2")
    return nodes_to_kill


def _run_again(plane: ControlPlane, *names: str) -> None:
    """Start what has ended, or never ran: a worker, and these nodes."""
    if not plane.workers or plane.workers[-1].ended:
        plane.start_worker()
    for name in names:
        if name not in plane.nodes or plane.nodes[name].ended:
            plane.start_node(name)
    plane.wait_until_serving()


@pytest.fixture
def group() -> str:
    """The name of a group of this test alone."""
    return f"departures-{uuid4().hex[:8]}"
