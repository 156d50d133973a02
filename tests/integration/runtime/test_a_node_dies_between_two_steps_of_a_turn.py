"""A kill -9 between any two steps leaves a turn whole or absent, and never a word without its rows."""

from collections.abc import Callable

import pytest

from tests.integration.runtime.conftest import CounterNode, Truth

LANE = "coordinator/0"
BEFORE_COMMIT = ["turn.begin", "turn.fenced", "turn.written", "turn.journalled"]
AFTER_COMMIT = ["turn.committed", "turn.speak", "turn.spoken"]


@pytest.mark.parametrize("step", BEFORE_COMMIT + AFTER_COMMIT)
def test_the_next_node_finds_the_turn_whole_or_absent(
    truth: Truth, start_node: Callable[..., CounterNode], step: str
) -> None:
    dying = start_node("node-1", f"{step}=exit")
    dying.wait_accepted()
    dying.ask("add", LANE, "orders", 5)
    assert dying.end() == -9
    expected = 5 if step in AFTER_COMMIT else 0
    assert truth.counter("orders").total == expected
    assert len(truth.journal(LANE)) == (1 if expected else 0)
    assert bool(dying.facts("said")) <= bool(expected)

    heir = start_node("node-2")
    heir.wait_accepted()
    heir.ask("add", LANE, "orders", 1)
    heir.wait("said", "orders")
    assert truth.counter("orders").total == expected + 1
    assert [seq for seq, _, _ in truth.journal(LANE)] == list(range(1, len(truth.journal(LANE)) + 1))
