"""A server may acknowledge what it has not written yet: never to those who acknowledge it to others."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from runtime import cluster
from runtime.postgres import Postgres, PostgresLink, open_connection
from standalone.postgres import Postgres as Server
from tests.conformance.databases import LANES


@pytest.mark.parametrize(
    ("told", "obeyed"), [("off", "on"), ("local", "local"), ("remote_apply", "remote_apply")]
)
def test_commit_waits_for_the_disk_whatever_the_database_is_told(
    fresh_database: str, told: str, obeyed: str
) -> None:
    """How far it waits for standbys as well is the operator's to say."""
    administrator = open_connection(fresh_database, "muster-test")
    cluster.initialise(administrator, uuid.uuid4(), LANES)
    name = sql.Identifier(fresh_database.rpartition("/")[2])
    administrator.execute(sql.SQL("ALTER DATABASE {} SET synchronous_commit = {}").format(name, told))
    administrator.close()
    link = Postgres(fresh_database, "node-1").connect("a" * 16, "lanes-0")
    assert isinstance(link, PostgresLink)
    found = [
        # In a turn, and in a statement by itself, as a batch is.
        link.transaction(lambda connection: connection.execute("SHOW synchronous_commit").fetchone()),
        link.call(lambda connection: connection.execute("SHOW synchronous_commit").fetchone()),
    ]
    link.close()
    assert found == [(obeyed,), (obeyed,)]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A server of this test alone."""
    server = Server(tmp_path / "servers", throw_away=True)
    server.start()
    yield server
    server.remove()


def test_commit_waits_for_the_disk_also_where_the_server_is_told_otherwise_later(server: Server) -> None:
    """Somebody edits its files, and it reads them again: a link may be weeks old by then."""
    link = PostgresLink(open_connection(server.url(), "muster-test"))
    heard, said = "SHOW synchronous_commit", open_connection(server.url(), "muster-test")
    with psycopg.connect(server.superuser_url(), autocommit=True) as superuser:
        superuser.execute("ALTER SYSTEM SET synchronous_commit = off")
        superuser.execute("SELECT pg_reload_conf()")
    # Each backend reads the files anew between two statements.
    assert any(said.execute(heard).fetchone() == ("off",) for _ in range(100_000))
    found = [link.call(lambda connection: connection.execute(heard).fetchone()) for _ in range(100)]
    link.close()
    said.close()
    assert set(found) == {("on",)}
