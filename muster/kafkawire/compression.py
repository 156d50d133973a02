"""This room compresses the records of a batch, and decompresses them to no more bytes than allowed.

The codecs' own functions allocate what the compressed bytes ask for: 32 KB of zstd may ask for 1 GB.
"""

import gzip
import struct
import zlib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import cramjam

from muster.kafkawire.errors import CorruptBatch, RecordsTooLarge, UnsupportedCompression

GZIP: Final = 1
SNAPPY: Final = 2
LZ4: Final = 3
ZSTD: Final = 4

NAMES: Final[Mapping[str, int]] = MappingProxyType(
    {"uncompressed": 0, "gzip": GZIP, "snappy": SNAPPY, "lz4": LZ4, "zstd": ZSTD}
)
"""The codecs as a topic's `compression.type` calls them."""

_GZIP_FORMAT: Final = 16 + zlib.MAX_WBITS
_MOST_MEMBERS: Final = 64
"""Of one batch. Producers write one; behind each all that follows is copied."""

_GZIP_LEVEL: Final = 6
"""Kafka's as well: Python's own, 9, takes five times as long for a hundredth of the bytes."""
_GZIP_BYTES: Final = 4 * 1024 * 1024
_GZIP_QUICKLY: Final = 1
"""Of more bytes: as quick as the other codecs, for a loop may be held meanwhile."""

FIRST_GUESS: Final = 8
"""How many times larger records usually are than their compressed bytes, at most."""

_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER_BYTES: Final = 16
_XERIAL_HEAD: Final = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_BYTES: Final = 32 * 1024
_XERIAL_LEAST_BYTES: Final = 1024
_MOST_BLOCKS: Final = 1_000
"""Beside those of so many bytes: each takes its time, however little is in it."""
_BLOCK_LENGTH: Final = struct.Struct(">i")


def decompress(codec: int, payload: memoryview, limit_bytes: int) -> bytes:
    """The records behind a header whose attributes name this codec (KIP-98; 1 to 4).

    Raises CorruptBatch for bytes that the codec does not read, RecordsTooLarge for those that would become
    more than `limit_bytes`, UnsupportedCompression for a codec that nobody has defined.
    """
    try:
        open_it = _CODECS[codec]
    except KeyError:
        raise UnsupportedCompression(f"compression codec {codec}") from None
    try:
        return open_it(payload, limit_bytes)
    except CorruptBatch:
        raise
    # Each library has its own errors for bytes that it does not read, and they grow with its releases.
    except Exception as error:
        raise CorruptBatch(f"the records cannot be decompressed: {error}") from error


def compress(codec: int, records: bytes) -> bytes:
    """The records as a producer's codec writes them (KIP-98), in the framing that every client reads."""
    match codec:
        case 1:
            level = _GZIP_LEVEL if len(records) <= _GZIP_BYTES else _GZIP_QUICKLY
            return gzip.compress(records, level)
        case 2:
            made = bytearray(_XERIAL_HEAD)
            for start in range(0, len(records), _XERIAL_BLOCK_BYTES):
                block = bytes(cramjam.snappy.compress_raw(records[start : start + _XERIAL_BLOCK_BYTES]))
                made += _BLOCK_LENGTH.pack(len(block)) + block
            return bytes(made)
        case 3:
            # Kafka's own reader takes no blocks that lean on each other.
            compressor = cramjam.lz4.Compressor(level=1, content_checksum=False, block_linked=False)
            compressor.compress(records)
            return bytes(compressor.finish())
        case 4:
            return bytes(cramjam.zstd.compress(records, level=3))
        case _:
            raise UnsupportedCompression(f"compression codec {codec}")


def _gzip(payload: memoryview, limit_bytes: int) -> bytes:
    opened: list[bytes] = []
    left, rest = limit_bytes, bytes(payload)
    while rest:
        if len(opened) == _MOST_MEMBERS:
            raise CorruptBatch(f"more than {_MOST_MEMBERS} gzip members")
        member = zlib.decompressobj(_GZIP_FORMAT)
        # Of no bytes at all it would give any number.
        opened.append(member.decompress(rest, left + 1))
        left -= len(opened[-1])
        if left < 0:
            raise _too_large(limit_bytes)
        if not member.eof:
            raise CorruptBatch("the bytes end inside a gzip member")
        # As gzip's own reader has it, zeros may stand behind a member.
        rest = member.unused_data.lstrip(b"\0")
    return b"".join(opened)


def _snappy(payload: memoryview, limit_bytes: int) -> bytes:
    if bytes(payload[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        return _snappy_block(payload, limit_bytes)
    opened = bytearray()
    start, blocks = _XERIAL_HEADER_BYTES, 0
    while start < len(payload):
        blocks += 1
        if blocks > _MOST_BLOCKS + limit_bytes // _XERIAL_LEAST_BYTES:
            raise CorruptBatch(f"{blocks} snappy blocks, and few bytes in each")
        (size,) = _BLOCK_LENGTH.unpack_from(payload, start)
        start += _BLOCK_LENGTH.size
        if not 0 < size <= len(payload) - start:
            raise CorruptBatch(f"a snappy block of {size} bytes")
        opened += _snappy_block(payload[start : start + size], limit_bytes - len(opened))
        start += size
    return bytes(opened)


def _snappy_block(payload: memoryview, limit_bytes: int) -> bytes:
    # The length is told at the front; nothing is allocated for it before it was looked at.
    if cramjam.snappy.decompress_raw_len(payload) > limit_bytes:
        raise _too_large(limit_bytes)
    return bytes(cramjam.snappy.decompress_raw(payload))


def _growing(decompress_into: Callable[[memoryview, bytearray], int]) -> Callable[[memoryview, int], bytes]:
    """For codecs that do not tell the length: into a buffer, and if it does not fit into a larger one."""

    def decompress_bounded(payload: memoryview, limit_bytes: int) -> bytes:
        size = min(limit_bytes, FIRST_GUESS * len(payload))
        while True:
            buffer = bytearray(size)
            try:
                written = decompress_into(payload, buffer)
            except cramjam.DecompressionError as error:
                # What the codec says when the buffer ends, and only then.
                if "whole buffer" not in str(error):
                    raise
                if size >= limit_bytes:
                    raise _too_large(limit_bytes) from error
                size = min(limit_bytes, 4 * size)
            else:
                return bytes(memoryview(buffer)[:written])

    return decompress_bounded


def _too_large(limit_bytes: int) -> RecordsTooLarge:
    return RecordsTooLarge(f"the records would be more than {limit_bytes} bytes")


_CODECS: Final[Mapping[int, Callable[[memoryview, int], bytes]]] = {
    GZIP: _gzip,
    SNAPPY: _snappy,
    LZ4: _growing(cramjam.lz4.decompress_into),
    ZSTD: _growing(cramjam.zstd.decompress_into),
}
