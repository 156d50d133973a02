"""Produce requests are read without copying their records, as kio reads them, and answered as kio would."""

import struct
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.kafkawire.api_table import (
    ApiKey,
    RequestHeader,
    build,
    encode_reply,
    encode_request,
    part,
    read_request,
    read_request_header,
    request_class,
    response_class,
)
from muster.kafkawire.errors import KafkaWireError, MalformedFrame
from muster.kafkawire.new_leaders import NewLeader
from muster.kafkawire.produce import produce_answer, read_produce

VERSIONS = range(3, 13)

_parts = st.lists(
    st.tuples(
        st.text(max_size=20),
        st.lists(st.tuples(st.integers(0, 2**31 - 1), st.none() | st.binary(max_size=300)), max_size=3),
    ),
    max_size=3,
)


def _frame(
    version: int, acks: int, timeout_ms: int, topics: list[Any], transactional_id: str | None
) -> bytes:
    shape = request_class(ApiKey.PRODUCE, version)
    topic, partition = part(shape, "TopicProduceData"), part(shape, "PartitionProduceData")
    body = shape(
        transactional_id=transactional_id,
        acks=acks,
        timeout=timedelta(milliseconds=timeout_ms),
        topic_data=tuple(
            topic(name=name, partition_data=tuple(partition(index=i, records=r) for i, r in partitions))
            for name, partitions in topics
        ),
    )
    return encode_request(ApiKey.PRODUCE, version, 1, "ann", body)[4:]


@given(
    st.sampled_from(VERSIONS),
    st.sampled_from([-1, 0, 1]),
    st.integers(0, 2**31 - 1),
    _parts,
    st.none() | st.text(max_size=10),
)
def test_what_kio_writes_is_read(
    version: int, acks: int, timeout_ms: int, topics: list[Any], transactional_id: str | None
) -> None:
    frame = _frame(version, acks, timeout_ms, topics, transactional_id)
    request = read_produce(read_request_header(frame), memoryview(frame))
    assert (request.acks, request.timeout_ms) == (acks, timeout_ms)
    assert request.transactional_id == transactional_id
    read = [(p.topic, p.partition, None if p.records is None else bytes(p.records)) for p in request.parts]
    assert read == [(name, index, records) for name, parts in topics for index, records in parts]


def test_records_are_a_view_into_the_frame() -> None:
    frame = memoryview(bytearray(_frame(9, -1, 1_000, [("orders", [(0, b"abc")])], None)))
    records = read_produce(read_request_header(frame), frame).parts[0].records
    assert records is not None
    records[0:1] = b"X"
    assert b"Xbc" in bytes(frame)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_frame_that_ends_anywhere_inside_is_malformed(version: int) -> None:
    frame = _frame(version, -1, 1_000, [("orders", [(0, b"abc"), (1, b"de")])], "t")
    header = read_request_header(frame)
    for end in range(header.body_start, len(frame)):
        with pytest.raises(MalformedFrame):
            read_produce(header, memoryview(frame[:end]))


def test_a_promised_array_of_two_billion_elements_is_refused_at_once() -> None:
    frame = struct.pack(">hhihhhii", ApiKey.PRODUCE, 3, 1, -1, -1, -1, 1_000, 2**31 - 1)
    with pytest.raises(MalformedFrame):
        read_produce(read_request_header(frame), memoryview(frame))


@given(st.sampled_from(VERSIONS), st.binary(max_size=200))
def test_only_declared_errors_leave(version: int, body: bytes) -> None:
    tags = b"\x00" if version >= 9 else b""
    frame = struct.pack(">hhih", ApiKey.PRODUCE, version, 1, -1) + tags + body
    try:
        read_produce(read_request_header(frame), memoryview(frame))
    except KafkaWireError:
        return


@given(st.sampled_from(VERSIONS), st.data())
def test_a_broken_request_is_refused_as_kio_refuses_it(version: int, data: Any) -> None:
    partitions = data.draw(st.sampled_from([[(3, b"abc")], [(3, b"abc"), (4, b"d")]]))
    whole = _frame(version, -1, 1_000, [("orders", partitions)], None)
    place = data.draw(st.integers(14, len(whole) - 1))
    byte = data.draw(st.sampled_from((b"\x00", b"\x01", b"\x03", b"\x7f", b"\xff")))
    cut = data.draw(st.sampled_from((whole[:place], whole[:place] + byte + whole[place + 1 :])))
    frame = memoryview(cut)
    header = read_request_header(frame)
    try:
        by_kio = read_request(header, frame)
    except KafkaWireError:
        with pytest.raises(KafkaWireError):
            read_produce(header, frame)
        return
    read = read_produce(header, frame)
    assert (read.transactional_id, read.acks) == (by_kio.transactional_id, by_kio.acks)
    assert read.timeout_ms == by_kio.timeout // timedelta(milliseconds=1)
    assert [(p.topic, p.partition, None if p.records is None else bytes(p.records)) for p in read.parts] == [
        (topic.name, one.index, one.records) for topic in by_kio.topic_data for one in topic.partition_data
    ]


