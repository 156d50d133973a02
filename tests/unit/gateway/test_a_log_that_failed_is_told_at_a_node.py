"""Metadata at a node names replicas whose log failed on a broker that lives, as soon as its row says so."""

from typing import Any

from gateway.translation.cluster import FailedLogs
from muster.kafkawire.api_table import ApiKey
from tests.unit.coordinator.shards import eventually
from tests.unit.gateway.doors import ORDERS, Door, Peer, kafka_door


async def offline(peer: Peer) -> list[tuple[int, ...]]:
    body: Any = await peer.ask(
        ApiKey.METADATA,
        12,
        topics=None,
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=False,
    )
    return [tuple(one.offline_replicas) for one in body.topics[0].partitions]


async def woken(door: Door, *failed: FailedLogs) -> None:
    """Some log was told otherwise, and a wake-up says that there is something to read."""
    door.node.learnt = (*door.node.learnt[:4], list(failed))
    looks = door.listener._cluster.looks
    door.listener._cluster.woken("logs")
    await eventually(lambda: door.listener._cluster.looks > looks)


async def test_it_is_told_when_its_row_is_written_and_no_more_when_that_is_gone() -> None:
    async with kafka_door() as door:
        ann = await door.peer()
        assert await offline(ann) == [(), ()]
        await woken(door, FailedLogs(1, ORDERS, (1,)))
        assert await offline(ann) == [(), (1,)]
        await woken(door)
        assert await offline(ann) == [(), ()]
