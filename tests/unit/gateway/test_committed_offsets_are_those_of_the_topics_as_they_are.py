"""What a group has committed is told, and taken away, by the topics of now.

A node that has not read of one yet would tell its members that nothing is committed, and of one that was made
anew what was read of the one before.
"""

import asyncio
from typing import Any
from uuid import UUID

import pytest

from groups.core.state import GroupRows
from muster.kafkawire.api_table import ApiKey, part, request_class
from muster.messages.partitions import Partition
from runtime.ports import ConnectionLost
from tests.unit.gateway.doors import KEY, ORDERS, Peer, kafka_door

CLICKS = UUID(int=2)
NONE, UNKNOWN_TOPIC, NOT_COORDINATOR = 0, 3, 16
NOTHING = -1


def of(**offsets: int) -> GroupRows:
    """A group that has committed these of the first partitions of topics."""
    ids = {"orders": ORDERS, "clicks": CLICKS}
    return GroupRows(
        KEY, version=1, offsets={Partition(name, ids[name], 0): offset for name, offset in offsets.items()}
    )


def asks_for(peer: Peer, *topics: str) -> None:
    group = part(request_class(ApiKey.OFFSET_FETCH, 8), "OffsetFetchRequestGroup")
    named = part(request_class(ApiKey.OFFSET_FETCH, 8), "OffsetFetchRequestTopics")
    wanted = tuple(named(name=one, partition_indexes=(0,)) for one in topics) or None
    peer.send(ApiKey.OFFSET_FETCH, 8, groups=(group(group_id=KEY, topics=wanted),), require_stable=False)


async def told(peer: Peer) -> dict[str, int] | int:
    """The offsets by topic; or why there are none."""
    (group,) = (await peer.hear()).groups
    offsets = {topic.name: topic.partitions[0].committed_offset for topic in group.topics}
    return int(group.error_code) or offsets


async def commits_to(peer: Peer, topic: str, offset: int) -> int:
    """What an OffsetCommit of somebody who is no member hears, by its error code."""
    shape = request_class(ApiKey.OFFSET_COMMIT, 9)
    place, named = part(shape, "OffsetCommitRequestPartition"), part(shape, "OffsetCommitRequestTopic")
    one = place(partition_index=0, committed_offset=offset, committed_leader_epoch=-1, committed_metadata="")
    body: Any = await peer.ask(
        ApiKey.OFFSET_COMMIT,
        9,
        group_id=KEY,
        generation_id_or_member_epoch=-1,
        member_id="",
        group_instance_id=None,
        topics=(named(name=topic, partitions=(one,)),),
    )
    return int(body.topics[0].partitions[0].error_code)


async def forgets(peer: Peer, topic: str) -> int:
    """What an OffsetDelete hears, by its error code."""
    shape = request_class(ApiKey.OFFSET_DELETE, 0)
    place, named = part(shape, "OffsetDeleteRequestPartition"), part(shape, "OffsetDeleteRequestTopic")
    asked = (named(name=topic, partitions=(place(partition_index=0),)),)
    body: Any = await peer.ask(ApiKey.OFFSET_DELETE, 0, group_id=KEY, topics=asked)
    assert int(body.error_code) == NONE
    return int(body.topics[0].partitions[0].error_code)


@pytest.mark.parametrize("asked", [("orders", "clicks"), ()])
async def test_an_offset_that_another_node_took_is_told_before_this_one_has_read_of_its_topic(
    asked: tuple[str, ...],
) -> None:
    async with kafka_door(stored=[of(orders=5, clicks=7)]) as door:
        ann = await door.peer()
        door.node.learns_of("clicks", CLICKS)
        asks_for(ann, *asked)
        assert await told(ann) == {"orders": 5, "clicks": 7}


async def test_of_a_topic_that_was_made_anew_nothing_of_the_one_before_is_told() -> None:
    async with kafka_door(stored=[of(orders=5)]) as door:
        ann = await door.peer()
        door.node.loses("orders")
        door.node.learns_of("orders", CLICKS)
        asks_for(ann, "orders")
        assert await told(ann) == {"orders": NOTHING}


