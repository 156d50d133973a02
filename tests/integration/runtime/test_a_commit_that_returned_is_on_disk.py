"""A server may acknowledge what it has not written yet: never to those who acknowledge it to others."""

import uuid

import pytest
from psycopg import sql

from runtime import cluster
from runtime.postgres import Postgres, PostgresLink, open_connection
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
