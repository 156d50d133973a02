"""Whoever asks a moment after a topic was made, or grew, hears who leads it: Kafka has none without leaders.

rskafka keeps the answer about all topics; told of a leader -1 in it, it never asks anybody again.
"""

import asyncio
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from kafkaserver import missed as room
from kafkaserver.cluster_answers import NOBODY, BrokerView, MetadataView, PartitionView, TopicView
from kafkaserver.later import Later
from kafkaserver.metadata_answers import MetadataHandler
from kafkaserver.missed import MissedBrokers
from muster.kafkawire.api_table import ApiKey
from tests.unit.kafkaserver.kafka_requests import body_of, frame, parts
from tests.unit.kafkaserver.served import served, until

ONE = BrokerView(1, "one", 9092)
LED = PartitionView(1, 1, (1, 2), (1, 2))
NEW = PartitionView(NOBODY, 0, (1, 2), ())
LEFT = PartitionView(NOBODY, 3, (1, 2), (2,))
VERSION = 4


class Door:
    """A door that tells of `orders` with these partitions."""

    def __init__(self, *partitions: PartitionView) -> None:
        self.now_s = 100.0
        self.missed = MissedBrokers(lambda: self.now_s)
        self.tell(*partitions)
        self.handle = MetadataHandler(lambda: self.view, Later(), self.missed).handle

    def tell(self, *partitions: PartitionView) -> None:
        self.view = MetadataView.of("cluster-1", (ONE,), [TopicView("orders", UUID(int=1), partitions)])
        self.missed.see(self.view)


class Ann:
    """A client of the door."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    def ask(self, *names: str) -> None:
        topics: Any = [parts(ApiKey.METADATA, VERSION, "MetadataRequestTopic", name=one) for one in names]
        asked = frame(ApiKey.METADATA, VERSION, topics=tuple(topics) or None)
        self._writer.write(len(asked).to_bytes(4, "big") + asked)

    async def hears(self) -> list[int]:
        length = await self._reader.readexactly(4)
        size = int.from_bytes(length, "big")
        body = body_of(ApiKey.METADATA, VERSION, length + await self._reader.readexactly(size))
        return [int(one.leader_id) for topic in body.topics for one in topic.partitions]

    async def leave(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()


@pytest.mark.parametrize("names", [(), ("orders",)])
async def test_an_answer_waits_for_the_first_leader(names: tuple[str, ...]) -> None:
    door = Door(NEW)
    async with asyncio.timeout(10), served(door.handle) as (_server, port):
        ann = Ann(*await asyncio.open_connection("127.0.0.1", port))
        ann.ask(*names)
        await until(lambda: door.missed.waiting == 1)
        door.tell(LED)
        assert await ann.hears() == [1]
        await ann.leave()


async def test_it_waits_for_each_partition_that_a_topic_gains() -> None:
    door = Door(LED)
    async with asyncio.timeout(10), served(door.handle) as (_server, port):
        ann = Ann(*await asyncio.open_connection("127.0.0.1", port))
        door.tell(LED, NEW)
        ann.ask()
        await until(lambda: door.missed.waiting == 1)
        door.tell(LED, LED)
        assert await ann.hears() == [1, 1]
        await ann.leave()


async def test_what_nobody_leads_for_longer_holds_nobody_up() -> None:
    door = Door(NEW)
    async with asyncio.timeout(10), served(door.handle) as (_server, port):
        ann = Ann(*await asyncio.open_connection("127.0.0.1", port))
        ann.ask()
        assert await ann.hears() == [NOBODY], "nobody was elected: what is known is told"
        door.now_s += room.WAIT_S
        door.missed.until_known = never  # type: ignore[method-assign]
        ann.ask()
        assert await ann.hears() == [NOBODY]
        await ann.leave()


async def never(is_too_early: Callable[[], bool]) -> None:
    raise AssertionError("held up")


async def test_all_new_topics_are_waited_for_at_once() -> None:
    """One behind the other they held up a dozen questions, of a topic each."""
    door = Door(NEW)
    topics = [TopicView(f"t{number}", UUID(int=number), (NEW,)) for number in range(12)]
    door.view = MetadataView.of("cluster-1", (ONE,), topics)
    async with asyncio.timeout(10), served(door.handle) as (_server, port):
        ann = Ann(*await asyncio.open_connection("127.0.0.1", port))
        ann.ask()
        await until(lambda: door.missed.waiting == 1)
        assert await ann.hears() == [NOBODY] * 12
        door.now_s += room.WAIT_S
        door.missed.until_known = never  # type: ignore[method-assign]
        ann.ask()
        assert await ann.hears() == [NOBODY] * 12
        await ann.leave()


async def test_what_has_lost_its_leader_is_no_new_topic() -> None:
    door = Door(LEFT)
    async with asyncio.timeout(10), served(door.handle) as (_server, port):
        ann = Ann(*await asyncio.open_connection("127.0.0.1", port))
        ann.ask()
        assert await ann.hears() == [NOBODY]
        assert not door.missed._new
        await ann.leave()


async def test_only_so_many_new_topics_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is forgotten for another one would be waited for again, and so hold up every question."""
    monkeypatch.setattr(room, "MOST_REMEMBERED", 3)
    now_s = 0.0
    missed = MissedBrokers(lambda: now_s)
    topics = [TopicView(f"t{number}", UUID(int=number), (NEW,)) for number in range(5)]
    assert [missed.may_soon_be_led(one) for one in topics] == [True, True, True, False, False]
    now_s += room.WAIT_S
    assert not any([missed.may_soon_be_led(one) for one in topics])
    now_s += room.FORGOTTEN_S + 1
    assert [missed.may_soon_be_led(one) for one in topics[3:]] == [True, True]
