"""When the file system refuses, the log is as before, and goes on as soon as there is room.

The refusal is the kernel's own: a limit on file size cuts a write in its middle, as a full disk does.
"""

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from broker.log.checkpoints import LEADER_EPOCHS
from broker.log.outcomes import LogSettings, StorageFailed
from tests.unit.broker_log.logs import append, opened, stored


@contextmanager
def files_end_at(size_bytes: int) -> Iterator[None]:
    """No file of this process grows beyond `size_bytes` inside the block."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_batch_that_does_not_fit_is_not_there_at_all(tmp_path: Path) -> None:
    log = opened(tmp_path, LogSettings())
    append(log, b"a" * 1_000, producer=(7, 0, 0))
    size_before = log.size_bytes
    with files_end_at(size_before + 500), pytest.raises(StorageFailed):
        append(log, b"b" * 1_000, producer=(7, 0, 1))
    assert (tmp_path / f"{0:020}.log").stat().st_size == size_before
    assert (log.end_offset, log.size_bytes) == (1, size_before)
    assert append(log, b"b" * 1_000, producer=(7, 0, 1)) == 1
    assert stored(opened(tmp_path)) == [(0, 1), (1, 2)]


def test_an_epoch_that_cannot_be_noted_is_not_begun(tmp_path: Path) -> None:
    log = opened(tmp_path, LogSettings())
    append(log, b"a", epoch=1)
    with files_end_at(3), pytest.raises(StorageFailed):
        append(log, b"b", epoch=2)
    assert (log.last_epoch, log.end_offset) == (1, 1)
    assert append(log, b"b", epoch=2) == 1
    assert opened(tmp_path).epochs.entries == [(1, 0), (2, 1)]


def test_a_batch_is_not_stored_when_nothing_but_the_note_of_its_epoch_fails(tmp_path: Path) -> None:
    """Else the next start would take it for damage, and its leader's tail would be lost (KAFKA-9769)."""
    log = opened(tmp_path, LogSettings())
    append(log, b"a", epoch=1)
    in_the_way = tmp_path / f"{LEADER_EPOCHS}.tmp"
    in_the_way.mkdir()
    with pytest.raises(StorageFailed):
        append(log, b"b", epoch=2)
    assert (log.last_epoch, log.end_offset, stored(log)) == (1, 1, [(0, 1)])
    in_the_way.rmdir()
    assert append(log, b"b", epoch=2) == 1
    assert opened(tmp_path).epochs.entries == [(1, 0), (2, 1)]


def test_a_segment_that_cannot_be_closed_keeps_the_log_as_it_was(tmp_path: Path) -> None:
    log = opened(tmp_path, LogSettings(segment_bytes=400))
    append(log, b"a" * 300)
    with files_end_at(10), pytest.raises(StorageFailed):
        append(log, b"b" * 300)
    assert log.end_offset == 1
    assert append(log, b"b" * 300) == 1
    assert stored(log) == [(0, 1), (1, 2)]
