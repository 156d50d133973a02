"""This room reads the headers of record batches; the records behind a header stay opaque.

Layout of magic 2: KIP-98. Base offset and leader epoch lie outside the checksum, so that a broker
may write them into the batch it received.
"""

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from crc32c import crc32c

from muster.kafkawire.errors import CorruptBatch
from muster.kafkawire.framing import Buffer
from muster.kernel.tuples import made

HEADER_BYTES: Final = 61
LENGTH_OVERHEAD_BYTES: Final = 12
"""Base offset and length: what the length field of a batch does not count."""

NO_PRODUCER: Final = -1
"""Whatever is below names none either, as with Kafka."""
NO_TIMESTAMP: Final = -1
CODEC_BITS: Final = 0x07
"""How the records are compressed; 0: not."""
ZSTD: Final = 4
APPEND_TIME_BIT: Final = 0x08
"""The one time of all records of the batch is its largest: when the broker took it."""
CONTROL_BIT: Final = 0x20
TRANSACTIONAL_BIT: Final = 0x10

_HEADER = struct.Struct(">qiibIhiqqqhii")
_CRC_AT = 17
_CRC_START = 21
_LARGEST_TIME_AT = 35
_PLACE = struct.Struct(">q")
_EPOCH = struct.Struct(">i")
_SIZE = struct.Struct(">qi")
_ATTRIBUTES = struct.Struct(">h")
_CRC = struct.Struct(">I")
_COUNT = struct.Struct(">i")
_COUNT_AT = 57


