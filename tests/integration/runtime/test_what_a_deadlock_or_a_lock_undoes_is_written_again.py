"""PostgreSQL undoes what is in a deadlock, and ends what waits too long: it is decided and written again."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import LiteralString

import psycopg
import pytest

from standalone.postgres import Postgres
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


def deadlocks(truth: Truth) -> int:
    [(count,)] = truth.rows("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
    return int(count)


def crossed(
    truth: Truth,
    url: str,
    lock: LiteralString,
    await_done: Callable[[int], None],
    ask: Callable[[int], None],
) -> int:
    """Somebody holds `lock`, the node comes to wait for it, and then he wants the fence that the node holds.

    He never looks whether there is a deadlock, so that the node is undone. On a slow machine it has looked
    before he came: that is done again, until PostgreSQL has counted one. Returns how often.

    What was undone is done first: he would hold the lock that it needs, until the node gives it up. And
    PostgreSQL may count a deadlock some time after it has undone somebody.
    """
    before, times = deadlocks(truth), 0
    while deadlocks(truth) == before:
        times += 1
        await_done(times)
        with locked(url, lock) as somebody:
            somebody.execute("SET LOCAL deadlock_timeout = '10min'")
            ask(times)
            wait_for(lambda: who_waits(truth), "the node waits")
            somebody.execute(FENCE)
    return times


@pytest.fixture
def superuser_url(fresh_database: str, postgres_server: Postgres) -> str:
    return postgres_server.superuser_url(fresh_database.rpartition("/")[2])


def test_a_turn_that_is_the_victim_of_a_deadlock_is_written_once(
    truth: Truth, superuser_url: str, node: CounterNode
) -> None:
    def await_said(times: int) -> None:
        node.wait("said", "orders", times=times)

    times = crossed(truth, superuser_url, COUNTER, await_said, lambda _: node.ask("add", LANE, "orders", 2))
    await_said(1 + times)
    assert truth.counter("orders").total == 1 + 2 * times
    assert [seq for seq, _, _ in truth.journal(LANE)] == list(range(1, 2 + times))
    assert node.facts("given_up") == node.facts("frozen") == []


def test_a_batch_that_is_the_victim_of_a_deadlock_is_written(
    truth: Truth, superuser_url: str, node: CounterNode
) -> None:
    def await_noted(number: int) -> None:
        node.wait("noted", {ROW: number})

    times = crossed(
        truth,
        superuser_url,
        NUMBER,
        await_noted,
        lambda times: node.ask("note", LANE, "orders", 1 + times),
    )
    await_noted(1 + times)
    assert truth.tally() == {ROW: 1 + times}
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
