"""What a late loop slept through is given back to a shard at once; after a long stop members are asked."""

from collections.abc import Iterator

import pytest

from coordinator.subject import HASTEN_PINGS_MS
from muster.messages.member import PingRequest
from tests.simulation.native.cluster import Cluster
from tests.simulation.native.node import Node
from tests.simulation.native.runner import simulated
from tests.simulation.native.world import SESSION_MS
from tests.unit.coordinator import shards
from tests.unit.coordinator.shards import Shards, eventually, readers

KEY = "readers"


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


def ping_numbers(node: Node) -> dict[str, int]:
    assert node.state is not None
    return {member: session.ping_number for member, session in node.state.memory.sessions.items()}


def test_a_stop_is_given_back_without_a_turn(settled: Cluster) -> None:
    node = settled.owner
    assert node is not None
    before, state = node.decision, node.state
    node.loop.perform(node.service.thaw, 4 * HASTEN_PINGS_MS)
    settled.world.run_until(settled.world.now + 10)
    assert node.decision is before
    assert node.state is state


def test_after_a_long_stop_everybody_is_asked_at_once(settled: Cluster) -> None:
    node, world = settled.owner, settled.world
    assert node is not None
    node.pause()
    world.run_until(world.now + 4 * HASTEN_PINGS_MS)
    before = ping_numbers(node)
    node.go_on()
    world.run_until(world.now + 10)
    after = ping_numbers(node)
    assert all(after[member] > before[member] for member in ("ann", "ben"))


def test_many_hiccups_let_no_members_clock_run_out(settled: Cluster) -> None:
    """A loop that is late half of the time would ping at half the pace, and members count all of it."""
    node, world = settled.owner, settled.world
    assert node is not None
    before, until = ping_numbers(node), world.now + 3 * SESSION_MS
    while world.now < until:
        node.pause()
        world.run_until(world.now + HASTEN_PINGS_MS // 2)
        node.go_on()
        world.run_until(world.now + HASTEN_PINGS_MS // 2)
        assert all(process.session.may_fetch(process.clock.now()) for process in settled.processes)
        assert all(process.fetchers for process in settled.processes)
    after = ping_numbers(node)
    assert all(after[member] - before[member] >= 7 for member in ("ann", "ben"))


async def test_whose_turn_was_being_written_during_a_stop_is_pinged_in_time_as_well(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A third of it is longer than anybody waits here.
    monkeypatch.setattr(shards, "SESSION_MS", 60_000)
    async with Shards([readers(ann=[0])]) as rig:
        service = await rig.serve(KEY)
        ann = await rig.registered(KEY, "ann")
        rig.store.gate.clear()
        await rig.finish(KEY, {"ann": [0]})
        await eventually(rig.store.at_the_gate.is_set)
        state = service._groups.states[KEY]
        service.thaw(60_000)
        assert service._groups.states[KEY] is state
        rig.store.gate.set()
        await eventually(lambda: any(isinstance(one, PingRequest) for one in ann.said))


async def test_a_group_that_left_the_cache_leaves_nothing_of_it_behind() -> None:
    """Anybody may name any group; what is loaded again begins anew."""
    async with Shards([readers(ann=[0])]) as rig:
        service = await rig.serve(KEY)
        await rig.registered(KEY, "ann")
        service.thaw(60_000)
        await eventually(lambda: KEY in service._groups._made_up_ms)
        service._groups.drop(KEY)
        assert not service._groups._made_up_ms
