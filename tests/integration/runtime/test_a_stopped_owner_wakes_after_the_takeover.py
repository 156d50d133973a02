"""A node that is stopped inside its transaction holds nobody up for long, and writes nothing afterwards."""

import signal
from collections.abc import Callable

from tests.integration.runtime.conftest import CounterNode, Truth, wait_for

LANE = "coordinator/0"


def test_the_old_owner_finds_that_its_run_has_ended(
    truth: Truth, start_node: Callable[..., CounterNode]
) -> None:
    old = start_node("node-1", "turn.written=stop")
    old.wait_accepted()
    old.ask("add", LANE, "orders", 5)
    wait_for(
        lambda: truth.rows("SELECT 1 FROM pg_stat_activity WHERE state = 'idle in transaction'"),
        "the old owner stands in its transaction",
    )
    new = start_node("node-2")
    new.wait_accepted()
    new.ask("add", LANE, "orders", 1)
    new.wait("said", "orders")
    assert truth.counter("orders").total == 1
    assert [row[0] for row in truth.rows("SELECT ended FROM node_session WHERE node = 'node-1'")] == [True]

    old.signal(signal.SIGCONT)
    old.wait("given_up", LANE)
    new.ask("add", LANE, "orders", 1)
    new.wait("said", "orders", times=2)
    assert old.facts("said") == []
    assert truth.counter("orders").total == 2
    assert len(truth.journal(LANE)) == 2
    # It goes on as a new run, which the other one sees as a healthy peer.
    wait_for(
        lambda: truth.rows("SELECT 1 FROM node_session WHERE node = 'node-1' AND NOT ended"),
        "a new run begins",
    )


def test_a_stopped_node_is_judged_hung_and_answers_nothing_and_a_dead_one_crashed(
    truth: Truth, start_node: Callable[..., CounterNode]
) -> None:
    stopped = start_node("node-1")
    stopped.wait_accepted()
    stopped.ask("add", LANE, "orders", 1)
    stopped.wait("said", "orders")
    heir = start_node("node-2")
    wait_for(
        lambda: truth.rows("SELECT 1 FROM node_session WHERE node = 'node-2' AND renewals > 2"), "it renews"
    )
    stopped.signal(signal.SIGSTOP)
    heir.wait_accepted()
    epochs = dict(truth.rows("SELECT name, epoch FROM lease"))
    assert set(epochs.values()) == {2}

    third = start_node("node-3")
    wait_for(
        lambda: truth.rows("SELECT 1 FROM node_session WHERE node = 'node-3' AND renewals > 2"), "it renews"
    )
    heir.kill()
    third.wait_accepted()
    assert set(dict(truth.rows("SELECT name, epoch FROM lease")).values()) == {3}
    third.ask("add", LANE, "orders", 1)
    third.wait("said", "orders")
    # It remembers a total for which it needs no database, and its run ended long ago.
    stopped.ask("add", LANE, "orders", 0)
    stopped.signal(signal.SIGCONT)
    stopped.wait("given_up", LANE)
    assert stopped.facts("said") == ["orders"], "it answers nothing from what it remembers"


def test_a_drained_node_gives_all_away_and_ends(truth: Truth, start_node: Callable[..., CounterNode]) -> None:
    leaving = start_node("node-1")
    leaving.wait_accepted()
    staying = start_node("node-2")
    wait_for(
        lambda: truth.rows("SELECT 1 FROM node_session WHERE node = 'node-2' AND renewals > 2"), "it renews"
    )
    leaving.ask("add", LANE, "orders", 1)
    leaving.wait("said", "orders")
    leaving.ask("drain")
    assert leaving.end() == 0
    [(address,)] = truth.rows("SELECT addresses ->> 'websocket' FROM node_session WHERE node = 'node-2'")
    assert set(leaving.facts("to")) == {address}
    staying.wait_accepted()
    assert {row[0] for row in truth.rows("SELECT epoch FROM lease")} == {2}
    assert truth.rows("SELECT ended FROM node_session WHERE node = 'node-1'") == [(True,)]
