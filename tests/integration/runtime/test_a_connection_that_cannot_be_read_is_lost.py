"""Whatever the system says of a connection's socket, another one is made: libpq keeps some for ever."""

import os
from collections.abc import Callable
from uuid import uuid4

import psycopg
import pytest

from runtime import cluster
from runtime.database import Held
from runtime.ports import ConnectionLost
from runtime.postgres import Postgres, PostgresLink, open_connection

MOST_PARAMETERS = 65_535
Ask = Callable[[PostgresLink], object]

QUESTIONS: dict[str, Ask] = {
    "a look at leases": lambda link: link.epochs(["controller"]),
    "a read": lambda link: link.call(lambda connection: connection.execute("SELECT 1")),
    "a transaction": lambda link: link.transaction(lambda connection: connection.execute("SELECT 1")),
    "a batch": lambda link: link.batch(
        [Held("controller", 0)],
        lambda connection: connection.execute("UPDATE lease SET run = run RETURNING 1", {}),
    ),
}


@pytest.fixture
def link(fresh_database: str) -> PostgresLink:
    with open_connection(fresh_database, "muster-test") as connection:
        cluster.initialise(connection, uuid4(), ["controller"])
    return Postgres(fresh_database, "node-1").connect("run", "lanes")


@pytest.mark.parametrize("ask", QUESTIONS.values(), ids=QUESTIONS)
def test_an_error_of_its_socket_loses_it(link: PostgresLink, ask: Ask) -> None:
    """As "Invalid argument", by which the system tells that a route refuses what a connection sends."""
    ours, others = os.pipe()
    os.dup2(ours, link.connection.fileno())
    os.close(others)
    try:
        with pytest.raises(ConnectionLost):
            ask(link)
    finally:
        os.close(ours)
        link.close()


@pytest.mark.parametrize("kind", ["call", "transaction"])
def test_what_libpq_refuses_to_send_is_a_mistake_of_ours(link: PostgresLink, kind: str) -> None:
    """Taken for a lost connection, a read would be tried again on each new connection, for ever."""
    values = ["x"] * (MOST_PARAMETERS + 1)
    wanted = ", ".join(["%s"] * len(values)).encode()
    try:
        with pytest.raises(psycopg.OperationalError, match="number of parameters"):
            getattr(link, kind)(lambda connection: connection.execute(b"SELECT " + wanted, values))
        assert link.epochs(["controller"]), "it is as good as before"
    finally:
        link.close()
