"""This room looks whether time acts on logs: age closes segments, and deletes what they hold."""

from broker.hosted import HostedPartition
from broker.log.partition_log import PartitionLog
from broker.log.segment import Segment
from muster.kafkawire.batches import NO_TIMESTAMP, BatchHeader


def closed_by_age(log: PartitionLog, newest_ms: int) -> Segment | None:
    """The segment that is written, if a batch of that time must not go into it."""
    active = log._segments.active
    first = next((header for _, header in active.headers()), None) if active is not None else None
    if log.failure or first is None or first.max_timestamp_ms == NO_TIMESTAMP:
        return None
    settings = log.settings
    lag_ms = settings.max_compaction_lag_ms if settings.compacts else settings.segment_ms
    is_closed = newest_ms - first.max_timestamp_ms > min(settings.segment_ms, lag_ms)
    return active if is_closed else None


def looked_at(log: PartitionLog) -> list[BatchHeader]:
    """What lies there."""
    return [] if log.failure else list(log.headers_from(log.start_offset))


def why_not_obeyed(hosted: HostedPartition, before: list[BatchHeader], wall_ms: int) -> str:
    """What retention left that is too old, or deleted of `before` that is not; "" if nothing."""
    log, settings = hosted.log, hosted.log.settings
    if log.failure or not settings.deletes:
        return ""
    is_timed = (one for one in before if one.max_timestamp_ms != NO_TIMESTAMP)
    gone = [one for one in is_timed if one.next_offset <= log.start_offset]
    if settings.retention_bytes < 0 and not all(_is_old(one, settings.retention_ms, wall_ms) for one in gone):
        return "what is not too old was deleted"
    oldest = next(iter(log._segments), None)
    left = [header for _, header in oldest.headers()] if oldest is not None else []
    is_committed = bool(left) and left[-1].next_offset <= hosted.high_watermark
    if is_committed and all(_is_old(one, settings.retention_ms, wall_ms) for one in left):
        return "what is too old is still there"
    return ""


def _is_old(one: BatchHeader, retention_ms: int, wall_ms: int) -> bool:
    return one.max_timestamp_ms != NO_TIMESTAMP and 0 <= retention_ms < wall_ms - one.max_timestamp_ms