class BatchHeader(NamedTuple):
    """The header of one record batch; `size_bytes` is that of the whole batch, header included."""

    base_offset: int
    size_bytes: int
    leader_epoch: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def next_offset(self) -> int:
        """The offset behind the batch's last record."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec(self) -> int:
        """How its records are compressed (KIP-98; 1 to 4); 0: not at all, or there are none."""
        return self.attributes & CODEC_BITS if self.record_count else 0

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last record; numbers wrap at 2³¹ (KIP-98)."""
        return (self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF


def read_header(buffer: Buffer, start: int = 0) -> BatchHeader:
    """The header of the batch that begins at `start`, not yet checked against its bytes.

    Raises CorruptBatch if fewer than 61 bytes are there, or magic or length cannot be.
    """
    try:
        (
            base_offset, length, leader_epoch, magic, crc, attributes, last_offset_delta, base_timestamp_ms,
            max_timestamp_ms, producer_id, producer_epoch, base_sequence, record_count,
        ) = _HEADER.unpack_from(buffer, start)  # fmt: skip
    except struct.error as error:
        raise CorruptBatch("the bytes end inside a batch header") from error
    if magic != 2:
        raise CorruptBatch(f"magic {magic}, only 2 is served")
    if length < HEADER_BYTES - LENGTH_OVERHEAD_BYTES:
        raise CorruptBatch(f"a batch length of {length}")
    fields = (
        base_offset, length + LENGTH_OVERHEAD_BYTES, leader_epoch, crc, attributes, last_offset_delta,
        base_timestamp_ms, max_timestamp_ms, producer_id, producer_epoch, base_sequence, record_count,
    )  # fmt: skip
    return made(BatchHeader, fields)


def check(view: memoryview, start: int, header: BatchHeader) -> None:
    """Raise CorruptBatch unless the bytes from `start` hold the whole batch with its checksum."""
    if header.last_offset_delta < 0 or not 0 <= header.record_count <= header.last_offset_delta + 1:
        # A compacted batch holds fewer records than offsets, perhaps none; but it has offsets.
        raise CorruptBatch(f"{header.record_count} records, last delta {header.last_offset_delta}")
    check_bytes(view, start, header)


def check_bytes(view: memoryview, start: int, header: BatchHeader) -> None:
    """The same, whatever the header says of the records: it says what its producer wrote."""
    end = start + header.size_bytes
    if end > len(view):
        raise CorruptBatch("the bytes end inside a batch")
    if crc32c(view[start + _CRC_START : end]) != header.crc:
        raise CorruptBatch("the checksum does not fit the bytes")


def headers(buffer: Buffer) -> Iterator[tuple[int, BatchHeader]]:
    """(start, header) of each whole batch in `buffer`; a last one that is cut off is left out.

    Raises CorruptBatch for a header that cannot be.
    """
    start, size = 0, len(buffer)
    while start + HEADER_BYTES <= size:
        header = read_header(buffer, start)
        if start + header.size_bytes > size:
            return
        yield start, header
        start += header.size_bytes


def stamp(buffer: bytearray | memoryview, start: int, base_offset: int, leader_epoch: int) -> None:
    """Write where the batch lies and who led; both are outside the checksum."""
    _PLACE.pack_into(buffer, start, base_offset)
    _EPOCH.pack_into(buffer, start + LENGTH_OVERHEAD_BYTES, leader_epoch)


def stamp_append_time(view: memoryview, start: int, header: BatchHeader, now_ms: int) -> BatchHeader:
    """Write into the batch when it was taken, and its new checksum; returns what its header says then."""
    attributes = header.attributes | APPEND_TIME_BIT
    _ATTRIBUTES.pack_into(view, start + _CRC_START, attributes)
    _PLACE.pack_into(view, start + _LARGEST_TIME_AT, now_ms)
    crc = crc32c(view[start + _CRC_START : start + header.size_bytes])
    _CRC.pack_into(view, start + _CRC_AT, crc)
    return header._replace(attributes=attributes, max_timestamp_ms=now_ms, crc=crc)


def filler(base_offset: int, next_offset: int, leader_epoch: int) -> bytes:
    """An empty batch, of no producer, for offsets whose records were compacted away."""
    head = bytearray(HEADER_BYTES)
    _HEADER.pack_into(
        head, 0, base_offset, HEADER_BYTES - LENGTH_OVERHEAD_BYTES, leader_epoch, 2, 0, 0,
        next_offset - base_offset - 1, NO_TIMESTAMP, NO_TIMESTAMP, NO_PRODUCER, -1, -1, 0,
    )  # fmt: skip
    _CRC.pack_into(head, _CRC_AT, crc32c(memoryview(head)[_CRC_START:]))
    return bytes(head)


def is_filler(header: BatchHeader) -> bool:
    """It only stands for offsets."""
    return not header.record_count and header.producer_id == NO_PRODUCER


def rewritten(
    batch: Buffer, header: BatchHeader, payload: bytes | memoryview, count: int, max_timestamp_ms: int
) -> bytes:
    """The same batch with fewer records: its place, its producer, its offsets and base time stay.

    Of one without records nothing is compressed, nor may its header say so: clients open what it names.
    """
    made = _with_payload(batch, header, payload)
    _PLACE.pack_into(made, _LARGEST_TIME_AT, max_timestamp_ms)
    _COUNT.pack_into(made, _COUNT_AT, count)
    if not count:
        _ATTRIBUTES.pack_into(made, _CRC_START, header.attributes & ~CODEC_BITS)
    return bytes(_sealed(made))


def recompressed(batch: Buffer, header: BatchHeader, payload: bytes | memoryview, codec: int) -> bytearray:
    """The same batch whose records, `payload`, are compressed by `codec` (KIP-98; 0: not at all)."""
    made = _with_payload(batch, header, payload)
    _ATTRIBUTES.pack_into(made, _CRC_START, header.attributes & ~CODEC_BITS | codec)
    return _sealed(made)


def _with_payload(batch: Buffer, header: BatchHeader, payload: bytes | memoryview) -> bytearray:
    made = bytearray(HEADER_BYTES + len(payload))
    made[:HEADER_BYTES] = memoryview(batch)[:HEADER_BYTES]
    made[HEADER_BYTES:] = payload
    _SIZE.pack_into(made, 0, header.base_offset, len(made) - LENGTH_OVERHEAD_BYTES)
    return made


def _sealed(made: bytearray) -> bytearray:
    _CRC.pack_into(made, _CRC_AT, crc32c(memoryview(made)[_CRC_START:]))
    return made


def place(buffer: Buffer, start: int) -> tuple[int, int]:
    """(base offset, size in bytes) of the batch at `start`, of whose header 12 bytes must be there."""
    base_offset, length = _SIZE.unpack_from(buffer, start)
    return base_offset, length + LENGTH_OVERHEAD_BYTES
