"""This room opens record batches for readers: keys, values, headers and timestamps, decompressed.

The decoder is aiokafka's; the broker itself never opens a batch.
"""

import struct
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from aiokafka.record.memory_records import MemoryRecords

from muster.kafkawire import batches
from muster.kafkawire.compression import decompress
from muster.kafkawire.errors import CorruptBatch
from muster.kafkawire.framing import Buffer

DEFAULT_LIMIT_BYTES: Final = 64 * 1024 * 1024
"""To how much the records of one batch may be decompressed, if nobody says otherwise."""

_LENGTH = struct.Struct(">i")
_LENGTH_AT: Final = 8
_ATTRIBUTES = struct.Struct(">h")
_ATTRIBUTES_AT: Final = 21


class ConsumedRecord(NamedTuple):
    """One record as it lies in a log; `timestamp_ms` is wall time, -1 if the producer gave none."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def read_records(
    data: Buffer,
    from_offset: int,
    limit_bytes: int = DEFAULT_LIMIT_BYTES,
    opened: Callable[[int], None] = lambda size_bytes: None,
) -> Iterator[ConsumedRecord]:
    """The records of `data` at or above `from_offset`; a last batch that is cut off is left out.

    A fetch answers whole batches, so the first may begin below the offset that was asked.
    Control batches hold no records of producers and are skipped. `opened` hears how many bytes each of the
    others has, decompressed. Raises CorruptBatch, also for records that would take more than `limit_bytes`
    decompressed, and UnsupportedCompression.
    """
    view = memoryview(data)
    for start, header in batches.headers(view):
        if header.next_offset <= from_offset or header.attributes & batches.CONTROL_BIT:
            continue
        if not header.record_count:
            # What a compaction left of it: a place.
            continue
        batches.check(view, start, header)
        batch = _without_compression(view[start : start + header.size_bytes], header, limit_bytes)
        opened(len(batch))
        yield from _records_of(batch, from_offset)


def _records_of(batch: bytes, from_offset: int) -> Iterator[ConsumedRecord]:
    new = tuple.__new__
    try:
        reader = MemoryRecords(batch)
        while reader.has_next():
            opened = reader.next_batch()
            if opened is None:
                return
            for record in opened:
                offset = record.offset
                if offset >= from_offset:
                    timestamp, headers = record.timestamp, record.headers
                    # What `ConsumedRecord(...)` does as well, at twice the price, for every record.
                    yield new(
                        ConsumedRecord,
                        (
                            offset,
                            -1 if timestamp is None else timestamp,
                            record.key,
                            record.value,
                            tuple(headers) if headers else (),
                        ),
                    )
    # Behind a checksum that fits may lie anything; whatever the decoder trips over, it is no record.
    except Exception as error:
        raise CorruptBatch(f"the records do not fit their batch: {error}") from error


def _without_compression(batch: memoryview, header: batches.BatchHeader, limit_bytes: int) -> bytes:
    """The same batch as if its producer had not compressed it; the decoder does not look at the checksum."""
    if not header.codec:
        return bytes(batch)
    records = decompress(header.codec, batch[batches.HEADER_BYTES :], limit_bytes)
    head = bytearray(batch[: batches.HEADER_BYTES])
    length = batches.HEADER_BYTES + len(records) - batches.LENGTH_OVERHEAD_BYTES
    _LENGTH.pack_into(head, _LENGTH_AT, length)
    _ATTRIBUTES.pack_into(head, _ATTRIBUTES_AT, header.attributes & ~batches.CODEC_BITS)
    return b"".join((head, records))
