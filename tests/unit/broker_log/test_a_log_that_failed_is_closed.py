"""What leaves files and memory apart closes a log for good: nothing is read from it, nothing believed of it.

The refusals are the kernel's where it can be brought to it; a disk that fails an fsync is simulated.
"""

import errno
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn
from unittest.mock import patch

import pytest

from broker.log.files import OpenFiles
from broker.log.opening import Trust
from broker.log.outcomes import LogSettings, StorageFailed
from broker.log.partition_log import PartitionLog
from tests.unit.broker_log.logs import ORDERS, append, opened, stored


def _fails(*_arguments: object) -> NoReturn:
    raise OSError(errno.EIO, "the disk failed")


def _written(folder: Path, count: int = 10) -> PartitionLog:
    log = opened(folder, LogSettings())
    for _ in range(count):
        append(log, b"old", epoch=1)
    return log


def _is_closed(log: PartitionLog) -> bool:
    for use in (
        lambda: append(log, b"new", epoch=2),
        lambda: log.truncate_to(1, 0),
        lambda: log.read(0, 1_000, 1, at_least_one=True),
        lambda: log.first_from(0, 1),
        log.flush,
    ):
        with pytest.raises(StorageFailed):
            use()
    return bool(log.failure)


def test_a_cut_that_failed_leaves_no_divergent_bytes_behind_new_ones(tmp_path: Path) -> None:
    """Appended behind a cut that never reached the file, the old batches would win at the next start."""
    log = _written(tmp_path)
    with patch("os.ftruncate", _fails), pytest.raises(StorageFailed):
        log.truncate_to(5, 0)
    assert _is_closed(log)
    again = opened(tmp_path, LogSettings())
    assert (again.end_offset, again.epochs.entries) == (10, [(1, 0)])


def test_an_fsync_that_failed_is_not_tried_again(tmp_path: Path) -> None:
    """Linux tells a lost write once; the next fsync succeeds, and the bytes stay gone."""
    log = _written(tmp_path)
    with patch("os.fsync", _fails), pytest.raises(StorageFailed):
        log.flush()
    assert _is_closed(log)
    assert log.recovery_point == 0


def test_a_write_that_cannot_be_undone_closes_the_log(tmp_path: Path) -> None:
    log = _written(tmp_path)
    with patch("os.pwrite", _fails), patch("os.ftruncate", _fails), pytest.raises(StorageFailed):
        append(log, b"new")
    assert _is_closed(log)


def test_a_write_that_was_undone_leaves_the_log_open(tmp_path: Path) -> None:
    log = _written(tmp_path)
    with patch("os.pwrite", _fails), pytest.raises(StorageFailed):
        append(log, b"new")
    assert (log.failure, append(log, b"new")) == ("", 10)


def test_a_batch_that_a_reader_cannot_find_closes_the_log_and_is_looked_for_at_the_next_start(
    tmp_path: Path,
) -> None:
    log = _written(tmp_path)
    log.flush()
    (path,) = tmp_path.glob("*.log")
    os.truncate(path, path.stat().st_size // 2)
    raw = bytearray(path.read_bytes())
    raw[16] ^= 0x01
    path.write_bytes(raw)
    again = opened(tmp_path, LogSettings(), was_clean=False, recovery_point=0)
    assert again.end_offset == 0
    log._segments.active._hints.clear()  # type: ignore[union-attr]
    with pytest.raises(StorageFailed):
        log.read(3, 1_000, 10, at_least_one=True)
    assert _is_closed(log)
    assert log.recovery_point == 3


def test_who_hosts_the_log_hears_of_it_once(tmp_path: Path) -> None:
    log = _written(tmp_path)
    heard: list[str] = []
    log.on_failure = lambda: heard.append(log.failure)
    log.fail("the disk is gone")
    log.fail("again")
    assert heard == ["the disk is gone"]


def test_the_next_process_confesses_it(tmp_path: Path) -> None:
    """After an fsync that failed the page cache holds what the disk may not."""
    log = _written(tmp_path)
    log.fail("an fsync failed")
    again = PartitionLog(tmp_path, ORDERS, OpenFiles(), LogSettings())
    assert again.open(Trust(), 0) == "an fsync failed"
    assert again.end_offset == 10


def test_an_epoch_that_was_stated_and_never_came_is_not_held_against_the_next_one(tmp_path: Path) -> None:
    """A full disk keeps the first batch of epoch 5 out; then a leader of epoch 6 has more of epoch 3."""
    log = opened(tmp_path, LogSettings())
    append(log, b"a", epoch=3)
    with patch("os.pwrite", _fails), pytest.raises(StorageFailed):
        append(log, b"b", epoch=5)
    append(log, b"c", epoch=3)
    again = opened(tmp_path, LogSettings())
    assert (stored(again), again.epochs.entries) == ([(0, 1), (1, 2)], [(3, 0)])


@contextmanager
def _no_descriptor_left() -> Iterator[None]:
    """This process can open no file."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(name) for name in os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(highest + 2, hard), hard))
    taken: list[int] = []
    try:
        with pytest.raises(OSError):
            while True:
                taken.append(os.open(os.devnull, os.O_RDONLY))
        yield
    finally:
        for descriptor in taken:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_cut_for_which_no_file_can_be_opened_is_put_off(tmp_path: Path) -> None:
    """The file of epochs, behind the cut, would need one: the log would be closed for good."""
    log = _written(tmp_path, 4)
    with _no_descriptor_left():
        with pytest.raises(StorageFailed):
            log.truncate_to(2, 0)
        with pytest.raises(StorageFailed):
            log.start_again_at(9, 0)
        with pytest.raises(StorageFailed):
            log.flush()
    assert (log.failure, log.end_offset, len(stored(log))) == ("", 4, 4)
    log.truncate_to(2, 0)
    assert (log.end_offset, len(stored(log))) == (2, 2)
