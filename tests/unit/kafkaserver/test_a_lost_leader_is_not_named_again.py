"""Who asks for leaders when one was just lost is told of the next one, and where the lost one was."""

import asyncio
from typing import Any
from uuid import UUID

from kafkaserver import missed as room
from kafkaserver.cluster_answers import BrokerView, MetadataView, PartitionView, TopicView
from kafkaserver.later import Later
from kafkaserver.metadata_answers import AT_ONCE, MetadataHandler
from kafkaserver.missed import MissedBrokers
from muster.kafkawire.api_table import ApiKey, RequestHeader
from muster.kernel.error_codes import ErrorCode
from tests.unit.kafkaserver.kafka_requests import body_of, frame, parts
from tests.unit.kafkaserver.served import served, until

ONE, TWO = BrokerView(1, "one", 9092), BrokerView(2, "two", 9093)
VERSION = 12


def _view(
    leader: int, live: tuple[BrokerView, ...], fenced: tuple[BrokerView, ...] = (), count: int = 1
) -> MetadataView:
    in_sync = tuple(one.broker_id for one in live)
    topic = TopicView("orders", UUID(int=1), (PartitionView(leader, 3, (1, 2), in_sync),) * count)
    return MetadataView.of("cluster-1", live, [topic], fenced=fenced)


BEFORE = _view(1, (ONE, TWO))
ELECTED = _view(2, (TWO,), (ONE,))


