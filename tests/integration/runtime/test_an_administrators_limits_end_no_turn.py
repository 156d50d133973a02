"""An administrator bounds all that a role does: what nodes bound by themselves goes on."""

import uuid
from functools import partial
from typing import Final

import psycopg
import pytest
from psycopg import sql

from config import environment
from runtime import cluster
from runtime.postgres import Postgres, PostgresLink, open_connection
from tests.conformance.databases import LANES

LIMITS: Final = (
    "statement_timeout",
    "lock_timeout",
    "idle_in_transaction_session_timeout",
    "idle_session_timeout",
)


@pytest.fixture
def bounded(fresh_database: str) -> str:
    """A database where whatever takes a fifth of a second is ended, and all is serializable."""
    with psycopg.connect(fresh_database, autocommit=True) as administrator:
        name = sql.Identifier(fresh_database.rpartition("/")[2])
        for limit in LIMITS:
            statement = sql.SQL("ALTER DATABASE {} SET {} = '200ms'")
            administrator.execute(statement.format(name, sql.Identifier(limit)))
        statement = sql.SQL("ALTER DATABASE {} SET default_transaction_isolation = 'serializable'")
        administrator.execute(statement.format(name))
    return fresh_database


def test_a_statement_of_a_node_takes_its_time(bounded: str) -> None:
    with open_connection(bounded, "muster-test") as connection:
        cluster.initialise(connection, uuid.uuid4(), LANES)
    link = Postgres(bounded, "node-1").connect("a" * 16, "lanes-0")
    assert isinstance(link, PostgresLink)
    link.call(lambda connection: connection.execute("SELECT pg_sleep(0.4)"))
    found = {name: link.call(partial(shown, name)) for name in (*LIMITS, "transaction_isolation")}
    link.close()
    assert found == dict.fromkeys(LIMITS, "0") | {"transaction_isolation": "read committed"}


@pytest.mark.parametrize("role", ["web", "worker"])
def test_pages_and_workers_write_beside_each_other_whatever_is_the_default(bounded: str, role: str) -> None:
    settings = environment.database(bounded, role)
    stated = {name: settings["OPTIONS"][name] for name in ("options", "application_name")}
    # Whoever asks here may be held up for a fifth of a second between two words.
    stated["options"] += " -c idle_session_timeout=0"
    with psycopg.connect(bounded, **stated) as connection:
        assert shown("transaction_isolation", connection) == "read committed"


def test_who_listens_may_hear_nothing_for_long(bounded: str) -> None:
    with open_connection(bounded, "muster-test") as listener:
        listener.execute("LISTEN muster")
        assert list(listener.notifies(timeout=0.5)) == []
        with open_connection(bounded, "muster-test-too") as somebody:
            somebody.execute("NOTIFY muster")
        (heard,) = listener.notifies(timeout=60, stop_after=1)
        assert heard.channel == "muster"


def test_what_the_address_states_holds_but_for_the_limits(fresh_database: str) -> None:
    stated = "options=-c%20search_path%3Dorders%20-c%20statement_timeout%3D200"
    with open_connection(f"{fresh_database}?{stated}", "muster-test") as connection:
        found = [shown(name, connection) for name in ("search_path", "statement_timeout")]
    assert found == ["orders", "0"]


def shown(setting: str, connection: psycopg.Connection[tuple[str]]) -> str:
    """What holds on this connection."""
    row = connection.execute(sql.SQL("SHOW {}").format(sql.Identifier(setting))).fetchone()
    assert row is not None
    return row[0]
