"""This room says how many of a log's oldest segments are too old or too much."""

from broker.log.outcomes import LogSettings
from broker.log.segments import Segments


def surplus(segments: Segments, settings: LogSettings, wall_ms: int, high_watermark: int) -> int:
    """How many of the oldest may go; never the one that is written, nor what is not committed."""
    excess = segments.size_bytes - settings.retention_bytes if settings.retention_bytes >= 0 else 0
    count = 0
    for segment, end_offset in zip(segments, segments.bases[1:], strict=False):
        is_old = 0 <= settings.retention_ms < wall_ms - segment.max_timestamp_ms
        is_excess = excess >= segment.size_bytes
        if end_offset > high_watermark or not ((is_old and segment.max_timestamp_ms >= 0) or is_excess):
            break
        excess -= segment.size_bytes
        count += 1
    return count
