"""This room makes logs in a folder for tests."""

import os
from pathlib import Path
from uuid import UUID

from broker.log.files import OpenFiles
from broker.log.opening import Trust
from broker.log.outcomes import LogSettings, StoredRecords
from broker.log.partition_log import PartitionLog
from muster.kafkawire import batches
from tests.unit.kafkawire.made_batches import NO_PRODUCER, made_batch, view

ORDERS = UUID(int=1)
SMALL = LogSettings(segment_bytes=1_000)


def opened(
    folder: Path, settings: LogSettings = SMALL, *, was_clean: bool = False, recovery_point: int = 0
) -> PartitionLog:
    """The log in `folder`, as a process that starts opens it."""
    folder.mkdir(exist_ok=True)
    log = PartitionLog(folder, ORDERS, OpenFiles(), settings)
    log.open(Trust(was_clean, recovery_point), now_ms=0)
    return log


def append(
    log: PartitionLog,
    *values: bytes,
    epoch: int = 1,
    producer: tuple[int, int, int] = NO_PRODUCER,
    timestamp_ms: int = 1_000,
) -> int:
    """Append one batch as the leader of `epoch`; returns its base offset."""
    made = made_batch(values, producer=producer, timestamp_ms=timestamp_ms)
    return log.append_as_leader(view(made), epoch, now_ms=0).base_offset


def stored(log: PartitionLog, offset: int = 0, limit: int | None = None) -> list[tuple[int, int]]:
    """(base offset, next offset) of every batch that a reader gets from `offset`, fetch after fetch."""
    found = []
    end = log.end_offset if limit is None else limit
    while offset < end:
        region = log.read(offset, 1_000_000, end, at_least_one=True)
        if region is None:
            break
        data = memoryview(bytes_of(region))
        for start, header in batches.headers(data):
            batches.check(data, start, header)
            found.append((header.base_offset, header.next_offset))
        offset = found[-1][1]
    return found


def bytes_of(records: StoredRecords) -> bytes:
    """What a reader would be sent."""
    if isinstance(records, bytes):
        return records
    return os.pread(records.file.fileno(), len(records), records.position)
