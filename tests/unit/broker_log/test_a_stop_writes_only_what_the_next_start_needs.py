"""This room tests which files a clean stop leaves beside the batches, and that it repeats none."""

import os
from pathlib import Path

import pytest

from broker.log.files import OpenFiles
from broker.log.opening import Trust
from broker.log.outcomes import LogSettings
from broker.log.partition_log import PartitionLog
from broker.log.segment import INDEX_INTERVAL_BYTES
from tests.unit.broker_log.logs import ORDERS, append, opened, stored

LARGE = LogSettings()


def _closed(folder: Path, batches: int, value: bytes) -> PartitionLog:
    log = opened(folder, LARGE)
    for number in range(batches):
        append(log, value, producer=(7, 0, number))
    log.flush()
    log.close()
    return log


def _beside(folder: Path) -> set[str]:
    return {path.suffix for path in folder.iterdir()} & {".index", ".snapshot"}


def test_a_log_of_a_few_batches_leaves_neither_index_nor_producers(tmp_path: Path) -> None:
    _closed(tmp_path / "t-0", 3, b"few")

    assert _beside(tmp_path / "t-0") == set()
    again = opened(tmp_path / "t-0", LARGE, was_clean=True, recovery_point=3)
    assert (again.end_offset, len(stored(again))) == (3, 3)
    assert append(again, b"few", producer=(7, 0, 2)) == 2, "its producer is known: this was a retry"


def test_a_larger_log_leaves_both_and_the_next_start_knows_its_producers(tmp_path: Path) -> None:
    _closed(tmp_path / "t-0", 3, bytes(INDEX_INTERVAL_BYTES))

    assert _beside(tmp_path / "t-0") == {".index", ".snapshot"}
    again = opened(tmp_path / "t-0", LARGE, was_clean=True, recovery_point=3)
    assert append(again, bytes(INDEX_INTERVAL_BYTES), producer=(7, 0, 2)) == 2


def test_a_log_that_nobody_wrote_to_is_closed_without_a_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _closed(tmp_path / "t-0", 3, bytes(INDEX_INTERVAL_BYTES))
    again = PartitionLog(tmp_path / "t-0", ORDERS, OpenFiles(), LARGE)
    again.open(Trust(was_clean=True, recovery_point=3), now_ms=0)
    monkeypatch.setattr(os, "replace", lambda *_: pytest.fail("a file was written"))

    again.close()


def test_an_index_is_written_again_when_the_log_was_cut_and_filled_to_the_same_size(tmp_path: Path) -> None:
    log = _closed(tmp_path / "t-0", 3, bytes(INDEX_INTERVAL_BYTES))
    again = opened(tmp_path / "t-0", LARGE, was_clean=True, recovery_point=3)
    again.truncate_to(1, now_ms=0)
    append(again, b"small", timestamp_ms=1)
    append(again, bytes(2 * INDEX_INTERVAL_BYTES - len(b"small")), epoch=2, timestamp_ms=1)
    again.flush()
    again.close()

    third = opened(tmp_path / "t-0", LARGE, was_clean=True, recovery_point=3)
    assert [offset for offset, _ in stored(third)] == [0, 1, 2]
    assert third.end_offset == log.end_offset
