"""PostgreSQL undoes what is in a deadlock, and ends what waits too long: it is decided and written again."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import LiteralString

import psycopg
import pytest

from tests.integration.runtime.conftest import CounterNode, Truth, wait_for

LANE, OTHER_LANE = "coordinator/0", "coordinator/1"
ROW = f"{LANE}:orders"
WAITS = """
SELECT pid FROM pg_stat_activity
WHERE application_name LIKE 'muster:node-1:%' AND wait_event_type = 'Lock'
"""
COUNTER = "SELECT FROM counter WHERE key = 'orders' FOR UPDATE"
NUMBER = f"SELECT FROM tally WHERE key = '{ROW}' FOR UPDATE"
FENCE = f"SELECT FROM lease WHERE name = '{LANE}' FOR UPDATE"


@pytest.fixture
def node(truth: Truth, start_node: Callable[..., CounterNode]) -> CounterNode:
    """It has counted 1 of `orders` in a turn, and noted 1 in a batch."""
    made = start_node("node-1")
    made.wait_accepted()
    made.ask("add", LANE, "orders", 1)
    made.wait("said", "orders")
    made.ask("note", LANE, "orders", 1)
    made.wait("noted", {ROW: 1})
    return made


@contextmanager
def locked(url: str, lock: LiteralString) -> Iterator[psycopg.Connection]:
    """Somebody else's transaction, which holds this lock."""
    with psycopg.connect(url) as connection:
        connection.execute(lock)
        yield connection
        connection.rollback()


def who_waits(truth: Truth) -> set[int]:
    return {pid for (pid,) in truth.rows(WAITS)}


def crossed(truth: Truth, url: str, ask: Callable[[], None], lock: LiteralString) -> None:
    """Somebody holds `lock`, the node comes to wait for it, and then he wants the fence that the node holds.

    Who waits first looks first whether there is a deadlock, and is undone: that is the node.
    """
    with locked(url, lock) as somebody:
        ask()
        wait_for(lambda: who_waits(truth), "the node waits")
        somebody.execute(FENCE)


def deadlocks(truth: Truth) -> int:
    [(count,)] = truth.rows("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
    return int(count)


def test_a_turn_that_is_the_victim_of_a_deadlock_is_written_once(
    truth: Truth, fresh_database: str, node: CounterNode
) -> None:
    before = deadlocks(truth)
    crossed(truth, fresh_database, lambda: node.ask("add", LANE, "orders", 2), COUNTER)
    node.wait("said", "orders", times=2)
    assert truth.counter("orders").total == 3
    assert [seq for seq, _, _ in truth.journal(LANE)] == [1, 2]
    wait_for(lambda: deadlocks(truth) > before, "PostgreSQL counts the deadlock")
    assert node.facts("given_up") == node.facts("frozen") == []


def test_a_batch_that_is_the_victim_of_a_deadlock_is_written(
    truth: Truth, fresh_database: str, node: CounterNode
) -> None:
    before = deadlocks(truth)
    crossed(truth, fresh_database, lambda: node.ask("note", LANE, "orders", 2), NUMBER)
    node.wait("noted", {ROW: 2})
    assert truth.tally() == {ROW: 2}
    wait_for(lambda: deadlocks(truth) > before, "PostgreSQL counts the deadlock")
    assert node.facts("given_up") == node.facts("frozen") == []


def test_a_row_that_somebody_locks_holds_up_its_lane_alone(
    truth: Truth, fresh_database: str, node: CounterNode
) -> None:
    """For longer than a transaction may last, so that the node is cut off again and again."""
    with locked(fresh_database, COUNTER):
        node.ask("add", LANE, "orders", 2)
        first = wait_for(lambda: who_waits(truth), "the node waits for the row")
        node.ask("add", OTHER_LANE, "clicks", 5)
        node.wait("said", "clicks")
        wait_for(lambda: who_waits(truth) - first, "it was cut off, and waits on another connection")
        node.ask("add", OTHER_LANE, "clicks", 5)
        node.wait("said", "clicks", times=2)
        assert node.facts("said").count("orders") == 1, "nobody is told of what is not stored"
    node.wait("said", "orders", times=2)
    assert truth.counter("orders").total == 3
    assert [seq for seq, _, _ in truth.journal(LANE)] == [1, 2]
    assert truth.counter("clicks").total == 10
