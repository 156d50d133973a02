"""Every broker knows the nodes and who holds which shard of groups, as soon as a lease has moved."""

import asyncio

from controller.service import ControllerService
from muster.kernel.instants import Instant
from muster.messages import codec
from muster.messages.link.rows import NodeRow
from muster.messages.link.to_broker import HelloAccepted, Nodes, SnapshotChunk, ToBroker
from runtime.ports import SHARD_COUNT, LiveNode, shard_lane
from tests.unit.controller_service.stage import HereAndNow, linked

ONE = LiveNode("run-1", "node-1", "ws://one", node_id=10_001, kafka="one:9092")
TWO = LiveNode("run-2", "node-2", "ws://two", node_id=10_002)


async def _said(said: "asyncio.Queue[str]") -> list[ToBroker]:
    """Everything that was said to the broker until now."""
    await asyncio.sleep(0)
    return [codec.decode_to_broker(said.get_nowait()) for _ in range(said.qsize())]


def _tick(service: ControllerService, here: HereAndNow) -> None:
    here.time = Instant(here.time + 100)
    service.tick(here.time)


async def test_a_bound_link_is_told_behind_its_snapshot_and_once() -> None:
    here = HereAndNow()
    here.nodes, here.held = (ONE, TWO), {shard_lane(3): ONE, "controller": TWO}
    service, links, said = await linked(here)
    for _ in range(3):
        _tick(service, here)
    accepted, snapshot, nodes = await _said(said)
    assert isinstance(accepted, HelloAccepted) and isinstance(snapshot, SnapshotChunk)
    assert isinstance(nodes, Nodes)
    assert nodes.nodes == (
        NodeRow("node-1", "ws://one", 10_001, "one:9092"),
        NodeRow("node-2", "ws://two", 10_002),
    )
    assert nodes.owners == (0, 0, 0, 10_001) + (0,) * (SHARD_COUNT - 4)
    links[1].hang_up("the end")


async def test_a_lease_that_moves_is_told_at_the_next_tick() -> None:
    here = HereAndNow()
    here.nodes, here.held = (ONE, TWO), {shard_lane(0): ONE}
    service, links, said = await linked(here)
    _tick(service, here)
    await _said(said)
    here.held = {shard_lane(0): TWO}
    _tick(service, here)
    (moved,) = await _said(said)
    assert isinstance(moved, Nodes) and moved.owners[0] == 10_002
    here.nodes = (TWO,)
    _tick(service, here)
    (left,) = await _said(said)
    assert isinstance(left, Nodes) and [one.node_id for one in left.nodes] == [10_002]
    links[1].hang_up("the end")


async def test_a_link_that_is_not_bound_yet_is_told_nothing() -> None:
    here = HereAndNow()
    service, links, said = await linked(here)
    assert service.cluster.memory is not None
    service.cluster.memory.sessions.clear()
    await _said(said)
    _tick(service, here)
    assert await _said(said) == []
    links[1].hang_up("the end")
