"""Retention deletes whole segments from the start: old ones, surplus ones, never uncommitted ones."""

from pathlib import Path

from broker.log.outcomes import LogSettings
from tests.unit.broker_log.logs import append, opened, stored


def test_segments_whose_youngest_record_is_too_old_go(tmp_path: Path) -> None:
    log = opened(tmp_path, LogSettings(segment_bytes=500, retention_ms=10_000))
    for number in range(10):
        append(log, b"x" * 300, timestamp_ms=1_000 * number)
    deleted = log.apply_retention(wall_ms=14_500, high_watermark=log.end_offset)
    assert (deleted, log.start_offset) == (5, 5)
    assert stored(log, log.start_offset)[0] == (5, 6)
    assert opened(tmp_path).start_offset == 5


def test_the_segment_that_is_written_stays_however_old(tmp_path: Path) -> None:
    log = opened(tmp_path, LogSettings(retention_ms=1))
    append(log, b"a")
    assert log.apply_retention(wall_ms=10**12, high_watermark=1) == 0


def test_what_is_not_committed_stays(tmp_path: Path) -> None:
    log = opened(tmp_path, LogSettings(segment_bytes=500, retention_ms=1))
    for _ in range(10):
        append(log, b"x" * 300)
    log.apply_retention(wall_ms=10**12, high_watermark=3)
    assert log.start_offset == 3


def test_surplus_bytes_go_and_the_bound_is_kept(tmp_path: Path) -> None:
    log = opened(tmp_path, LogSettings(segment_bytes=500, retention_ms=-1, retention_bytes=1_200))
    for _ in range(10):
        append(log, b"x" * 300)
    log.apply_retention(wall_ms=0, high_watermark=10)
    assert 1_200 <= log.size_bytes < 1_200 + 500


def test_without_bounds_nothing_goes(tmp_path: Path) -> None:
    log = opened(tmp_path, LogSettings(segment_bytes=500, retention_ms=-1))
    for _ in range(5):
        append(log, b"x" * 300)
    assert log.apply_retention(wall_ms=10**12, high_watermark=5) == 0


def test_epochs_before_the_start_are_forgotten(tmp_path: Path) -> None:
    log = opened(tmp_path, LogSettings(segment_bytes=500, retention_ms=1))
    for epoch in range(1, 7):
        append(log, b"x" * 300, epoch=epoch)
    log.apply_retention(wall_ms=10**12, high_watermark=4)
    assert log.epochs.entries == [(5, 4), (6, 5)]
