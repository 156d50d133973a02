"""A real standby coordinates nothing; promoted by PostgreSQL itself, it goes on above what was given out."""

import os
import pwd
import uuid
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from runtime import cluster
from runtime.postgres import Postgres, open_connection
from runtime.succession import LIFT
from standalone import postgres
from tests.conformance.databases import LANES
from tests.integration.coordinator.management import Management


@pytest.fixture
def standby(tmp_path: Path) -> Iterator[postgres.Postgres]:
    """A server with a cluster whose leases are at epoch 3, stopped and started again as a standby."""
    server = postgres.Postgres(tmp_path / "servers", throw_away=True)
    server.start()
    told = {"DATABASE_URL": server.url(), "DATABASE_DIRECT_URL": server.url(), "MUSTER_HOME": str(tmp_path)}
    told |= {"SECRET_KEY": "tests-only-" + "x" * 50, "MUSTER_TEST": "1", "PYTHONWARNINGS": "ignore"}
    migrating = Management({**os.environ, **told})
    migrating.run("migrate", "--verbosity", "0")
    migrating.close()
    with psycopg.connect(server.url()) as connection:
        cluster.initialise(connection, uuid.uuid4(), LANES)
        connection.execute("UPDATE lease SET epoch = 3")
    server.stop()
    signal_file = server.data / "standby.signal"
    signal_file.touch()
    if server.user:
        os.chown(signal_file, pwd.getpwnam(server.user).pw_uid, -1)
    server.start()
    yield server
    server.remove()


def test_a_standby_is_refused_until_it_is_promoted(standby: postgres.Postgres) -> None:
    node = Postgres(standby.url(), "node-1")
    with pytest.raises(cluster.WrongDatabase, match="reaches a standby"):
        node.connect("aaaa", "session")
    with psycopg.connect(standby.superuser_url(), autocommit=True) as superuser:
        assert superuser.execute("SELECT pg_promote(true)").fetchone() == (True,)
    node.connect("aaaa", "session").close()
    connection = open_connection(standby.url(), "muster-test")
    try:
        before, now = cluster.read(connection), cluster.identity(connection)
        assert (before.system_identifier, before.timeline, before.location) == now
        assert now.timeline == 2
        assert connection.execute("SELECT DISTINCT epoch FROM lease").fetchall() == [(3 + LIFT,)]
    finally:
        connection.close()
