"""This room words, in every version, the refusal of what is about records: nodes lead no partition.

Whoever asks a node for records is told to look for the leader again (design.md 8a rule 5).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from muster.kafkawire.api_table import (
    ApiKey,
    RequestHeader,
    build,
    encode_reply,
    part,
    read_request,
    response_class,
)
from muster.kafkawire.fetch_requests import AskedTopic, read_fetch
from muster.kafkawire.fetching import FetchedPartition, FetchedTopic, lay_out_fetch_reply
from muster.kafkawire.produce import produce_answer, read_produce
from muster.kernel.error_codes import ErrorCode

_NOTHING: Final = -1

MOST_ELEMENTS: Final = 5_000
"""Of a request that kio words the answer to: 45,000 of ListOffsets, each of them refused, held the loop
for 0.2 s, and nobody who knows the leaders asks a node about one.
"""

Refuse = Callable[[Any, Any, ErrorCode], dict[str, Any]]
"""(kio's class of the answer, the request, why) → the fields of the answer."""


class _RefusedRecords(NamedTuple):
    """Records for one partition that were not taken."""

    topic: str
    partition: int
    error_code: int = ErrorCode.NOT_LEADER_OR_FOLLOWER
    base_offset: int = _NOTHING
    append_time_ms: int = _NOTHING
    log_start_offset: int = _NOTHING
    text: str | None = None
    wrong_records: tuple[int, ...] = ()


def record_refusal(header: RequestHeader, frame: memoryview) -> bytes | None:
    """The frame that says that no partition is led here; None for Produce with acks=0, which has no answer.

    Raises MalformedFrame, FrameTooLarge.
    """
    if header.api_key == ApiKey.PRODUCE:
        produced = read_produce(header, frame)
        if produced.acks == 0:
            return None
        return produce_answer(
            header, [_RefusedRecords(one.topic, one.partition) for one in produced.parts], 0
        )
    if header.api_key == ApiKey.FETCH:
        refused = (_refused_topic(topic) for topic in read_fetch(header, frame).topics)
        return b"".join(lay_out_fetch_reply(header.api_version, header.correlation_id, list(refused)))
    request = read_request(header, frame, MOST_ELEMENTS)
    shape = response_class(header.api_key, header.api_version)
    fields = WORDED_BY_KIO[header.api_key](shape, request, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    return encode_reply(header.api_key, header.api_version, header.correlation_id, build(shape, **fields))


def _refused_topic(asked: AskedTopic) -> FetchedTopic[bytes]:
    answers: list[FetchedPartition[bytes]] = [
        FetchedPartition(one.partition, ErrorCode.NOT_LEADER_OR_FOLLOWER, _NOTHING, _NOTHING)
        for one in asked.partitions
    ]
    return FetchedTopic(asked.name, asked.topic_id, answers)


def _list_offsets(shape: Any, request: Any, error: ErrorCode) -> dict[str, Any]:
    return _by_name(
        part(shape, "ListOffsetsTopicResponse"),
        part(shape, "ListOffsetsPartitionResponse"),
        ((topic.name, [one.partition_index for one in topic.partitions]) for topic in request.topics),
        error_code=error,
        timestamp=_NOTHING,
        offset=_NOTHING,
        leader_epoch=_NOTHING,
    )


def _epoch_ends(shape: Any, request: Any, error: ErrorCode) -> dict[str, Any]:
    topic_answer, answer = part(shape, "OffsetForLeaderTopicResult"), part(shape, "EpochEndOffset")
    refused = {"error_code": error, "leader_epoch": _NOTHING, "end_offset": _NOTHING}
    return {
        "topics": tuple(
            topic_answer(
                topic=topic.topic,
                partitions=tuple(
                    build(answer, partition=asked.partition, **refused) for asked in topic.partitions
                ),
            )
            for topic in request.topics
        )
    }


def _delete_records(shape: Any, request: Any, error: ErrorCode) -> dict[str, Any]:
    return _by_name(
        part(shape, "DeleteRecordsTopicResult"),
        part(shape, "DeleteRecordsPartitionResult"),
        ((topic.name, [one.partition_index for one in topic.partitions]) for topic in request.topics),
        low_watermark=_NOTHING,
        error_code=error,
    )


def _describe_producers(shape: Any, request: Any, error: ErrorCode) -> dict[str, Any]:
    return _by_name(
        part(shape, "TopicResponse"),
        part(shape, "PartitionResponse"),
        ((topic.name, topic.partition_indexes) for topic in request.topics),
        error_code=error,
        error_message=None,
        active_producers=(),
    )


def _by_name(
    topic_answer: Any, answer: Any, asked: Iterable[tuple[str, Sequence[int]]], **refused: Any
) -> dict[str, Any]:
    """The same refusal for each partition of each topic, where the answer calls both as most answers do."""
    return {
        "topics": tuple(
            topic_answer(
                name=name,
                partitions=tuple(build(answer, partition_index=number, **refused) for number in numbers),
            )
            for name, numbers in asked
        )
    }


WORDED_BY_KIO: Final[Mapping[int, Refuse]] = MappingProxyType(
    {
        ApiKey.LIST_OFFSETS: _list_offsets,
        ApiKey.OFFSET_FOR_LEADER_EPOCH: _epoch_ends,
        ApiKey.DELETE_RECORDS: _delete_records,
        ApiKey.DESCRIBE_PRODUCERS: _describe_producers,
    }
)

RECORD_REQUESTS: Final = (ApiKey.PRODUCE, ApiKey.FETCH, *WORDED_BY_KIO)
