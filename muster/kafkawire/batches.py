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

HEADER_BYTES: Final = 61
LENGTH_OVERHEAD_BYTES: Final = 12
"""Base offset and length: what the length field of a batch does not count."""

NO_PRODUCER: Final = -1
CONTROL_BIT: Final = 0x20
TRANSACTIONAL_BIT: Final = 0x10

_HEADER = struct.Struct(">qiibIhiqqqhii")
_CRC_START = 21
_PLACE = struct.Struct(">q")
_EPOCH = struct.Struct(">i")
_SIZE = struct.Struct(">qi")


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
    def last_sequence(self) -> int:
        """The sequence number of the last record; numbers wrap at 2³¹ (KIP-98)."""
        return (self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF


def read_header(buffer: Buffer, start: int = 0) -> BatchHeader:
    """The header of the batch that begins at `start`, not yet checked against its bytes.

    Raises CorruptBatch if fewer than 61 bytes are there, or magic or length cannot be.
    """
    try:
        fields = _HEADER.unpack_from(buffer, start)
    except struct.error as error:
        raise CorruptBatch("the bytes end inside a batch header") from error
    base_offset, length, leader_epoch, magic, *rest = fields
    if magic != 2:
        raise CorruptBatch(f"magic {magic}, only 2 is served")
    if length < HEADER_BYTES - LENGTH_OVERHEAD_BYTES:
        raise CorruptBatch(f"a batch length of {length}")
    return BatchHeader(base_offset, length + LENGTH_OVERHEAD_BYTES, leader_epoch, *rest)


def check(view: memoryview, start: int, header: BatchHeader) -> None:
    """Raise CorruptBatch unless the bytes from `start` hold the whole batch with its checksum."""
    end = start + header.size_bytes
    if end > len(view):
        raise CorruptBatch("the bytes end inside a batch")
    if header.record_count < 1 or header.last_offset_delta != header.record_count - 1:
        # A compacted batch may hold fewer records than offsets; producers' batches may not,
        # and Muster compacts nothing.
        raise CorruptBatch(f"{header.record_count} records, last delta {header.last_offset_delta}")
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


def place(buffer: Buffer, start: int) -> tuple[int, int]:
    """(base offset, size in bytes) of the batch at `start`, of whose header 12 bytes must be there."""
    base_offset, length = _SIZE.unpack_from(buffer, start)
    return base_offset, length + LENGTH_OVERHEAD_BYTES
