"""Produce requests are read without copying their records, and exactly as kio reads them."""

import struct
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.kafkawire.api_table import ApiKey, encode_request, part, read_request_header, request_class
from muster.kafkawire.errors import KafkaWireError, MalformedFrame
from muster.kafkawire.produce import read_produce

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
