"""A leader that asks its node for partitions is told of all that any member could have heard from a broker.

librdkafka joins anew when a broker tells of more partitions, asks its coordinator, and assigns what it says:
told of fewer there it would never look again, and nobody would read the new ones.
"""

from typing import Any
from uuid import UUID

import pytest

from muster.kafkawire.api_table import ApiKey, part, request_class
from runtime.ports import ConnectionLost
from tests.unit.gateway.doors import Door, Peer, kafka_door

CLICKS = UUID(int=2)
NONE, UNKNOWN, REBALANCE_IN_PROGRESS = 0, 3, 27


def asks_of(peer: Peer, topic: str) -> None:
    named = part(request_class(ApiKey.METADATA, 12), "MetadataRequestTopic")
    peer.send(
        ApiKey.METADATA,
        12,
        topics=(named(topic_id=None, name=topic),),
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=False,
    )


async def told_of(peer: Peer, topic: str) -> int:
    """What is said of a topic, by its error code."""
    asks_of(peer, topic)
    body: Any = await peer.hear()
    return int(body.topics[0].error_code)


async def partitions_told(peer: Peer, topic: str) -> int:
    asks_of(peer, topic)
    body: Any = await peer.hear()
    return len(body.topics[0].partitions)


async def leader_of(door: Door) -> tuple[Peer, Any]:
    """A member that was told to assign."""
    ann = await door.peer()
    joined = await ann.joins()
    assert joined.leader == joined.member_id
    return ann, joined


async def test_a_leader_is_told_of_what_was_made_before_it_was_told_to_assign() -> None:
    async with kafka_door() as door:
        ann, _ = await leader_of(door)
        door.node.learns_of("clicks", CLICKS)
        assert await told_of(ann, "clicks") == NONE


async def test_each_time_that_it_is_told_to_assign() -> None:
    async with kafka_door() as door:
        ann, joined = await leader_of(door)
        assert await told_of(ann, "clicks") == UNKNOWN
        door.node.learns_of("clicks", CLICKS)
        ann.sends_join(member_id=joined.member_id)
        assert (await ann.hear()).leader == joined.member_id
        assert await told_of(ann, "clicks") == NONE


async def test_nothing_is_read_anew_where_nothing_was_decided_since() -> None:
    async with kafka_door() as door:
        ann, _ = await leader_of(door)
        assert await told_of(ann, "orders") == NONE
        assert door.node.looks == 0


async def test_a_leader_that_asks_once_more_and_whoever_leads_no_group_hear_what_is_known() -> None:
    async with kafka_door() as door:
        ann, _ = await leader_of(door)
        before = await partitions_told(ann, "orders")
        door.node.adds_a_partition("orders")
        assert await partitions_told(ann, "orders") == before
        assert await partitions_told(await door.peer(), "orders") == before
        assert door.node.looks == 0


async def assigns(peer: Peer, joined: Any) -> int:
    """What a leader hears who gives itself everything, by its error code."""
    return int((await peer.syncs(joined, **{joined.member_id: b"all"})).error_code)


async def joins_again(peer: Peer, joined: Any) -> Any:
    peer.sends_join(member_id=joined.member_id)
    return await peer.hear()


async def test_without_a_database_a_leader_hears_what_is_known_and_what_it_assigns_does_not_count() -> None:
    async with kafka_door() as door:
        ann, joined = await leader_of(door)
        door.node.learns_of("clicks", CLICKS)
        door.node.fails_with = ConnectionLost("gone")
        assert await told_of(ann, "clicks") == UNKNOWN
        door.node.fails_with = None
        assert await assigns(ann, joined) == REBALANCE_IN_PROGRESS
        joined = await joins_again(ann, joined)
        assert await told_of(ann, "clicks") == NONE
        assert await assigns(ann, joined) == NONE


async def test_a_database_that_never_answers_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.cluster.CATCH_UP_S", 0.01)
    async with kafka_door() as door:
        ann, joined = await leader_of(door)
        door.node.may_look.clear()
        assert await told_of(ann, "orders") == NONE
        door.node.may_look.set()
        assert await assigns(ann, joined) == REBALANCE_IN_PROGRESS


async def test_a_leader_that_asks_elsewhere_assigns_by_what_it_knows() -> None:
    async with kafka_door() as door:
        ann, joined = await leader_of(door)
        door.node.fails_with = ConnectionLost("gone")
        assert await told_of(ann, "orders") == NONE
        door.node.fails_with = None
        joined = await joins_again(ann, joined)
        assert await assigns(ann, joined) == NONE


async def test_a_leader_that_hangs_up_meanwhile_is_waited_for_by_nothing() -> None:
    async with kafka_door() as door:
        ann, _ = await leader_of(door)
        door.node.may_look.clear()
        asks_of(ann, "orders")
        ann.close()
        door.node.may_look.set()
        assert await told_of(await door.peer(), "orders") == NONE
