"""Whoever asks a node for a topic that another door was just asked to make is not told that there is none.

kafkajs makes topics at one door, asks another for their partitions, and takes an unknown topic for an answer.
"""

from typing import Any
from uuid import UUID

import pytest

from muster.kafkawire.api_table import ApiKey, part, request_class
from runtime.ports import ConnectionLost
from tests.unit.gateway.doors import Door, Peer, kafka_door

CLICKS = UUID(int=2)
NONE, UNKNOWN, INVALID, UNKNOWN_ID = 0, 3, 17, 100


def asks_of(peer: Peer, *topics: str, topic_id: UUID | None = None) -> None:
    named = part(request_class(ApiKey.METADATA, 12), "MetadataRequestTopic")
    by_id = [named(topic_id=topic_id, name=None)] if topic_id else []
    peer.send(
        ApiKey.METADATA,
        12,
        topics=(*(named(topic_id=None, name=topic) for topic in topics), *by_id),
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=False,
    )


async def hears(peer: Peer) -> list[int]:
    """What is said of each topic, by its error code."""
    body: Any = await peer.hear()
    return [int(topic.error_code) for topic in body.topics]


async def answered(door: Door, *topics: str, topic_id: UUID | None = None) -> list[int]:
    peer = await door.peer()
    asks_of(peer, *topics, topic_id=topic_id)
    return await hears(peer)


async def test_it_is_known_by_its_name() -> None:
    async with kafka_door() as door:
        door.node.learns_of("clicks", CLICKS)
        assert await answered(door, "orders", "clicks") == [NONE, NONE]


async def test_and_by_its_id() -> None:
    async with kafka_door() as door:
        door.node.learns_of("clicks", CLICKS)
        assert await answered(door, topic_id=CLICKS) == [NONE]


async def test_a_topic_that_there_is_not_costs_one_look_at_what_was_decided_last() -> None:
    async with kafka_door() as door:
        assert await answered(door, "clicks", "views") == [UNKNOWN, UNKNOWN]
        assert (door.node.glances, door.node.looks) == (1, 0)
        assert await answered(door, topic_id=CLICKS) == [UNKNOWN_ID]
        assert (door.node.glances, door.node.looks) == (2, 0)


async def test_no_look_is_for_what_no_topic_is_called() -> None:
    async with kafka_door() as door:
        assert await answered(door, "no topic", "orders") == [INVALID, NONE]
        assert door.node.glances == 0


async def test_without_a_database_a_topic_is_as_unknown_as_before() -> None:
    async with kafka_door() as door:
        door.node.fails_with = ConnectionLost("gone")
        assert await answered(door, "clicks") == [UNKNOWN]


async def test_a_database_that_never_answers_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.cluster.LOOKED_FOR_S", 0.01)
    async with kafka_door() as door:
        door.node.may_look.clear()
        assert await answered(door, "clicks") == [UNKNOWN]
        door.node.may_look.set()
