"""PostgreSQL drops all connections when one backend is killed; healthy nodes keep their leases."""

import os
import signal
from collections.abc import Callable
from contextlib import closing

from standalone.postgres import Postgres
from tests.integration.runtime.conftest import CounterNode, Truth, wait_for


def sessions(url: str) -> dict[str, int]:
    with closing(Truth(url)) as truth:
        return dict(truth.rows("SELECT node, renewals FROM node_session WHERE NOT ended"))


def test_two_healthy_nodes_keep_what_they_hold(
    truth: Truth, fresh_database: str, postgres_server: Postgres, start_node: Callable[..., CounterNode]
) -> None:
    first = start_node("node-1")
    first.wait_accepted()
    start_node("node-2")
    wait_for(lambda: sessions(fresh_database).get("node-2", 0) > 2, "node-2 renews")
    owners = truth.rows("SELECT name, run FROM lease ORDER BY name")
    first.ask("add", "coordinator/0", "orders", 1)
    first.wait("said", "orders")

    [(victim,)] = truth.rows(
        "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'muster:node-1:%' LIMIT 1"
    )
    before = sessions(fresh_database)
    os.kill(victim, signal.SIGKILL)

    def both_renew() -> bool:
        try:
            now = sessions(fresh_database)
        except Exception:
            return False
        return all(now.get(node, 0) > renewals + 3 for node, renewals in before.items())

    wait_for(both_renew, "both renew again")
    first.ask("add", "coordinator/0", "orders", 1)
    first.wait("said", "orders", times=2)
    with closing(Truth(fresh_database)) as after:
        assert after.rows("SELECT name, run FROM lease ORDER BY name") == owners
        assert after.rows("SELECT count(*) FROM node_session WHERE ended") == [(0,)]
        assert after.counter("orders").total == 2


def test_a_terminated_session_connection_freezes_nobody(
    truth: Truth, start_node: Callable[..., CounterNode]
) -> None:
    first = start_node("node-1")
    first.wait_accepted()
    [(pid,)] = truth.rows("SELECT pid FROM node_session WHERE node = 'node-1'")
    truth.rows("SELECT pg_terminate_backend(%s)", pid)
    wait_for(
        lambda: truth.rows("SELECT pid FROM node_session WHERE NOT ended") != [(pid,)], "it renews elsewhere"
    )
    first.ask("add", "coordinator/0", "orders", 1)
    first.wait("said", "orders")
    assert first.facts("frozen") == []
    assert truth.rows("SELECT DISTINCT epoch FROM lease") == [(1,)]
