"""This room opens record batches for readers: keys, values, headers and timestamps, decompressed.

The decoder is aiokafka's; the broker itself never opens a batch.
"""

from collections.abc import Iterator
from typing import NamedTuple

from aiokafka.errors import CorruptRecordException, UnsupportedCodecError
from aiokafka.record.memory_records import MemoryRecords

from muster.kafkawire import batches
from muster.kafkawire.errors import CorruptBatch, UnsupportedCompression
from muster.kafkawire.framing import Buffer


class ConsumedRecord(NamedTuple):
    """One record as it lies in a log; `timestamp_ms` is wall time, -1 if the producer gave none."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def read_records(data: Buffer, from_offset: int) -> Iterator[ConsumedRecord]:
    """The records of `data` at or above `from_offset`; a last batch that is cut off is left out.

    A fetch answers whole batches, so the first may begin below the offset that was asked.
    Control batches hold no records of producers and are skipped. Raises CorruptBatch, and
    UnsupportedCompression if the codec's library is not installed.
    """
    view = memoryview(data)
    for start, header in batches.headers(view):
        if header.next_offset <= from_offset or header.attributes & batches.CONTROL_BIT:
            continue
        batches.check(view, start, header)
        yield from _records_of(bytes(view[start : start + header.size_bytes]), from_offset)


def _records_of(batch: bytes, from_offset: int) -> Iterator[ConsumedRecord]:
    try:
        reader = MemoryRecords(batch)
        while reader.has_next():
            opened = reader.next_batch()
            if opened is None:
                return
            for record in opened:
                if record.offset >= from_offset:
                    timestamp = -1 if record.timestamp is None else record.timestamp
                    headers = tuple(record.headers)
                    yield ConsumedRecord(record.offset, timestamp, record.key, record.value, headers)
    except UnsupportedCodecError as error:
        raise UnsupportedCompression(str(error)) from error
    except (CorruptRecordException, ValueError, IndexError) as error:
        raise CorruptBatch(f"the records do not fit their batch: {error}") from error
