"""This room says how many of a log's oldest segments are deleted, too old or too much."""

from broker.log.outcomes import LogSettings
from broker.log.segments import Segments


def surplus(
    segments: Segments,
    settings: LogSettings,
    wall_ms: int,
    start_offset: int,
    high_watermark: int,
    end_offset: int,
) -> int:
    """How many of the oldest may go, the one that is written included; never what is not committed.

    A segment is as old as its youngest record, or as its file where the records have no time. What lies
    below the log's start goes whatever the policy is. Raises OSError.
    """
    if not len(segments):
        return 0
    excess = segments.size_bytes - settings.retention_bytes if settings.retention_bytes >= 0 else 0
    count = 0
    for segment, behind in zip(segments, (*segments.bases[1:], end_offset), strict=True):
        is_excess = settings.retention_bytes >= 0 and excess >= segment.size_bytes
        if not segment.size_bytes or behind > high_watermark:
            break
        is_old = is_excess or 0 <= settings.retention_ms < wall_ms - segment.youngest_ms()
        if behind > start_offset and not (settings.deletes and is_old):
            break
        excess -= segment.size_bytes
        count += 1
    return count
