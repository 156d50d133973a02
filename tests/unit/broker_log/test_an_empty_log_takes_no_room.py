"""A log is on disk from its first record on, or from where a leader far ahead made it begin."""

from pathlib import Path
from uuid import UUID

import pytest

from broker.core.replica_log import PartitionKey
from broker.log.files import read_sealed
from broker.log.outcomes import LogSettings, StorageFailed
from broker.log.partition_log import PartitionLog
from broker.log.shelf import HIGH_WATERMARKS, RECOVERY_POINTS, STRAY, LogShelf
from tests.unit.broker_log.logs import append

FIRST = PartitionKey(UUID(int=1), 0)


def _shelf(folder: Path, was_clean: bool = False) -> LogShelf:
    shelf = LogShelf(folder, was_clean)
    shelf.scan()
    return shelf


def _log(shelf: LogShelf) -> PartitionLog:
    return shelf.log(FIRST, "orders", LogSettings(), 0)


def test_a_log_without_records_is_not_on_disk(tmp_path: Path) -> None:
    shelf = _shelf(tmp_path)
    log = _log(shelf)
    assert (log.start_offset, log.end_offset, log.last_epoch) == (0, 0, -1)
    assert log.read(0, 1_000, 0, at_least_one=True) is None
    assert log.first_from(0, 0) is None
    log.truncate_to(0, 0)
    shelf.checkpoint({FIRST: 0})
    assert list(tmp_path.iterdir()) == []
    assert shelf.keys == frozenset()
    assert shelf.close({FIRST: 0})


def test_its_first_record_brings_it_there(tmp_path: Path) -> None:
    shelf = _shelf(tmp_path)
    append(_log(shelf), b"a")
    assert shelf.keys == {FIRST}
    assert _log(_shelf(tmp_path)).end_offset == 1


def test_a_start_far_ahead_brings_it_there_too(tmp_path: Path) -> None:
    _log(_shelf(tmp_path)).start_again_at(70, 0)
    again = _log(_shelf(tmp_path))
    assert (again.start_offset, again.end_offset) == (70, 70)


def test_a_log_that_is_nowhere_can_be_dropped(tmp_path: Path) -> None:
    shelf = _shelf(tmp_path)
    log = _log(shelf)
    shelf.set_aside(FIRST, STRAY)
    assert list(tmp_path.iterdir()) == []
    assert _log(shelf) is not log


def test_a_folder_that_cannot_be_made_is_tried_again(tmp_path: Path) -> None:
    shelf = _shelf(tmp_path / "logs")
    log = _log(shelf)
    (tmp_path / "logs").rmdir()
    with pytest.raises(StorageFailed):
        append(log, b"a")
    assert log.end_offset == 0
    (tmp_path / "logs").mkdir()
    assert append(log, b"a") == 0


def test_a_log_that_was_cut_to_nothing_begins_at_nought_in_the_checkpoints(tmp_path: Path) -> None:
    """Else records that come later would count as durable, and go unchecked after a kill."""
    shelf = _shelf(tmp_path)
    log = _log(shelf)
    append(log, b"a")
    log.flush()
    shelf.checkpoint({FIRST: 1})
    log.truncate_to(0, 0)
    shelf.checkpoint({FIRST: 0})
    for name in (RECOVERY_POINTS, HIGH_WATERMARKS):
        assert read_sealed(tmp_path / name) == b"0\n0\n"
