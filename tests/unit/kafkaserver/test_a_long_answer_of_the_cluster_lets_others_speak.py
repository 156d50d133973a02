"""Who asks for many topics is answered in slices: others are heard in between, and order is kept."""

import asyncio
import struct
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from kafkaserver.cluster_answers import (
    BrokerView,
    MetadataView,
    PartitionView,
    TopicView,
    answer_api_versions,
)
from kafkaserver.later import Later
from kafkaserver.limits import ServerLimits
from kafkaserver.metadata_answers import LOOKED_THROUGH, MetadataAnswer, MetadataHandler
from kafkaserver.replies import Reply
from muster.kafkawire.api_table import ApiKey, RequestHeader
from tests.unit.kafkaserver.kafka_requests import body_of, frame, parts
from tests.unit.kafkaserver.served import served, until

TOPICS = 20_000
CROWD = 8
VIEW = MetadataView.of(
    "cluster-1",
    [BrokerView(1, "one", 9092)],
    [
        TopicView(f"topic-{number}", UUID(int=number + 1), (PartitionView(1, 0, (1,), (1,)),))
        for number in range(TOPICS)
    ],
)
EVERYTHING = frame(
    ApiKey.METADATA,
    12,
    topics=None,
    include_cluster_authorized_operations=False,
    include_topic_authorized_operations=False,
)
VERSIONS = frame(ApiKey.API_VERSIONS, 3, client_software_name="test", client_software_version="1")


def _sent(request: memoryview) -> bytes:
    return struct.pack(">i", len(request)) + request


async def _answer(reader: asyncio.StreamReader) -> bytes:
    length = await reader.readexactly(4)
    return length + await reader.readexactly(struct.unpack(">i", length)[0])


async def test_others_are_heard_and_the_answers_of_one_connection_keep_their_order() -> None:
    metadata = MetadataHandler(lambda: VIEW, Later())
    long: list[Reply] = []
    heard: list[bool] = []

    def handle(header: RequestHeader, request: memoryview, reply: Reply) -> None:
        if header.api_key == ApiKey.METADATA:
            long.append(reply)
            metadata.handle(header, request, reply)
        else:
            heard.append(long[0].pieces is None)
            reply.send(answer_api_versions(header))

    async with served(handle) as (_server, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        others, other = await asyncio.open_connection("127.0.0.1", port)
        writer.write(_sent(EVERYTHING))
        await until(lambda: bool(long))
        other.write(_sent(VERSIONS))
        assert body_of(ApiKey.API_VERSIONS, 3, await _answer(others)).error_code == 0
        writer.write(_sent(VERSIONS))
        told = body_of(ApiKey.METADATA, 12, await _answer(reader))
        assert {topic.name for topic in told.topics} == VIEW.topics.keys()
        assert body_of(ApiKey.API_VERSIONS, 3, await _answer(reader)).error_code == 0
        assert heard[0], "whoever spoke meanwhile waited for the whole of it"
        for one in (writer, other):
            one.close()
            await one.wait_closed()


async def test_of_all_that_ask_for_everything_one_is_answered_in_a_round_of_the_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Three hundred who had a slice each in every round held a loop for a second at a time."""
    few = replace(VIEW, topics=dict(list(VIEW.topics.items())[:3_000]))
    metadata = MetadataHandler(lambda: few, Later())
    loop, rounds = asyncio.get_running_loop(), 0
    asked: list[tuple[RequestHeader, bytes, Reply]] = []
    worded: dict[int, set[int]] = {}
    word = MetadataAnswer._known

    def go_round() -> None:
        nonlocal rounds
        rounds += 1
        loop.call_soon(go_round)

    def noted(answer: MetadataAnswer, topic: TopicView) -> bytes:
        worded.setdefault(rounds, set()).add(id(answer))
        return word(answer, topic)

    def handle(header: RequestHeader, request: memoryview, reply: Reply) -> None:
        asked.append((header, bytes(request), reply))
        if len(asked) == CROWD:
            for one, said, waits in asked:
                metadata.handle(one, memoryview(said), waits)

    monkeypatch.setattr(MetadataAnswer, "_known", noted)
    loop.call_soon(go_round)
    async with served(handle) as (_server, port):
        connected = [await asyncio.open_connection("127.0.0.1", port) for _ in range(CROWD)]
        for _, writer in connected:
            writer.write(_sent(EVERYTHING))
        for reader, writer in connected:
            assert len(body_of(ApiKey.METADATA, 12, await _answer(reader)).topics) == len(few.topics)
            writer.close()
            await writer.wait_closed()
    assert len(worded) > CROWD, "one answer takes several slices"
    assert {len(answers) for answers in worded.values()} == {1}


class _Counted(dict[str, TopicView]):
    looks = 0

    def get(self, name: str, default: Any = None) -> Any:
        self.looks += 1
        return super().get(name, default)


async def test_each_topic_asked_for_is_looked_up_once_before_others_have_their_turn() -> None:
    topics = _Counted(VIEW.topics)
    metadata = MetadataHandler(lambda: replace(VIEW, topics=topics), Later())
    many = LOOKED_THROUGH + 1
    named = [parts(ApiKey.METADATA, 7, "MetadataRequestTopic", name=f"not-{n}") for n in range(many)]
    asked = frame(ApiKey.METADATA, 7, topics=tuple(named), allow_auto_topic_creation=False)
    looked_up: list[int] = []

    def handle(header: RequestHeader, request: memoryview, reply: Reply) -> None:
        metadata.handle(header, request, reply)
        looked_up.append(topics.looks)

    async with served(handle, ServerLimits()) as (_server, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(_sent(asked))
        told = body_of(ApiKey.METADATA, 7, await _answer(reader))
        assert len(told.topics) == many
        writer.close()
        await writer.wait_closed()
    assert looked_up == [many]
