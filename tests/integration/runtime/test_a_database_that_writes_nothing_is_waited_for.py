"""A PostgreSQL that only reads for now, or has no room, is as one that is away: nodes wait, and go on."""

from collections.abc import Callable

import psycopg
from psycopg.conninfo import conninfo_to_dict

from tests.integration.runtime.conftest import CounterNode, Truth


def test_a_node_outlives_a_database_that_only_reads(
    truth: Truth, fresh_database: str, start_node: Callable[..., CounterNode]
) -> None:
    name = conninfo_to_dict(fresh_database)["dbname"]
    node = start_node("node-1")
    node.wait_accepted()

    def become(words: str) -> None:
        """Sessions begin so from now on, and the node's begin anew."""
        with psycopg.connect(fresh_database, autocommit=True) as connection:
            connection.execute("SET default_transaction_read_only = off")
            connection.execute(f"ALTER DATABASE {name} {words}".encode())
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE application_name LIKE 'muster:node-1:%'"
            )

    become("SET default_transaction_read_only = on")
    node.wait("frozen")
    assert node.process.poll() is None
    become("RESET default_transaction_read_only")
    node.ask("add", "coordinator/0", "orders", 1)
    node.wait("said", "orders")
    assert truth.counter("orders").total == 1
    assert truth.rows("SELECT ended FROM node_session") == [(False,)]
