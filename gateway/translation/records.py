"""This room words, in every version, the refusal of what is about records: nodes lead no partition.

Whoever asks a node for records is told to look for the leader again (design.md 8a rule 5).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from muster.kafkawire.api_table import (
    ApiKey,
    RequestHeader,
    build,
    encode_reply,
    part,
    read_request,
    response_class,
)
from muster.kafkawire.produce import read_produce
from muster.kernel.error_codes import ErrorCode

_NOTHING: Final = -1

Refuse = Callable[[Any, Any, ErrorCode], dict[str, Any]]
"""(kio's class of the answer, the request, why) → the fields of the answer."""


def record_refusal(header: RequestHeader, frame: memoryview) -> bytes | None:
    """The frame that says that no partition is led here; None for Produce with acks=0, which has no answer.

    Raises MalformedFrame, FrameTooLarge.
    """
    if header.api_key == ApiKey.PRODUCE:
        request: Any = read_produce(header, frame)
        if request.acks == 0:
            return None
    else:
        request = read_request(header, frame)
    shape = response_class(header.api_key, header.api_version)
    fields = RECORD_REQUESTS[header.api_key](shape, request, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    return encode_reply(header.api_key, header.api_version, header.correlation_id, build(shape, **fields))


def _produce(shape: Any, request: Any, error: ErrorCode) -> dict[str, Any]:
    topic_answer, answer = part(shape, "TopicProduceResponse"), part(shape, "PartitionProduceResponse")
    topics: dict[str, list[Any]] = {}
    for asked in request.parts:
        refused = build(
            answer,
            index=asked.partition,
            error_code=error,
            base_offset=_NOTHING,
            log_start_offset=_NOTHING,
            record_errors=(),
            error_message=None,
        )
        topics.setdefault(asked.topic, []).append(refused)
    return {
        "responses": tuple(
            topic_answer(name=name, partition_responses=tuple(answers)) for name, answers in topics.items()
        )
    }


def _fetch(shape: Any, request: Any, error: ErrorCode) -> dict[str, Any]:
    topic_answer, answer = part(shape, "FetchableTopicResponse"), part(shape, "PartitionData")
    return {
        "error_code": ErrorCode.NONE,
        "session_id": 0,
        "responses": tuple(
            build(
                topic_answer,
                topic=getattr(topic, "topic", None),
                topic_id=getattr(topic, "topic_id", None),
                partitions=tuple(
                    build(
                        answer,
                        partition_index=asked.partition,
                        error_code=error,
                        high_watermark=_NOTHING,
                        last_stable_offset=_NOTHING,
                        log_start_offset=_NOTHING,
                        aborted_transactions=None,
                        records=None,
                    )
                    for asked in topic.partitions
                ),
            )
            for topic in request.topics
        ),
    }


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


RECORD_REQUESTS: Final[Mapping[int, Refuse]] = MappingProxyType(
    {
        ApiKey.PRODUCE: _produce,
        ApiKey.FETCH: _fetch,
        ApiKey.LIST_OFFSETS: _list_offsets,
        ApiKey.OFFSET_FOR_LEADER_EPOCH: _epoch_ends,
        ApiKey.DELETE_RECORDS: _delete_records,
        ApiKey.DESCRIBE_PRODUCERS: _describe_producers,
    }
)
