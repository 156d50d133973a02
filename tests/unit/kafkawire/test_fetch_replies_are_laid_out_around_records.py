"""The pieces of a Fetch reply, joined, are what kio reads back, whatever the version."""

import struct
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.kafkawire.api_table import ApiKey, read_body, reply_body_start, response_class
from muster.kafkawire.fetching import Diverging, FetchedPartition, FetchedTopic, lay_out_fetch_reply

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
)


def _joined(version: int, topics: list[FetchedTopic[bytes]], **more: int) -> Any:
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
            if version >= 12 and written.diverging is not None:
                told = read.diverging_epoch
                assert (told.epoch, told.end_offset) == written.diverging


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