class Answer(NamedTuple):
    topic: str
    partition: int
    error_code: int
    base_offset: int
    append_time_ms: int
    log_start_offset: int
    text: str | None
    wrong_records: tuple[int, ...] = ()


_answers = st.builds(
    Answer,
    st.text(max_size=200),
    st.integers(0, 2**31 - 1),
    st.sampled_from((0, 2, 3, 6, 87)),
    st.integers(-1, 2**63 - 1),
    st.just(-1) | st.integers(0, 2**41),
    st.integers(-1, 2**63 - 1),
    st.none() | st.text(max_size=200),
    st.just(()),
) | st.builds(
    Answer,
    st.text(max_size=200),
    st.integers(0, 2**31 - 1),
    st.just(87),
    st.just(-1),
    st.just(-1),
    st.just(-1),
    st.text(max_size=200),
    st.lists(st.integers(0, 2**31 - 1), max_size=3).map(tuple),
)


LEADERS: dict[object, NewLeader] = {
    2: NewLeader(2, 7, "two", 9092),
    3: NewLeader(3, 8, "three" * 60, 9093, "rack-b"),
}


@given(
    st.sampled_from(VERSIONS),
    st.lists(_answers, max_size=4),
    st.integers(0, 300_000),
    st.dictionaries(st.integers(0, 3), st.sampled_from((2, 3))),
)
def test_an_answer_is_written_as_kio_writes_it(
    version: int, answers: list[Answer], throttle_ms: int, leaders: dict[int, int]
) -> None:
    """`leaders`: of partitions, by their number modulo four."""

    def leader_of(_: object, partition: int, error_code: int) -> NewLeader | None:
        assert error_code == 6
        return LEADERS.get(leaders.get(partition % 4))

    shape = response_class(ApiKey.PRODUCE, version)
    answered, topic = part(shape, "PartitionProduceResponse"), part(shape, "TopicProduceResponse")
    blamed = part(shape, "BatchIndexAndErrorMessage") if version >= 8 else None
    names = version >= 10
    led_by, node = (part(shape, name) if names else None for name in ("LeaderIdAndEpoch", "NodeEndpoint"))
    named: dict[int, NewLeader] = {}
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    topics: dict[str, list[Any]] = {}
    for one in answers:
        appended_at = None if one.append_time_ms < 0 else epoch + timedelta(milliseconds=one.append_time_ms)
        leader = leader_of(one.topic, one.partition, 6) if names and one.error_code == 6 else None
        told = {}
        if leader is not None:
            named[leader.broker_id] = leader
            told["current_leader"] = build(
                led_by, leader_id=leader.broker_id, leader_epoch=leader.leader_epoch
            )
        topics.setdefault(one.topic, []).append(
            build(
                answered,
                index=one.partition,
                error_code=one.error_code,
                base_offset=one.base_offset,
                log_append_time=appended_at,
                log_start_offset=one.log_start_offset,
                record_errors=tuple(
                    build(blamed, batch_index=place, batch_index_error_message=None)
                    for place in one.wrong_records
                    if blamed is not None
                ),
                error_message=one.text,
                **told,
            )
        )
    endpoints = {}
    if named:
        endpoints["node_endpoints"] = tuple(
            build(node, node_id=one.broker_id, host=one.host, port=one.port, rack=one.rack)
            for one in named.values()
        )
    body = build(
        shape,
        throttle_time=timedelta(milliseconds=throttle_ms),
        responses=tuple(topic(name=name, partition_responses=tuple(them)) for name, them in topics.items()),
        **endpoints,
    )
    header = RequestHeader(ApiKey.PRODUCE, version, 7, "ann", 0)
    written = produce_answer(header, answers, throttle_ms, leader_of)
    assert written == encode_reply(ApiKey.PRODUCE, version, 7, body)
