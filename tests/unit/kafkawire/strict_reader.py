"""This room reads record batches as the strictest of Kafka's clients would: what one trips over is an error.

Our own reader passes over whatever it need not look at. What stands here is what Java's iterators,
librdkafka, sarama and kafkajs demand of bytes that a broker sends, one demand after the other.
"""

import gzip
import struct
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

import cramjam
from aiokafka.record.memory_records import MemoryRecords
from crc32c import crc32c

from muster.kafkawire.records import ConsumedRecord

HEADER_BYTES: Final = 61
_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_CRC_START: Final = 21
_CODEC_BITS, _APPEND_TIME_BIT = 0x07, 0x08
_LARGEST_CODEC: Final = 4
_LZ4_MAGIC: Final = 0x184D2204
_ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"


class Unreadable(Exception):
    """Some client does not get past these bytes, or reads something else than another one."""


class Batch(NamedTuple):
    """One batch and what is in it."""

    base_offset: int
    next_offset: int
    leader_epoch: int
    producer_id: int
    records: tuple[ConsumedRecord, ...]


def strictly_read(data: bytes | memoryview, *, follows: int | None = None) -> list[Batch]:
    """The batches of an answer, the first of which is to begin at `follows`. Raises Unreadable."""
    found: list[Batch] = []
    left = bytes(data)
    while left:
        require(len(left) >= HEADER_BYTES, "the answer ends inside a header")
        size = 12 + int.from_bytes(left[8:12], "big", signed=True)
        require(HEADER_BYTES <= size <= len(left), f"a batch of {size} bytes of {len(left)}")
        batch = _read_batch(left[:size])
        require(follows in (None, batch.base_offset), f"{batch.base_offset} begins where {follows} ends")
        follows = batch.next_offset
        found.append(batch)
        left = left[size:]
    for one, behind in pairwise(found):
        require(one.leader_epoch <= behind.leader_epoch, "a leader epoch goes back")
    _require_the_same_of_aiokafka(bytes(data), found)
    return found


def records_in(batches: Sequence[Batch], from_offset: int = 0) -> list[ConsumedRecord]:
    """Their records from an offset on: of the batch that holds it a client drops what lies before."""
    return [one for batch in batches for one in batch.records if one.offset >= from_offset]


def require(is_so: bool, demand: str) -> None:
    if not is_so:
        raise Unreadable(demand)


def _read_batch(batch: bytes) -> Batch:
    fields = _HEADER.unpack_from(batch)
    base_offset, _, leader_epoch, magic, crc, attributes, last_delta, *rest = fields
    base_ms, max_ms, producer_id, producer_epoch, base_sequence, count = rest
    require(magic == 2, f"magic {magic}")
    require(crc == crc32c(batch[_CRC_START:]), "the checksum does not fit")
    require(base_offset >= 0 and leader_epoch >= 0, f"offset {base_offset} of epoch {leader_epoch}")
    require(attributes & ~(_CODEC_BITS | _APPEND_TIME_BIT) == 0, f"attributes {attributes:#x}")
    require(0 <= count <= last_delta + 1, f"{count} records, last delta {last_delta}")
    require(last_delta >= 0, "no offset at all: a reader would stand still")
    # Java's `writeHeader`: a time or none.
    require(base_ms >= -1 and max_ms >= -1, f"times {base_ms} to {max_ms}")
    is_producers = producer_id >= 0
    require(is_producers == (producer_epoch >= 0) == (base_sequence >= 0), "half a producer")
    codec = attributes & _CODEC_BITS
    if not count:
        # librdkafka and Java's streaming iterator open what the header names, whatever the count says.
        require(
            codec == 0 and len(batch) == HEADER_BYTES, "a batch without records that has bytes or a codec"
        )
        require(max_ms == -1, "no record has the largest time")
        return Batch(base_offset, base_offset + last_delta + 1, leader_epoch, producer_id, ())
    records = tuple(_records(_opened(codec, batch[HEADER_BYTES:]), count, base_offset, base_ms))
    require(records[-1].offset <= base_offset + last_delta, "a record behind the last offset")
    if attributes & _APPEND_TIME_BIT:
        require(max_ms >= 0, "a time of appending that is none")
        records = tuple(one._replace(timestamp_ms=max_ms) for one in records)
    else:
        # By it a time is searched: a record that is younger would not be found.
        require(max_ms == max(one.timestamp_ms for one in records), "the largest time is no record's")
    return Batch(base_offset, base_offset + last_delta + 1, leader_epoch, producer_id, records)


