"""What a late loop slept through is given back to a shard at once; after a long stop members are asked."""

from collections.abc import Iterator

import pytest

from coordinator.service import HASTEN_PINGS_MS
from tests.simulation.native.cluster import Cluster
from tests.simulation.native.runner import simulated
from tests.simulation.native.world import SESSION_MS


@pytest.fixture
def settled() -> Iterator[Cluster]:
    """Two members of one group, and nothing that goes wrong."""
    with simulated(1) as cluster:
        cluster.world.quiet = True
        for name in ("ann", "ben"):
            cluster.start(name)
        while cluster.why_unsettled():
            assert cluster.world.now < 60_000, cluster.why_unsettled()
            cluster.world.run_until(cluster.world.now + 250)
        yield cluster


def test_a_hiccup_decides_nothing(settled: Cluster) -> None:
    node = settled.owner
    assert node is not None
    before = node.decision
    node.loop.perform(node.service.thaw, HASTEN_PINGS_MS - 1)
    assert node.decision is before


def test_after_a_long_stop_everybody_is_asked_at_once(settled: Cluster) -> None:
    node, world = settled.owner, settled.world
    assert node is not None
    node.pause()
    world.run_until(world.now + 4 * HASTEN_PINGS_MS)
    assert node.state is not None and node.service._lane is not None
    before = {member: session.ping_number for member, session in node.state.memory.sessions.items()}
    node.go_on()
    world.run_until(world.now + 10)
    after = {member: session.ping_number for member, session in node.state.memory.sessions.items()}
    assert all(after[member] > before[member] for member in ("ann", "ben"))


def test_many_hiccups_let_no_members_clock_run_out(settled: Cluster) -> None:
    """A loop that is late half of the time pings at half the pace, and members count all of it."""
    node, world = settled.owner, settled.world
    assert node is not None
    until = world.now + 3 * SESSION_MS
    while world.now < until:
        node.pause()
        world.run_until(world.now + HASTEN_PINGS_MS // 2)
        node.go_on()
        world.run_until(world.now + HASTEN_PINGS_MS // 2)
        assert all(process.session.may_fetch(process.clock.now()) for process in settled.processes)
        assert all(process.fetchers for process in settled.processes)