@pytest.mark.parametrize("commits", [1, 3])
async def test_a_commit_to_a_node_that_knows_the_topic_of_before_counts_for_no_topic_made_since(
    commits: int,
) -> None:
    """Said again and again it is known by its bytes, and finds its partitions by what was read before."""
    async with kafka_door(stored=[of(orders=5)]) as door:
        ann = await door.peer()
        for offset in range(10, 9 + commits):
            assert await commits_to(ann, "orders", offset) == NONE
        door.node.loses("orders")
        door.node.learns_of("orders", CLICKS)
        assert await commits_to(ann, "orders", 9 + commits) == NONE
        assert door.shards.rows(KEY).offsets == {Partition("orders", ORDERS, 0): 9 + commits}
        asks_for(ann, "orders")
        assert await told(ann) == {"orders": NOTHING}

        assert await commits_to(ann, "orders", 1) == NONE
        asks_for(ann, "orders")
        assert await told(ann) == {"orders": 1}


async def test_nothing_is_read_anew_where_nothing_was_decided_since() -> None:
    async with kafka_door(stored=[of(orders=5)]) as door:
        ann = await door.peer()
        asks_for(ann, "orders")
        assert await told(ann) == {"orders": 5}
        assert (door.node.glances, door.node.looks) == (1, 0)


async def test_thousands_who_ask_at_once_are_told_by_two_reads() -> None:
    async with kafka_door(stored=[of(orders=5)]) as door:
        peers = [await door.peer() for _ in range(20)]
        door.node.may_look.clear()
        asks_for(peers[0], "orders")
        async with asyncio.timeout(10):
            while not door.node.glances:
                await asyncio.sleep(0.001)
        for peer in peers[1:]:
            asks_for(peer, "orders")
        decided = door.listener._cluster._decided
        async with asyncio.timeout(10):
            while decided._asked < len(peers):
                await asyncio.sleep(0.001)
        door.node.may_look.set()
        assert [await told(peer) for peer in peers] == [{"orders": 5}] * len(peers)
        assert (door.node.glances, door.node.looks) == (2, 0)


async def test_who_cannot_know_says_nothing() -> None:
    async with kafka_door(stored=[of(orders=5)]) as door:
        ann = await door.peer()
        door.node.fails_with = ConnectionLost("the database is away")
        asks_for(ann, "orders")
        assert await told(ann) == NOT_COORDINATOR
        door.node.fails_with = None
        asks_for(ann, "orders")
        assert await told(ann) == {"orders": 5}


async def test_an_offset_is_deleted_of_a_topic_that_this_node_has_not_read_of() -> None:
    async with kafka_door(stored=[of(clicks=7)]) as door:
        ann = await door.peer()
        assert await forgets(ann, "clicks") == UNKNOWN_TOPIC
        door.node.learns_of("clicks", CLICKS)
        assert await forgets(ann, "clicks") == NONE
        asks_for(ann, "clicks")
        assert await told(ann) == {"clicks": NOTHING}


async def test_a_topic_that_is_named_twice_is_told_once_and_one_without_partitions_is_told() -> None:
    fetch, commit, delete = (
        request_class(key, version)
        for key, version in ((ApiKey.OFFSET_FETCH, 8), (ApiKey.OFFSET_COMMIT, 9), (ApiKey.OFFSET_DELETE, 0))
    )
    async with kafka_door(stored=[of(orders=5)]) as door:
        ann = await door.peer()
        named = part(fetch, "OffsetFetchRequestTopics")
        wanted = (
            named(name="orders", partition_indexes=(1,)),
            named(name="clicks", partition_indexes=()),
            named(name="orders", partition_indexes=(0, 0, 1)),
        )
        group = part(fetch, "OffsetFetchRequestGroup")(group_id=KEY, topics=wanted)
        (found,) = (await ann.ask(ApiKey.OFFSET_FETCH, 8, groups=(group,), require_stable=False)).groups
        assert [(one.name, sorted(p.partition_index for p in one.partitions)) for one in found.topics] == [
            ("orders", [0, 0, 1, 1]),
            ("clicks", []),
        ]

        nothing = part(commit, "OffsetCommitRequestTopic")(name="clicks", partitions=())
        who = {"group_id": KEY, "generation_id_or_member_epoch": -1, "member_id": ""}
        body: Any = await ann.ask(ApiKey.OFFSET_COMMIT, 9, **who, group_instance_id=None, topics=(nothing,))
        assert [(one.name, one.partitions) for one in body.topics] == [("clicks", ())]

        place, topic = part(delete, "OffsetDeleteRequestPartition"), part(delete, "OffsetDeleteRequestTopic")
        twice = (place(partition_index=0), place(partition_index=0))
        asked = (topic(name="orders", partitions=twice), topic(name="clicks", partitions=()))
        body = await ann.ask(ApiKey.OFFSET_DELETE, 0, group_id=KEY, topics=asked)
        assert [(one.name, [p.partition_index for p in one.partitions]) for one in body.topics] == [
            ("orders", [0])
        ]