def _records(data: bytes, count: int, base_offset: int, base_ms: int) -> Iterator[ConsumedRecord]:
    """As Java's `DefaultRecord.readFrom`: each number is read, the bytes are those that were announced."""
    position, last_delta = 0, -1
    for _ in range(count):
        size, position = _varint(data, position)
        end = position + size
        require(size > 0 and end <= len(data), "a record ends behind its batch")
        time_delta, position = _varint(data, position + 1)
        offset_delta, position = _varint(data, position)
        require(offset_delta > last_delta, f"offset delta {offset_delta} behind {last_delta}")
        last_delta = offset_delta
        key, position = _bytes(data, position)
        value, position = _bytes(data, position)
        header_count, position = _varint(data, position)
        require(0 <= header_count <= end - position, f"{header_count} headers")
        headers = []
        for _ in range(header_count):
            name, position = _bytes(data, position)
            stated, position = _bytes(data, position)
            require(name is not None, "a header without a name")
            headers.append(((name or b"").decode(), stated))
        require(position == end, f"a record of {size} bytes ends {position - end} elsewhere")
        yield ConsumedRecord(base_offset + offset_delta, base_ms + time_delta, key, value, tuple(headers))
    # librdkafka reads on until the bytes end, Java demands that they do.
    require(position == len(data), f"{len(data) - position} bytes behind the last record")


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        require(position < len(data) and shift <= 63, "the bytes end inside a number")
        byte = data[position]
        value |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), position


def _bytes(data: bytes, position: int) -> tuple[bytes | None, int]:
    size, position = _varint(data, position)
    require(size >= -1 and position + max(size, 0) <= len(data), f"a field of {size} bytes")
    return (None, position) if size < 0 else (data[position : position + size], position + size)


# ---------------------------------------------------------------------------------- codecs


def _opened(codec: int, payload: bytes) -> bytes:
    require(codec <= _LARGEST_CODEC, f"codec {codec}")
    return (bytes, gzip.decompress, _snappy, _lz4, _zstd)[codec](payload)


def _snappy(payload: bytes) -> bytes:
    """Bare, as librdkafka writes it, or in the blocks of Java's stream."""
    if not payload.startswith(_XERIAL_MAGIC):
        return bytes(cramjam.snappy.decompress_raw(payload))
    version, compatible = struct.unpack_from(">ii", payload, 8)
    require(version >= 1 and compatible <= 1, f"snappy's version {version}, {compatible}")
    position, opened = 16, b""
    # librdkafka takes the header for one only with more than a length behind it.
    require(len(payload) > 20, "no block")
    while position < len(payload):
        (size,) = struct.unpack_from(">i", payload, position)
        require(0 < size <= len(payload) - position - 4, f"a snappy block of {size} bytes")
        opened += bytes(cramjam.snappy.decompress_raw(payload[position + 4 : position + 4 + size]))
        position += 4 + size
    return opened


def _lz4(payload: bytes) -> bytes:
    """One frame as Java's `Lz4BlockInputStream` takes it: no block leans on another, the header is sealed."""
    require(len(payload) >= 7 and struct.unpack_from("<I", payload)[0] == _LZ4_MAGIC, "no lz4 frame")
    flags, block = payload[4], payload[5]
    require(flags >> 6 == 1 and flags & 0x23 == 0x20, f"lz4 flags {flags:#x}")
    require(4 <= block >> 4 <= 7 and not block & 0x8F, f"lz4 block {block:#x}")
    end = 6 + (8 if flags & 0x08 else 0)
    require(payload[end] == (_xxh32(payload[4:end]) >> 8) & 0xFF, "the seal of the lz4 header")
    largest, position = 1 << (2 * (block >> 4) + 8), end + 1
    while size := struct.unpack_from("<I", payload, position)[0] & 0x7FFFFFFF:
        require(size <= largest, f"an lz4 block of {size} bytes")
        position += 4 + size + (4 if flags & 0x10 else 0)
    position += 4 + (4 if flags & 0x04 else 0)
    require(position == len(payload), "bytes behind the lz4 frame")
    return bytes(cramjam.lz4.decompress(payload))


def _xxh32(data: bytes) -> int:
    """Of less than 16 bytes."""
    one, two, three, four, five = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1
    mask, value, whole = 0xFFFFFFFF, five + len(data), len(data) // 4 * 4
    for (word,) in struct.iter_unpack("<I", data[:whole]):
        value = _turned((value + word * three) & mask, 17) * four & mask
    for byte in data[whole:]:
        value = _turned((value + byte * five) & mask, 11) * one & mask
    value = (value ^ value >> 15) * two & mask
    value = (value ^ value >> 13) * three & mask
    return value ^ value >> 16


def _turned(value: int, by: int) -> int:
    return (value << by | value >> (32 - by)) & 0xFFFFFFFF


def _zstd(payload: bytes) -> bytes:
    require(payload.startswith(_ZSTD_MAGIC), "no zstd frame")
    return bytes(cramjam.zstd.decompress(payload))


# ---------------------------------------------------------------------------------- a client's own code


def _require_the_same_of_aiokafka(data: bytes, found: list[Batch]) -> None:
    """Its parser reads what was read here, batch by batch."""
    reader, places = MemoryRecords(data), []
    while reader.has_next():
        batch = reader.next_batch()
        assert batch is not None
        require(batch.validate_crc(), "aiokafka's checksum")
        next_offset = batch.next_offset
        records = [
            ConsumedRecord(one.offset, one.timestamp or 0, one.key, one.value, tuple(one.headers))
            for one in batch
        ]
        places.append((next_offset, records))
    read_here = [(one.next_offset, list(one.records)) for one in found]
    require(places == read_here, "aiokafka reads something else")
