"""This room finds the records inside a batch: where each lies, its time, its key; what it holds stays opaque.

The layout is KIP-98's: length, attributes, timestamp delta, offset delta, key, value, headers.
"""

from collections.abc import Iterator
from typing import NamedTuple

from muster.kafkawire import batches
from muster.kafkawire.batches import BatchHeader
from muster.kafkawire.compression import decompress
from muster.kafkawire.errors import CorruptBatch

NO_KEY = -1

SMALLEST_RECORD_BYTES = 7
"""Seven fields, each of a byte at least."""


class Frame(NamedTuple):
    """One record: `start` to `end` in the records of its batch; the deltas are to the batch's base.

    Its key lies from `key_start` to `key_end`; NO_KEY: it has none. A tombstone has no value.
    """

    start: int
    end: int
    timestamp_delta: int
    offset_delta: int
    key_start: int
    key_end: int
    is_tombstone: bool


def records_of(batch: memoryview, header: BatchHeader, limit_bytes: int) -> bytes | memoryview:
    """The records behind the header, decompressed. Raises CorruptBatch, UnsupportedCompression."""
    payload = batch[batches.HEADER_BYTES : header.size_bytes]
    return decompress(header.codec, payload, limit_bytes) if header.codec else payload


def frames(records: bytes | memoryview, count: int) -> Iterator[Frame]:
    """The `count` records. Raises CorruptBatch unless they fill the bytes exactly."""
    new = tuple.__new__
    for fields in places(records, count):
        yield new(Frame, fields)


def places(records: bytes | memoryview, count: int) -> Iterator[tuple[int, int, int, int, int, int, bool]]:
    """The fields of each Frame, without names, which cost as much again.

    Numbers of one byte, and lengths and offsets of two, are read here, whatever is longer by `varint`.
    """
    position, total = 0, len(records)
    try:
        for _ in range(count):
            start = position
            if (byte := records[position]) < 0x80:
                length, position = (byte >> 1) ^ -(byte & 1), position + 1
            elif (more := records[position + 1]) < 0x80:
                byte += (more - 1) << 7
                length, position = (byte >> 1) ^ -(byte & 1), position + 2
            else:
                length, position = varint(records, position)
            end = position + length
            if length < 1 or end > total:
                raise CorruptBatch("a record ends behind its batch")
            # Behind one byte of attributes.
            if (byte := records[position + 1]) < 0x80:
                timestamp_delta, position = (byte >> 1) ^ -(byte & 1), position + 2
            else:
                timestamp_delta, position = varint(records, position + 1)
            if (byte := records[position]) < 0x80:
                offset_delta, position = (byte >> 1) ^ -(byte & 1), position + 1
            elif (more := records[position + 1]) < 0x80:
                byte += (more - 1) << 7
                offset_delta, position = (byte >> 1) ^ -(byte & 1), position + 2
            else:
                offset_delta, position = varint(records, position)
            if (byte := records[position]) < 0x80:
                size, key_start = (byte >> 1) ^ -(byte & 1), position + 1
            else:
                size, key_start = varint(records, position)
            if size < 0:
                key_start, key_end, position = NO_KEY, NO_KEY, key_start
            else:
                key_end = position = key_start + size
            # Of the value only whether there is one: an odd number is below zero.
            if (first := records[position]) >= 0x80 and records[position + 1] >= 0x80:
                varint(records, position)
            if position >= end:
                raise CorruptBatch("a record is shorter than its key")
            yield start, end, timestamp_delta, offset_delta, key_start, key_end, first & 1 == 1
            position = end
    except IndexError as error:
        raise CorruptBatch("the records end inside one") from error
    if position != total:
        raise CorruptBatch(f"{total - position} bytes behind the last record")


def varint(buffer: bytes | memoryview, position: int) -> tuple[int, int]:
    """A signed number in zigzag form and the position behind it. Raises IndexError, CorruptBatch."""
    byte = buffer[position]
    position += 1
    value = byte & 0x7F
    shift = 7
    while byte & 0x80:
        if shift > 63:
            raise CorruptBatch("a number of more than 64 bits")
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        shift += 7
    if shift > 63 and value >> 64:
        raise CorruptBatch("a number of more than 64 bits")
    return (value >> 1) ^ -(value & 1), position
