"""Who creates a topic at a node hears when it leads, when time is over, or when it was taken away again."""

import asyncio
from uuid import UUID

from gateway.administration import NodeController, _Made
from runtime import clock
from tests.unit.gateway.doors import Door, kafka_door

CLICKS = UUID(int=2)


async def late(door: Door, partitions: int, timeout_s: float) -> set[UUID]:
    """What is made and not led, for all that this node can see within the time."""
    cluster = door.listener._cluster
    controller = NodeController(door.node, cluster)
    made = [_Made(CLICKS, "clicks", partitions)]
    until = asyncio.get_running_loop().time() + timeout_s
    waiting = asyncio.ensure_future(controller._late(made, until))
    while not waiting.done():
        await asyncio.sleep(0.01)
        door.listener.tick(clock.now())
    return waiting.result()


async def test_a_topic_that_is_deleted_at_another_door_meanwhile_is_not_waited_for() -> None:
    async with kafka_door() as door:
        async with asyncio.timeout(10):
            assert await late(door, 1, timeout_s=3_600) == set()


async def test_partitions_that_are_removed_at_another_door_meanwhile_are_not_waited_for() -> None:
    async with kafka_door() as door:
        door.node.learns_of("clicks", CLICKS)
        async with asyncio.timeout(10):
            assert await late(door, 5, timeout_s=3_600) == set()


async def test_as_long_as_nobody_can_look_it_is_waited_for() -> None:
    async with kafka_door() as door:
        door.node.may_look.clear()
        assert await late(door, 1, timeout_s=0.3) == {CLICKS}
        door.node.may_look.set()
