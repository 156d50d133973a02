"""A node leads no partition and says so in every version, so that a client looks for the leader again."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from gateway.translation.records import MOST_ELEMENTS, RECORD_REQUESTS, record_refusal
from muster.kafkawire.api_table import SERVED, ApiKey, read_request_header
from muster.kafkawire.errors import FrameTooLarge
from tests.unit.kafkaserver.kafka_requests import body_of, frame, parts

SHORT = timedelta(seconds=1)


def versions(*keys: int) -> list[tuple[ApiKey, int]]:
    return [
        (ApiKey(key), version)
        for key in keys
        for version in range(SERVED[key].minimum, SERVED[key].maximum + 1)
    ]


def errors_of(body: Any) -> Iterator[int]:
    """Every error that an answer holds, at any depth."""
    if hasattr(body, "error_code"):
        yield int(body.error_code)
    for name in getattr(body, "__dataclass_fields__", ()):
        value = getattr(body, name)
        for element in value if isinstance(value, tuple) else ():
            yield from errors_of(element)


def record_request(key: ApiKey, version: int) -> memoryview:
    def one(name: str, /, **fields: Any) -> tuple[Any, ...]:
        return (parts(key, version, name, **fields),)

    match key:
        case ApiKey.PRODUCE:
            data = one("PartitionProduceData", index=3, records=b"records")
            topics = one("TopicProduceData", name="clicks", partition_data=data)
            return frame(key, version, transactional_id=None, acks=1, timeout=SHORT, topic_data=topics)
        case ApiKey.FETCH:
            place = one("FetchPartition", partition=3, fetch_offset=5, partition_max_bytes=100)
            topics = one("FetchTopic", topic="clicks", topic_id=UUID(int=1), partitions=place)
            return frame(
                key,
                version,
                replica_id=-1,
                max_wait=SHORT,
                min_bytes=1,
                topics=topics,
                forgotten_topics_data=(),
            )
        case ApiKey.LIST_OFFSETS:
            place = one("ListOffsetsPartition", partition_index=3, timestamp=-1)
            topics = one("ListOffsetsTopic", name="clicks", partitions=place)
            return frame(key, version, replica_id=-1, isolation_level=0, topics=topics)
        case ApiKey.DELETE_RECORDS:
            place = one("DeleteRecordsPartition", partition_index=3, offset=5)
            topics = one("DeleteRecordsTopic", name="clicks", partitions=place)
            return frame(key, version, topics=topics, timeout=SHORT)
        case ApiKey.DESCRIBE_PRODUCERS:
            return frame(key, version, topics=one("TopicRequest", name="clicks", partition_indexes=(3,)))
        case _:
            place = one("OffsetForLeaderPartition", partition=3, leader_epoch=1)
            topics = one("OffsetForLeaderTopic", topic="clicks", partitions=place)
            return frame(key, version, topics=topics)


@pytest.mark.parametrize(("key", "version"), versions(*RECORD_REQUESTS))
def test_a_node_leads_no_partition(key: ApiKey, version: int) -> None:
    question = record_request(key, version)
    answer = record_refusal(read_request_header(question), question)
    assert answer is not None
    assert [code for code in errors_of(body_of(key, version, answer)) if code] == [6]


def test_who_wants_no_answer_gets_none() -> None:
    question = frame(ApiKey.PRODUCE, 9, transactional_id=None, acks=0, timeout=SHORT, topic_data=())
    assert record_refusal(read_request_header(question), question) is None


def test_a_node_refuses_to_say_it_of_very_many_offsets() -> None:
    key, version = ApiKey.LIST_OFFSETS, SERVED[ApiKey.LIST_OFFSETS].maximum
    places = tuple(
        parts(key, version, "ListOffsetsPartition", partition_index=index, timestamp=-1)
        for index in range(MOST_ELEMENTS)
    )
    topic = parts(key, version, "ListOffsetsTopic", name="clicks", partitions=places)
    question = frame(key, version, replica_id=-1, isolation_level=0, topics=(topic,))
    with pytest.raises(FrameTooLarge, match="1 elements too many"):
        record_refusal(read_request_header(question), question)
