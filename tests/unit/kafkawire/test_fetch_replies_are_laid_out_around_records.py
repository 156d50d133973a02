"""The pieces of a Fetch reply, joined, are what kio reads back; a follower reads what kio writes."""

import struct
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.kafkawire.api_table import (
    ApiKey,
    build,
    encode_reply,
    part,
    read_body,
    reply_body_start,
    response_class,
)
from muster.kafkawire.errors import KafkaWireError, MalformedFrame
from muster.kafkawire.fetch_requests import FOLLOWERS_VERSION
from muster.kafkawire.fetching import (
    JOINED_BYTES,
    Diverging,
    FetchedPartition,
    FetchedTopic,
    lay_out_fetch_reply,
    read_fetch_answer,
)
from muster.kafkawire.new_leaders import NewLeader

VERSIONS = range(4, 17)
ORDERS = UUID(int=7)

_records = st.none() | st.binary(max_size=300)
_partition = st.builds(
    FetchedPartition,
    st.integers(0, 1_000),
    st.sampled_from([0, 1, 3, 6, 56, 74]),
    st.integers(-1, 2**62),
    st.integers(-1, 2**62),
    _records,
    st.none() | st.builds(Diverging, st.integers(0, 2**31 - 1), st.integers(0, 2**62)),
    st.integers(-1, 2**31 - 1),
)


def _joined(version: int, topics: list[FetchedTopic[bytes]], **more: Any) -> Any:
    pieces = lay_out_fetch_reply(version, 99, topics, **more)
    frame = b"".join(pieces)
    assert struct.unpack_from(">i", frame)[0] == len(frame) - 4
    body_start = reply_body_start(ApiKey.FETCH, version, frame[4:])
    assert struct.unpack_from(">i", frame, 4)[0] == 99
    return read_body(response_class(ApiKey.FETCH, version), frame[4:], body_start)


@given(st.sampled_from(VERSIONS), st.lists(st.lists(_partition, max_size=4), max_size=3))
def test_kio_reads_what_was_laid_out(version: int, partitions: list[list[FetchedPartition[bytes]]]) -> None:
    topics = [FetchedTopic("orders", ORDERS, answers) for answers in partitions]
    body = _joined(version, topics)
    assert len(body.responses) == len(topics)
    for topic, answers in zip(body.responses, partitions, strict=True):
        assert topic.topic_id == ORDERS if version >= 13 else topic.topic == "orders"
        for read, written in zip(topic.partitions, answers, strict=True):
            assert read.partition_index == written.partition
            assert int(read.error_code) == written.error_code
            assert read.high_watermark == read.last_stable_offset == written.high_watermark
            assert bytes(read.records or b"") == (written.records or b"")
            if version >= 5:
                assert read.log_start_offset == written.log_start_offset
            if version >= 11:
                assert read.preferred_read_replica == written.preferred
            if version >= 12 and written.diverging is not None:
                told = read.diverging_epoch
                assert (told.epoch, told.end_offset) == written.diverging


@given(st.sampled_from(VERSIONS), st.lists(st.lists(_partition, max_size=4), max_size=3))
def test_who_leads_is_named_beside_what_is_not_led_here(
    version: int, partitions: list[list[FetchedPartition[bytes]]]
) -> None:
    leaders = {2: NewLeader(2, 7, "two", 9092), 3: NewLeader(3, 8, "three" * 60, 9093, "rack-b")}

    def leader_of(topic: object, partition: int, error_code: int) -> NewLeader | None:
        assert topic == ORDERS and error_code in (6, 74)
        return leaders.get(partition % 4)

    refused = (6, 74)
    answered = [
        [one._replace(records=None, diverging=None) if one.error_code in refused else one for one in answers]
        for answers in partitions
    ]
    body = _joined(version, [FetchedTopic("orders", ORDERS, one) for one in answered], leader_of=leader_of)
    expected: dict[int, NewLeader] = {}
    for topic, answers in zip(body.responses, answered, strict=True):
        for read, written in zip(topic.partitions, answers, strict=True):
            assert (int(read.error_code), bytes(read.records or b"")) == (
                written.error_code,
                written.records or b"",
            )
            leader = leaders.get(written.partition % 4) if written.error_code in refused else None
            if version >= 16 and leader is not None:
                expected[leader.broker_id] = leader
                told = read.current_leader
                assert (told.leader_id, told.leader_epoch) == (leader.broker_id, leader.leader_epoch)
            elif version >= 12:
                assert read.current_leader.leader_id == -1
    if version >= 16:
        told = [(one.node_id, one.host, one.port, one.rack) for one in body.node_endpoints]
        assert told == [(one.broker_id, one.host, one.port, one.rack) for one in expected.values()]


@pytest.mark.parametrize("version", [11, 12, 16])
@given(_partition, st.integers(0, 2**31 - 1), st.integers(0, 2**31 - 1))
def test_one_partition_is_told_with_its_session_and_throttling(
    version: int, answer: FetchedPartition[bytes], session_id: int, throttle_ms: int
) -> None:
    topics = [FetchedTopic("orders", ORDERS, [answer])]
    body = _joined(version, topics, error_code=71, session_id=session_id, throttle_ms=throttle_ms)
    assert (int(body.error_code), body.session_id) == (71, session_id)
    assert body.throttle_time == timedelta(milliseconds=throttle_ms)
    (topic,) = body.responses
    (told,) = topic.partitions
    assert topic.topic_id == ORDERS if version >= 13 else topic.topic == "orders"
    assert (told.partition_index, int(told.error_code)) == (answer.partition, answer.error_code)
    assert (told.high_watermark, told.log_start_offset) == (answer.high_watermark, answer.log_start_offset)
    assert (bytes(told.records or b""), told.preferred_read_replica) == (
        answer.records or b"",
        answer.preferred,
    )


