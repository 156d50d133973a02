"""This room makes logs with keys for tests, compacts them, and reads what is left."""

from collections.abc import Sequence
from pathlib import Path

from aiokafka.record.default_records import DefaultRecordBatchBuilder

from broker.log.compaction import MOST_KEYS, LastOffsets, Task, compacted
from broker.log.outcomes import LogSettings
from broker.log.partition_log import PartitionLog
from muster.kafkawire import batches
from muster.kafkawire.records import ConsumedRecord
from tests.unit.broker_log.logs import bytes_of
from tests.unit.kafkawire.made_batches import NO_PRODUCER, view
from tests.unit.kafkawire.strict_reader import records_in, strictly_read

COMPACT = LogSettings(segment_bytes=400, cleanup_policy=frozenset({"compact"}), min_cleanable_dirty_ratio=0.0)

Pair = tuple[bytes | None, bytes | None]


def keyed(
    pairs: Sequence[Pair],
    *,
    producer: tuple[int, int, int] = NO_PRODUCER,
    compression: int = 0,
    timestamp_ms: int = 1_000,
    step_ms: int = 1,
) -> bytes:
    """A batch of keys and values, each `step_ms` younger than the one before; no value is a tombstone."""
    producer_id, epoch, sequence = producer
    builder = DefaultRecordBatchBuilder(
        magic=2, compression_type=compression, is_transactional=False, producer_id=producer_id,
        producer_epoch=epoch, base_sequence=sequence, batch_size=16 * 1024 * 1024,
    )  # fmt: skip
    for index, (key, value) in enumerate(pairs):
        builder.append(index, timestamp_ms + step_ms * index, key, value, [])
    return bytes(builder.build())


def put(log: PartitionLog, *pairs: Pair, epoch: int = 1, **made: object) -> int:
    """Append one batch; returns its base offset."""
    batch = keyed(pairs, **made)  # type: ignore[arg-type]
    return log.append_as_leader(view(batch), epoch, now_ms=0).base_offset


def task_of(log: PartitionLog, *, wall_ms: int = 10**9, high_watermark: int | None = None) -> Task | None:
    """What a pass over this log would do; None: nothing."""
    cleaning = log.cleaning
    if cleaning.passes is None:
        cleaning.load()
    assert cleaning.passes is not None
    hw = log.end_offset if high_watermark is None else high_watermark
    found = cleaning.dirt(log.settings, hw, wall_ms)
    if not found.dirty_bytes:
        return None
    last = {number: state.batches[-1].base_offset for number, state in log.producers.states()}
    old_to = cleaning.passes.old_to(wall_ms, log.settings.delete_retention_ms)
    return Task(cleaning.sources(found), cleaning.passes.clean_to, old_to, log.settings.segment_bytes, last)


def compact(
    log: PartitionLog,
    *,
    wall_ms: int = 10**9,
    high_watermark: int | None = None,
    most_keys: int = MOST_KEYS,
) -> int:
    """One pass, as the cleaner makes it; returns up to where it went."""
    task = task_of(log, wall_ms=wall_ms, high_watermark=high_watermark)
    if task is None:
        return 0
    latest = LastOffsets(task, most_keys)
    for cleaned in compacted(task, latest):
        assert log.swap_in(cleaned)
    passes = log.cleaning.passes
    assert passes is not None
    passes.note(latest.end_offset, wall_ms, log.settings.delete_retention_ms)
    return latest.end_offset


def records(log: PartitionLog) -> list[ConsumedRecord]:
    """All that a reader gets, fetch after fetch, by the strictest of readers."""
    found: list[ConsumedRecord] = []
    offset = log.start_offset
    while offset < log.end_offset:
        region = log.read(offset, 300, log.end_offset, at_least_one=True)
        assert region is not None
        fetched = strictly_read(bytes_of(region))
        assert fetched[0].base_offset <= offset < fetched[0].next_offset
        found += records_in(fetched, offset)
        offset = fetched[-1].next_offset
    return found


def ends(data: bytes) -> int:
    """The offset behind the last batch of some."""
    return max(header.next_offset for _, header in batches.headers(data))


def segments(folder: Path) -> list[int]:
    return sorted(int(path.stem) for path in folder.glob("*.log"))