class Door:
    """A door whose view is what `tell` said last."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.missed = MissedBrokers(lambda: self.now_s)
        self.view = BEFORE
        self.missed.see(BEFORE)
        self.metadata = MetadataHandler(lambda: self.view, Later(), self.missed)
        self.held_up: list[bool] = []
        """Of each question, whether it was not answered at once."""

    def tell(self, view: MetadataView) -> None:
        self.view = view
        self.missed.see(view)

    def handle(self, header: RequestHeader, request: memoryview, reply: Any) -> None:
        self.metadata.handle(header, request, reply)
        self.held_up.append(bool(self.metadata._later._tasks))


class Ann:
    """A client of the door."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    def ask(self, *names: str) -> None:
        topics = [
            parts(ApiKey.METADATA, VERSION, "MetadataRequestTopic", name=one, topic_id=None) for one in names
        ]
        asked = frame(
            ApiKey.METADATA,
            VERSION,
            topics=tuple(topics) or None,
            include_cluster_authorized_operations=False,
            include_topic_authorized_operations=False,
        )
        self._writer.write(len(asked).to_bytes(4, "big") + asked)

    async def hear(self) -> tuple[int, list[int]]:
        """The leader of the first partition, and the brokers that are listed."""
        length = await self._reader.readexactly(4)
        body = body_of(
            ApiKey.METADATA, VERSION, length + await self._reader.readexactly(int.from_bytes(length, "big"))
        )
        partition = body.topics[0].partitions[0]
        assert (partition.error_code == ErrorCode.LEADER_NOT_AVAILABLE) == (partition.leader_id == -1)
        return int(partition.leader_id), [int(one.node_id) for one in body.brokers]

    async def told(self, *names: str) -> tuple[int, list[int]]:
        self.ask(*names)
        return await self.hear()

    async def leave(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()


async def _coming(port: int) -> Ann:
    return Ann(*await asyncio.open_connection("127.0.0.1", port))


async def test_an_answer_waits_until_another_leads() -> None:
    door = Door()
    async with asyncio.timeout(10), served(door.handle) as (_server, port):
        ann = await _coming(port)
        door.missed.lose(1)
        ann.ask("orders")
        await until(lambda: door.missed.waiting == 1)
        door.tell(ELECTED)
        assert await ann.hear() == (2, [2, 1]), "whoever it fetched from is listed still"
        await ann.leave()


async def test_one_of_more_partitions_than_are_told_in_one_go_waits_too() -> None:
    door = Door()
    async with asyncio.timeout(10), served(door.handle) as (_server, port):
        ann = await _coming(port)
        door.tell(_view(1, (ONE, TWO), count=2 * AT_ONCE))
        door.missed.lose(1)
        ann.ask("orders")
        await until(lambda: door.missed.waiting == 1)
        door.tell(_view(2, (TWO,), (ONE,), 2 * AT_ONCE))
        assert await ann.hear() == (2, [2, 1])
        await ann.leave()


async def test_an_answer_waits_no_longer_than_the_loss_is_young() -> None:
    door = Door()
    async with asyncio.timeout(10), served(door.handle) as (_server, port):
        ann = await _coming(port)
        door.missed.lose(1)
        assert await ann.told("orders") == (1, [1, 2]), "nobody was elected: what is known is told"
        door.now_s += room.WAIT_S
        assert door.missed.lost == frozenset()
        await ann.leave()


async def test_who_asks_again_is_told_when_the_door_has_had_time_to_hear_of_a_loss() -> None:
    door = Door()
    async with asyncio.timeout(10), served(door.handle) as (_server, port):
        ann = await _coming(port)
        assert await ann.told("orders") == (1, [1, 2])
        ann.ask("orders")
        await until(lambda: bool(door.metadata._later._tasks))
        door.missed.lose(1)
        await until(lambda: door.missed.waiting == 1)
        door.tell(ELECTED)
        assert await ann.hear() == (2, [2, 1])
        await ann.leave()


async def test_who_asks_without_end_is_held_up_now_and_then() -> None:
    """As an admin client does that looks at the offsets of thousands of groups."""
    door = Door()
    async with asyncio.timeout(10), served(door.handle) as (_server, port):
        ann = await _coming(port)
        for _ in range(50):
            assert await ann.told("orders") == (1, [1, 2])
            door.now_s += room.HELD_AGAIN_S / 16
        assert [number for number, held_up in enumerate(door.held_up) if held_up] == [1, 17, 33, 49]
        await ann.leave()


async def test_who_does_not_wait_for_answers_is_held_up_as_seldom() -> None:
    door = Door()
    held_up = []
    for _ in range(70):
        held_up.append(door.missed.asks_again("ann"))
        door.now_s += room.HELD_AGAIN_S / 64
    assert [number for number, was_held in enumerate(held_up) if was_held] == [1, 2, 3, 65, 66, 67]


async def test_what_comes_while_a_connection_is_held_up_waits_as_well() -> None:
    door = Door()
    async with asyncio.timeout(10), served(door.handle) as (_server, port):
        ann = await _coming(port)
        assert await ann.told("orders") == (1, [1, 2])
        ann.ask("orders")
        ann.ask("orders")
        await until(lambda: len(door.metadata._later._tasks) == 2)
        door.missed.lose(1)
        await until(lambda: door.missed.waiting == 2)
        door.tell(ELECTED)
        assert [await ann.hear() for _ in range(2)] == [(2, [2, 1])] * 2
        await ann.leave()


async def test_only_who_names_topics_is_told_of_the_fenced_one_and_only_for_a_while() -> None:
    door = Door()
    async with asyncio.timeout(10), served(door.handle) as (_server, port):
        ann = await _coming(port)
        door.tell(ELECTED)
        assert await ann.told() == (2, [2]), "who asks for everything looks at the cluster"
        assert await ann.told("orders") == (2, [2, 1])
        door.now_s += room.LISTED_S
        assert await ann.told("orders") == (2, [2])
        await ann.leave()


async def test_a_broker_that_was_unregistered_is_listed_no_more() -> None:
    door = Door()
    async with asyncio.timeout(10), served(door.handle) as (_server, port):
        ann = await _coming(port)
        door.tell(ELECTED)
        door.tell(_view(2, (TWO,)))
        assert await ann.told("orders") == (2, [2])
        await ann.leave()


async def test_who_comes_when_too_many_wait_is_told_what_is_known() -> None:
    door = Door()
    async with asyncio.timeout(10), served(door.handle) as (_server, port):
        ann = await _coming(port)
        door.missed.lose(1)
        door.missed.waiting = room.MOST_WAITING
        assert await ann.told("orders") == (1, [1, 2])
        await ann.leave()


async def test_the_end_of_another_broker_holds_nobody_up() -> None:
    door = Door()
    async with asyncio.timeout(10), served(door.handle) as (_server, port):
        ann = await _coming(port)
        door.missed.lose(2)
        ann.ask("orders")
        assert await ann.hear() == (1, [1, 2])
        assert door.missed.waiting == 0
        await ann.leave()
