"""Retention deletes whole segments from the start: old ones, surplus ones, never uncommitted ones."""

from pathlib import Path

from broker.log.files import OpenFiles
from broker.log.outcomes import LogSettings
from broker.log.partition_log import PartitionLog
from tests.unit.broker_log.logs import ORDERS, append, opened, stored


def test_segments_whose_youngest_record_is_too_old_go(tmp_path: Path) -> None:
    log = opened(tmp_path, LogSettings(segment_bytes=500, retention_ms=10_000))
    for number in range(10):
        append(log, b"x" * 300, timestamp_ms=1_000 * number)
    deleted = log.apply_retention(wall_ms=14_500, high_watermark=log.end_offset)
    assert (deleted, log.start_offset) == (5, 5)
    assert stored(log, log.start_offset)[0] == (5, 6)
    assert opened(tmp_path).start_offset == 5


def test_the_segment_that_is_written_goes_too_and_the_log_goes_on_where_it_ended(tmp_path: Path) -> None:
    log = opened(tmp_path, LogSettings(retention_ms=1))
    append(log, b"a", b"b", epoch=3)
    assert log.apply_retention(wall_ms=10**12, high_watermark=1) == 0, "one record is not committed"
    assert log.apply_retention(wall_ms=10**12, high_watermark=2) == 1
    assert (log.start_offset, log.end_offset, log.last_epoch) == (2, 2, 3)
    assert log.apply_retention(wall_ms=10**12, high_watermark=2) == 0, "an empty log has nothing to lose"
    again = opened(tmp_path)
    assert (again.start_offset, again.end_offset) == (2, 2)
    append(again, b"c", epoch=4)
    assert stored(again, 2) == [(2, 3)]


def test_records_without_a_time_are_as_old_as_their_file(tmp_path: Path) -> None:
    log = opened(tmp_path, LogSettings(segment_bytes=500, retention_ms=10_000))
    for _ in range(4):
        append(log, b"x" * 300, timestamp_ms=-1)
    written_ms = int((tmp_path / f"{0:020}.log").stat().st_mtime * 1000)
    assert log.apply_retention(wall_ms=written_ms + 9_000, high_watermark=3) == 0
    assert log.apply_retention(wall_ms=written_ms + 60_000, high_watermark=3) == 3


def test_a_log_that_is_not_deleted_from_keeps_what_is_old(tmp_path: Path) -> None:
    settings = LogSettings(segment_bytes=500, retention_ms=1, cleanup_policy=frozenset({"compact"}))
    log = opened(tmp_path, settings)
    for _ in range(4):
        append(log, b"x" * 300)
    assert log.apply_retention(wall_ms=10**12, high_watermark=4) == 0


def test_what_was_deleted_is_unlinked_later_and_comes_back_at_no_start(tmp_path: Path) -> None:
    files = OpenFiles()
    log = PartitionLog(tmp_path, ORDERS, files, LogSettings(segment_bytes=500, retention_ms=1))
    for _ in range(4):
        append(log, b"x" * 300)
    log.apply_retention(wall_ms=10**12, high_watermark=3)
    assert len(list(tmp_path.glob("*.deleted"))) == 3
    assert opened(tmp_path).start_offset == 3
    assert not list(tmp_path.glob("*.deleted"))
    append(log, b"x" * 300)
    log.apply_retention(wall_ms=10**12, high_watermark=4)
    files.erase()
    assert not list(tmp_path.glob("*.deleted"))


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
    log.apply_retention(wall_ms=10**12, high_watermark=6)
    assert log.epochs.entries == [(6, 6)]
