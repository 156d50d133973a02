"""Readers get keys, values, headers and times out of batches, whatever the codec."""

import pytest

from muster.kafkawire import batches
from muster.kafkawire.errors import CorruptBatch
from muster.kafkawire.records import read_records
from tests.unit.kafkawire.made_batches import made_batch, view

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS.keys())
def test_records_of_every_codec_come_back(codec: int) -> None:
    data = view(made_batch([b"one", b"two"], compression=codec, headers=[("source", b"web"), ("none", None)]))
    batches.stamp(data, 0, 100, 1)
    first, second = read_records(data, from_offset=0)
    assert (first.offset, first.key, first.value) == (100, b"k0", b"one")
    assert (second.offset, second.timestamp_ms) == (101, 1_001)
    assert first.headers == (("source", b"web"), ("none", None))


def test_records_below_the_offset_asked_for_are_left_out() -> None:
    data = view(made_batch([b"a", b"b", b"c"]), made_batch([b"d"]))
    batches.stamp(data, len(made_batch([b"a", b"b", b"c"])), 3, 1)
    assert [record.value for record in read_records(data, from_offset=2)] == [b"c", b"d"]


def test_a_wrong_checksum_is_told_not_read_over() -> None:
    data = made_batch([b"a" * 10])
    data[-1] ^= 1
    with pytest.raises(CorruptBatch):
        list(read_records(data, 0))


def test_a_batch_cut_off_by_the_byte_limit_is_left_for_the_next_fetch() -> None:
    assert list(read_records(made_batch([b"a"])[:-1], 0)) == []
