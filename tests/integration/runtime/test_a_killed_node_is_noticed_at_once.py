"""The system closes a killed process's connections: its peers hear that, and do not wait to be sure."""

from collections.abc import Callable

from tests.integration.runtime.conftest import CounterNode, Truth, wait_for
from tests.integration.runtime.counter_node import LANES

LANE = "coordinator/0"


def beside(owner: CounterNode, truth: Truth, start_node: Callable[..., CounterNode]) -> CounterNode:
    """A second node, when it watches the owner's connection."""
    owner.wait_accepted()
    heir = start_node("node-2")
    # The heir's connection at the owner's door.
    owner.wait("met_at_door")
    wait_for(
        lambda: truth.rows("SELECT 1 FROM node_session WHERE node = 'node-2' AND renewals > 2"), "it renews"
    )
    return heir


def run_of(node: CounterNode) -> str:
    node.ask("run")
    node.wait("run")
    return str(node.facts("run")[-1])


def test_leases_of_a_killed_node_are_taken_without_a_second_look(
    truth: Truth, start_node: Callable[..., CounterNode]
) -> None:
    owner = start_node("node-1")
    heir = beside(owner, truth, start_node)
    owner.ask("add", LANE, "orders", 1)
    owner.wait("said", "orders")
    run = run_of(owner)

    owner.kill()
    heir.wait_accepted()
    assert heir.facts("refused") == [run]
    heir.ask("ended")
    heir.wait("ended", {"gone": 1.0, "crashed": None, "hung": None})
    heir.ask("add", LANE, "orders", 1)
    heir.wait("said", "orders")
    assert truth.counter("orders").total == 2
    assert {epoch for (epoch,) in truth.rows("SELECT epoch FROM lease")} == {2}


def test_a_node_whose_door_is_closed_and_whose_session_lives_keeps_its_leases(
    truth: Truth, start_node: Callable[..., CounterNode]
) -> None:
    owner = start_node("node-1")
    heir = beside(owner, truth, start_node)
    owners = truth.rows("SELECT name, run, epoch FROM lease ORDER BY name")
    run = run_of(owner)

    owner.ask("close")
    heir.wait("refused", run)
    # It looked many times since, quickly at first.
    heir.wait("watched", [run], times=len(heir.facts("watched")) + 30)
    assert truth.rows("SELECT name, run, epoch FROM lease ORDER BY name") == owners
    assert heir.facts("accepted") == []
    owner.ask("add", LANE, "orders", 1)
    owner.wait("said", "orders")
    assert set(owner.facts("accepted")) == set(LANES) and owner.facts("given_up") == []


def test_a_node_whose_door_was_closed_is_judged_by_two_looks(
    truth: Truth, start_node: Callable[..., CounterNode]
) -> None:
    """What was heard of its door is a second old when it dies, and proves nothing any more."""
    owner = start_node("node-1")
    heir = beside(owner, truth, start_node)
    run = run_of(owner)
    owner.ask("close")
    heir.wait("refused", run)
    heir.wait("watched", [run], times=len(heir.facts("watched")) + 30)

    owner.kill()
    heir.wait_accepted()
    heir.ask("ended")
    heir.wait("ended", {"gone": None, "crashed": 1.0, "hung": None})
