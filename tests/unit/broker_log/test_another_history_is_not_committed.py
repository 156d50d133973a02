"""What a file says of a log that was made anew, cut or damaged is not believed of what is there next."""

from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import pytest

from broker.core.replica_log import PartitionKey
from broker.log.outcomes import LogSettings
from broker.log.partition_log import PartitionLog
from broker.log.shelf import DELETE, LogShelf
from tests.unit.broker_log.logs import append

KEY, OTHER = PartitionKey(UUID(int=1), 0), PartitionKey(UUID(int=1), 1)
COMMITTED = 9


def _scanned(folder: Path) -> LogShelf:
    shelf = LogShelf(folder, was_clean=False)
    shelf.scan()
    return shelf


def _log(shelf: LogShelf, key: PartitionKey = KEY) -> PartitionLog:
    return shelf.log(key, "orders", LogSettings(), 0)


def _written(folder: Path) -> LogShelf:
    """A log of nine records, and one beside it."""
    shelf = _scanned(folder)
    for key in (KEY, OTHER):
        while _log(shelf, key).end_offset < COMMITTED:
            append(_log(shelf, key), b"old")
    return shelf


def _committed(folder: Path) -> LogShelf:
    """All of them are committed, as the checkpoint says."""
    shelf = _written(folder)
    shelf.checkpoint({KEY: COMMITTED, OTHER: COMMITTED})
    return shelf


def _made_anew(shelf: LogShelf) -> None:
    shelf.set_aside(KEY, DELETE)


def _cut(shelf: LogShelf) -> None:
    _log(shelf).truncate_to(4, 0)


def _begun_again(shelf: LogShelf) -> None:
    _log(shelf).start_again_at(4, 0)


@pytest.mark.parametrize("end_offset", [6, 12])
@pytest.mark.parametrize("part", [_made_anew, _cut, _begun_again])
def test_a_start_after_a_kill_takes_no_other_history_for_committed(
    tmp_path: Path, part: Callable[[LogShelf], None], end_offset: int
) -> None:
    shelf = _committed(tmp_path)
    part(shelf)
    while _log(shelf).end_offset < end_offset:
        append(_log(shelf), b"another", epoch=2)
    again = _scanned(tmp_path)
    assert _log(again).end_offset == end_offset
    assert again.high_watermarks.get(KEY, 0) <= 4
    assert again.high_watermarks[OTHER] == COMMITTED
    assert again.damaged == {}, "nothing is missed that was given up"


@pytest.mark.parametrize("comes_last", [False, True])
@pytest.mark.parametrize("part", [_made_anew, _cut, _begun_again])
def test_nor_by_what_a_thread_had_still_to_write(
    tmp_path: Path, part: Callable[[LogShelf], None], comes_last: bool
) -> None:
    shelf = _written(tmp_path)
    begun = shelf.begin_checkpoint({KEY: COMMITTED, OTHER: COMMITTED})
    part(shelf)
    if not comes_last:
        begun.write()
    while _log(shelf).end_offset < COMMITTED + 3:
        append(_log(shelf), b"another", epoch=2)
    if comes_last:
        begun.write()
    again = _scanned(tmp_path)
    assert again.high_watermarks.get(KEY, 0) <= 4
    assert again.high_watermarks[OTHER] == COMMITTED
    assert begun.settle() is (not comes_last and part is _made_anew), "what is written since is not undone"
    shelf.checkpoint({KEY: COMMITTED + 3, OTHER: COMMITTED})
    assert _scanned(tmp_path).high_watermarks == {KEY: COMMITTED + 3, OTHER: COMMITTED}


def test_logs_that_were_set_aside_are_not_missed(tmp_path: Path) -> None:
    shelf = _committed(tmp_path)
    shelf.set_aside(KEY, DELETE)
    shelf.forget_set_aside()
    again = _scanned(tmp_path)
    assert (again.damaged, again.high_watermarks) == ({}, {OTHER: COMMITTED})


def test_what_was_confessed_once_is_missed_no_more(tmp_path: Path) -> None:
    folder = _log(_committed(tmp_path)).folder
    (path,) = folder.glob("*.log")
    path.write_bytes(path.read_bytes()[:-1])
    shelf = _scanned(tmp_path)
    assert _log(shelf).end_offset == COMMITTED - 1
    assert list(shelf.damaged) == [KEY]
    shelf.confessed()
    again = _scanned(tmp_path)
    assert _log(again).end_offset == COMMITTED - 1
    assert again.damaged == {}