@pytest.mark.parametrize("version", [7, 12, 16])
def test_an_error_of_the_whole_fetch_and_its_session_are_told(version: int) -> None:
    body = _joined(version, [], error_code=71, session_id=5)
    assert (int(body.error_code), body.session_id) == (71, 5)


def test_records_stay_the_object_that_was_given() -> None:
    records = bytearray(b"opaque")
    pieces = lay_out_fetch_reply(
        12, 1, [FetchedTopic("orders", ORDERS, [FetchedPartition(0, 0, 1, 0, records)])]
    )
    assert any(piece is records for piece in pieces)


def _by_kio(topics: list[list[FetchedPartition[bytes]]], session_id: int, error_code: int) -> bytes:
    """The frame of an answer, without its length."""
    shape = response_class(ApiKey.FETCH, FOLLOWERS_VERSION)
    nothing_aborted: tuple[()] | None = () if session_id % 2 else None
    body = build(
        shape,
        error_code=error_code,
        session_id=session_id,
        responses=tuple(
            part(shape, "FetchableTopicResponse")(
                topic_id=ORDERS,
                partitions=tuple(
                    build(
                        part(shape, "PartitionData"),
                        partition_index=one.partition,
                        error_code=one.error_code,
                        high_watermark=one.high_watermark,
                        log_start_offset=one.log_start_offset,
                        aborted_transactions=nothing_aborted,
                        records=one.records,
                        preferred_read_replica=one.preferred,
                        **(
                            {"diverging_epoch": part(shape, "EpochEndOffset")(**one.diverging._asdict())}
                            if one.diverging is not None
                            else {}
                        ),
                    )
                    for one in answers
                ),
            )
            for answers in topics
        ),
    )
    return encode_reply(ApiKey.FETCH, FOLLOWERS_VERSION, 99, body)[4:]


def _told(frame: bytes) -> list[list[FetchedPartition[bytes]]]:
    """What a follower reads, with no records where there are none."""
    read = read_fetch_answer(memoryview(frame))
    assert {topic.topic_id for topic in read.topics} <= {ORDERS}
    return [
        [
            FetchedPartition(*one[:4], bytes(one.records or b""), one.diverging, one.preferred)
            for one in topic.partitions
        ]
        for topic in read.topics
    ]


_answers = st.lists(st.lists(_partition, max_size=4), max_size=3)


@given(_answers, st.integers(0, 2**31 - 1), st.sampled_from((0, 70)))
def test_a_follower_reads_what_kio_writes(
    topics: list[list[FetchedPartition[bytes]]], session_id: int, error_code: int
) -> None:
    frame = _by_kio(topics, session_id, error_code)
    read = read_fetch_answer(memoryview(frame))
    assert (read.correlation_id, read.error_code, read.session_id) == (99, error_code, session_id)
    assert _told(frame) == [[one._replace(records=one.records or b"") for one in told] for told in topics]


@given(_answers)
def test_a_follower_reads_what_was_laid_out(topics: list[list[FetchedPartition[bytes]]]) -> None:
    laid_out = lay_out_fetch_reply(FOLLOWERS_VERSION, 99, [FetchedTopic("", ORDERS, one) for one in topics])
    told = _told(b"".join(laid_out)[4:])
    assert told == [[one._replace(records=one.records or b"") for one in answers] for answers in topics]


def test_few_bytes_of_many_partitions_are_joined_but_not_to_one_large_piece() -> None:
    """The largest answer would be copied whole, more than once, in one turn of the loop."""
    partitions = [FetchedPartition(n, 0, 9, 0, bytes([n % 256]) * 4_000) for n in range(1_000)]
    pieces = lay_out_fetch_reply(FOLLOWERS_VERSION, 99, [FetchedTopic("orders", ORDERS, partitions)])
    assert len(pieces) < 80
    assert max(map(len, pieces)) < JOINED_BYTES + 5_000
    read = read_fetch_answer(memoryview(b"".join(pieces))[4:])
    assert [bytes(one.records or b"") for one in read.topics[0].partitions] == [
        one.records for one in partitions
    ]


def test_an_answer_that_ends_anywhere_inside_is_malformed() -> None:
    answers = [FetchedPartition(0, 0, 5, 1, b"abc", Diverging(3, 4)), FetchedPartition(1, 6, -1, -1)]
    frame = _by_kio([answers], 5, 0)
    for end in range(len(frame)):
        with pytest.raises(MalformedFrame):
            read_fetch_answer(memoryview(frame[:end]))


@given(st.binary(max_size=200))
def test_only_declared_errors_leave_a_followers_reading(frame: bytes) -> None:
    try:
        read_fetch_answer(memoryview(frame))
    except KafkaWireError:
        return
