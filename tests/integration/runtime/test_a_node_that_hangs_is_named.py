"""Who looks at the cluster sees which node fell silent and since when, and which version each one runs."""

import signal
from collections.abc import Callable

import pytest

from controller import findings, processes
from kafkaserver.version import own_version
from tests.integration.runtime.conftest import CounterNode, Truth, wait_for


def states() -> dict[str, str]:
    return {one.name: one.state for one in processes.running()}


def found() -> list[findings.Finding]:
    return findings.of_nodes(processes.running())


@pytest.fixture
def both(truth: Truth, start_node: Callable[..., CounterNode]) -> list[CounterNode]:
    nodes = [start_node(name) for name in ("node-1", "node-2")]
    wait_for(lambda: states() == {"node-1": "live", "node-2": "live"}, "both run")
    return nodes


def test_a_stopped_node_is_silent_until_it_goes_on(both: list[CounterNode], truth: Truth) -> None:
    assert {one.version for one in processes.running()} == {own_version()}
    both[1].signal(signal.SIGSTOP)
    wait_for(lambda: states() == {"node-1": "live", "node-2": "silent"}, "the other one is seen to be silent")
    [finding] = found()
    [(heard,)] = truth.rows(
        "SELECT max(coalesce(renewed_at, started_at)) FROM node_session WHERE node = 'node-2'"
    )
    assert (finding.kind, finding.facts["names"], finding.since) == ("node_silent", ["node-2"], heard)
    wait_for(
        lambda: truth.rows("SELECT 1 FROM node_session WHERE node = 'node-2' AND ended"), "its run is ended"
    )
    assert states()["node-2"] == "silent", "that others took its place tells nothing of how it is"
    both[1].signal(signal.SIGCONT)
    wait_for(lambda: states() == {"node-1": "live", "node-2": "live"}, "it begins a new run")
    assert found() == []


def test_a_node_that_leaves_in_order_is_missed_by_nobody(both: list[CounterNode]) -> None:
    both[1].ask("drain")
    assert both[1].end() == 0
    wait_for(lambda: states() == {"node-1": "live"}, "it is gone")
    assert found() == []


def test_a_node_that_is_killed_is_told_for_some_hours(both: list[CounterNode], truth: Truth) -> None:
    both[1].kill()
    wait_for(found, "it is seen to be silent")
    both[0].kill()
    wait_for(lambda: set(states().values()) == {"silent"}, "none is left")
    assert found() == [], "then leases without owner are what is told"
    truth.rows(
        "UPDATE node_session SET renewed_at = renewed_at - interval '12 hours',"
        " started_at = started_at - interval '12 hours' RETURNING run"
    )
    assert states() == {}
