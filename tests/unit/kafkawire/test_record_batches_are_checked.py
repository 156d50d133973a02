"""A batch's header is read in place; a batch that does not hold together is corrupt, nothing else."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.kafkawire import batches, record_frames
from muster.kafkawire.errors import CorruptBatch
from tests.unit.kafkawire.made_batches import made_batch, view


def test_the_header_says_what_the_producer_meant() -> None:
    data = view(made_batch([b"a", b"b", b"c"], producer=(42, 3, 10), timestamp_ms=500))
    header = batches.read_header(data)
    assert header.record_count == 3
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (42, 3, 10)
    assert (header.last_sequence, header.next_offset) == (12, 3)
    assert (header.base_timestamp_ms, header.max_timestamp_ms) == (500, 502)
    assert header.size_bytes == len(data)
    batches.check(data, 0, header)


def test_sequence_numbers_wrap() -> None:
    header = batches.read_header(made_batch([b"a", b"b"], producer=(42, 0, 2**31 - 1)))
    assert header.last_sequence == 0


def test_offset_and_epoch_are_stamped_outside_the_checksum() -> None:
    data = view(made_batch([b"a"]))
    batches.stamp(data, 0, base_offset=1_000, leader_epoch=7)
    header = batches.read_header(data)
    assert (header.base_offset, header.leader_epoch) == (1_000, 7)
    batches.check(data, 0, header)


@given(st.integers(min_value=16), st.integers(1, 255))
def test_any_changed_byte_is_found(place: int, change: int) -> None:
    """From magic on: what lies before is the place in the log and the leader's epoch."""
    data = made_batch([b"a" * 20, b"b" * 20])
    data[16 + place % (len(data) - 16)] ^= change
    with pytest.raises(CorruptBatch):
        batches.check(view(data), 0, batches.read_header(data))


def test_a_batch_that_is_cut_off_is_corrupt() -> None:
    data = made_batch([b"a" * 20])
    header = batches.read_header(data)
    with pytest.raises(CorruptBatch):
        batches.check(view(data[:-1]), 0, header)


@pytest.mark.parametrize("count", [0, -1, 2])
def test_a_record_count_that_does_not_fit_the_offsets_is_corrupt(count: int) -> None:
    data = made_batch([b"a"])
    struct.pack_into(">i", data, 57, count)
    with pytest.raises(CorruptBatch):
        batches.check(view(data), 0, batches.read_header(data))


def test_an_older_magic_is_not_served() -> None:
    data = made_batch([b"a"])
    data[16] = 1
    with pytest.raises(CorruptBatch):
        batches.read_header(data)


def test_a_last_batch_that_is_cut_off_is_left_out_of_a_walk() -> None:
    first, second = made_batch([b"a"]), made_batch([b"b"])
    starts = [start for start, _ in batches.headers(view(first, second[:-3]))]
    assert starts == [0]


@given(st.binary(max_size=200))
def test_only_corrupt_batch_leaves_a_walk(data: bytes) -> None:
    walked = memoryview(data)
    try:
        for start, header in batches.headers(walked):
            batches.check(walked, start, header)
    except CorruptBatch:
        return


@pytest.mark.parametrize("last", [2, 0x7F, 0x80])
def test_a_number_of_more_than_64_bits_is_corrupt(last: int) -> None:
    largest = bytes([0xFF] * 9 + [1])
    assert record_frames.varint(largest, 0) == (-(2**63), 10)
    with pytest.raises(CorruptBatch, match="64 bits"):
        record_frames.varint(largest[:9] + bytes([last, 1]), 0)
