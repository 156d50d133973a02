"""A client commits for a topic that it knows before its node does: the node looks again before it refuses."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID

import pytest

from muster.kafkawire.api_table import ApiKey, part, request_class
from runtime import clock
from runtime.ports import ConnectionLost
from tests.unit.coordinator.shards import eventually
from tests.unit.gateway.doors import KEY, Door, Peer, kafka_door

CLICKS = UUID(int=2)
UNKNOWN, NOT_AVAILABLE = 3, 15


def commits(peer: Peer, **offsets: int) -> None:
    """Ask to commit offsets of the first partitions of some topics, as nobody's member."""
    shape = request_class(ApiKey.OFFSET_COMMIT, 9)
    place, named = part(shape, "OffsetCommitRequestPartition"), part(shape, "OffsetCommitRequestTopic")
    peer.send(
        ApiKey.OFFSET_COMMIT,
        9,
        group_id=KEY,
        generation_id_or_member_epoch=-1,
        member_id="",
        group_instance_id=None,
        topics=tuple(
            named(
                name=topic,
                partitions=(
                    place(
                        partition_index=0,
                        committed_offset=offset,
                        committed_leader_epoch=-1,
                        committed_metadata="",
                    ),
                ),
            )
            for topic, offset in offsets.items()
        ),
    )


async def told(peer: Peer) -> dict[str, int]:
    body: Any = await peer.hear()
    return {topic.name: int(one.error_code) for topic in body.topics for one in topic.partitions}


def committed(door: Door) -> dict[str, int]:
    rows = door.shards.database.tables["groups"].get(KEY)
    return {one.topic: offset for one, offset in rows.offsets.items()} if rows else {}


async def test_a_commit_for_a_topic_that_was_just_made_is_taken() -> None:
    async with kafka_door() as door:
        ann = await door.peer()
        door.node.learns_of("clicks", CLICKS)
        commits(ann, orders=5, clicks=7)
        assert await told(ann) == {"orders": 0, "clicks": 0}
        assert committed(door) == {"orders": 5, "clicks": 7}


async def test_what_is_known_is_committed_meanwhile_and_nothing_overtakes_the_rest() -> None:
    async with kafka_door() as door:
        ann = await door.peer()
        door.node.learns_of("clicks", CLICKS)
        door.node.may_look.clear()
        commits(ann, orders=5, clicks=7)
        await eventually(lambda: committed(door) == {"orders": 5})
        commits(ann, orders=6)
        await eventually(lambda: committed(door) == {"orders": 6})
        door.node.may_look.set()
        assert (await told(ann), await told(ann)) == ({"orders": 0, "clicks": 0}, {"orders": 0})
        assert committed(door) == {"orders": 6, "clicks": 7}


async def test_whoever_asks_for_what_nobody_knows_has_it_looked_for_once_between_two_ticks() -> None:
    async with kafka_door() as door:
        peers = [await door.peer() for _ in range(4)]
        commits(peers[0], nowhere=1)
        assert await told(peers[0]) == {"nowhere": UNKNOWN}
        assert door.node.looks == 1
        for peer in peers:
            commits(peer, nowhere=1, orders=2)
        parked = door.listener._cluster._waiting
        await eventually(lambda: len(parked) == len(peers))
        assert door.node.looks == 1
        door.node.learns_of("nowhere", CLICKS)
        door.listener._cluster._read_at = clock.now()
        door.listener.tick(clock.now())
        assert [await told(peer) for peer in peers] == [{"nowhere": 0, "orders": 0}] * len(peers)
        assert door.node.looks == 2


@pytest.mark.parametrize("why", [ConnectionLost("the database is away"), LookupError("our own mistake")])
async def test_who_cannot_look_does_not_say_that_there_is_no_such_topic(why: Exception) -> None:
    async with kafka_door() as door:
        ann = await door.peer()
        door.node.learns_of("clicks", CLICKS)
        door.node.fails_with = why
        commits(ann, orders=6, clicks=7)
        assert await told(ann) == {"orders": 0, "clicks": NOT_AVAILABLE}
        door.node.fails_with = None
        # What is asked for again meanwhile waits for the next tick.
        commits(ann, clicks=7)
        door.listener.tick(clock.now())
        assert await told(ann) == {"clicks": 0}


async def test_who_hangs_up_while_it_is_looked_for_leaves_nothing_behind() -> None:
    async with kafka_door() as door:
        ann, ben = await door.peer(), await door.peer()
        door.node.learns_of("clicks", CLICKS)
        door.node.may_look.clear()
        commits(ann, clicks=7)
        await eventually(lambda: door.node.looks == 1)
        ann.close()
        await eventually(lambda: door.listener.server.connection_count == 1)
        door.node.may_look.set()
        commits(ben, clicks=8)
        assert await told(ben) == {"clicks": 0}
        assert committed(door) == {"clicks": 8}


async def test_a_mistake_of_ours_with_one_who_waits_leaves_nobody_waiting() -> None:
    async with kafka_door() as door:
        ann = await door.peer()
        door.node.learns_of("clicks", CLICKS)

        def spoilt() -> None:
            raise LookupError("our own mistake")

        door.listener._cluster._waiting.append(spoilt)
        commits(ann, clicks=7)
        assert await told(ann) == {"clicks": 0}


async def test_name_servers_that_say_nothing_keep_no_node_from_learning() -> None:
    """They are asked in the loop's threads, for each broker that is watched."""
    said, loop = threading.Event(), asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(1))
    asked = loop.run_in_executor(None, said.wait)
    try:
        async with kafka_door() as door:
            ann = await door.peer()
            door.node.learns_of("clicks", CLICKS)
            commits(ann, clicks=7)
            async with asyncio.timeout(10):
                assert await told(ann) == {"clicks": 0}
    finally:
        said.set()
        await asked
