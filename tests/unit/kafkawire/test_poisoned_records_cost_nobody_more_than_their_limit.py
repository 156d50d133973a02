"""Behind a right checksum may lie anything: it becomes one typed error, and no more memory than allowed."""

import gzip
import struct
import tracemalloc
from collections.abc import Callable

import cramjam
import pytest

from muster.kafkawire.errors import CorruptBatch, UnsupportedCompression
from muster.kafkawire.records import read_records
from tests.unit.kafkawire.made_batches import made_batch, sealed_batch

GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
CODECS = {"gzip": GZIP, "snappy": SNAPPY, "lz4": LZ4, "zstd": ZSTD}
LIMIT_BYTES = 1024 * 1024
ZEROS = bytes(32 * LIMIT_BYTES)


def snappy_in_blocks(data: bytes) -> bytes:
    """What Java's producers write."""
    block = bytes(cramjam.snappy.compress_raw(data))
    return b"\x82SNAPPY\x00" + struct.pack(">iii", 1, 1, len(block)) + block


@pytest.mark.parametrize("codec", [0, *CODECS.values()], ids=["none", *CODECS])
@pytest.mark.parametrize(
    "payload", [b"", b"\x00", b"garbage" * 20, b"\xff" * 50, b"\x82SNAPPY\x00" + b"\x7f" * 30]
)
def test_what_no_codec_reads_is_a_corrupt_batch(codec: int, payload: bytes) -> None:
    with pytest.raises(CorruptBatch):
        list(read_records(sealed_batch(payload, compression=codec), 0))


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS.keys())
def test_a_compressed_batch_that_is_cut_short_inside_is_a_corrupt_batch(codec: int) -> None:
    payload = bytes(made_batch([b"value" * 100] * 3, compression=codec)[61:])
    with pytest.raises(CorruptBatch):
        list(read_records(sealed_batch(payload[:-9], compression=codec, count=3), 0))


@pytest.mark.parametrize(
    ("codec", "compress"),
    [
        (GZIP, gzip.compress),
        (SNAPPY, cramjam.snappy.compress_raw),
        (SNAPPY, snappy_in_blocks),
        (LZ4, cramjam.lz4.compress),
        (ZSTD, cramjam.zstd.compress),
    ],
    ids=["gzip", "snappy", "snappy in blocks", "lz4", "zstd"],
)
def test_a_small_batch_does_not_become_a_large_one(codec: int, compress: Callable[[bytes], bytes]) -> None:
    batch = sealed_batch(bytes(compress(ZEROS)), compression=codec)
    tracemalloc.start()
    try:
        with pytest.raises(CorruptBatch, match="would be more than 1048576 bytes"):
            list(read_records(batch, 0, limit_bytes=LIMIT_BYTES))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 * LIMIT_BYTES + 3 * len(batch)


@pytest.mark.parametrize(
    ("codec", "one", "head", "what"),
    [
        (GZIP, gzip.compress(b""), b"", "gzip members"),
        (SNAPPY, struct.pack(">i", 1) + b"\0", b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1), "snappy blocks"),
    ],
    ids=["gzip", "snappy in blocks"],
)
def test_what_is_in_thousands_of_pieces_is_not_put_together(
    codec: int, one: bytes, head: bytes, what: str
) -> None:
    """Each takes its time, though nothing is in it: sixteen megabytes held a loop for five seconds."""
    batch = sealed_batch(head + one * 5_000, compression=codec)
    with pytest.raises(CorruptBatch, match=what):
        list(read_records(batch, 0, limit_bytes=LIMIT_BYTES))


def test_gzip_members_behind_each_other_and_zeros_are_read() -> None:
    records = bytes(made_batch([b"one", b"two"])[61:])
    payload = gzip.compress(records[:9]) + bytes(3) + gzip.compress(records[9:]) + bytes(5)
    read = read_records(sealed_batch(payload, compression=GZIP, count=2), 0)
    assert [record.value for record in read] == [b"one", b"two"]


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS.keys())
def test_records_that_compress_a_thousandfold_are_read_within_the_limit(codec: int) -> None:
    batch = made_batch([bytes(1_000_000)], compression=codec)
    [record] = read_records(batch, 0, limit_bytes=LIMIT_BYTES)
    assert record.value == bytes(1_000_000)


def test_a_codec_that_nobody_has_defined_is_named() -> None:
    with pytest.raises(UnsupportedCompression, match="codec 6"):
        list(read_records(sealed_batch(b"", compression=6), 0))
