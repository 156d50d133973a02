"""Who asks for many topics is answered in slices: others are heard in between, and order is kept."""

import asyncio
import struct
from uuid import UUID

from kafkaserver.cluster_answers import (
    BrokerView,
    MetadataView,
    PartitionView,
    TopicView,
    answer_api_versions,
)
from kafkaserver.later import Later
from kafkaserver.metadata_answers import MetadataHandler
from kafkaserver.replies import Reply
from muster.kafkawire.api_table import ApiKey, RequestHeader
from tests.unit.kafkaserver.kafka_requests import body_of, frame
from tests.unit.kafkaserver.served import served, until

TOPICS = 20_000
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
