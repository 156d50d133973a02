"""Deleting and beginning anew take steps: after a kill or an error at one of them a log opens whole."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import pytest

from broker.core.producers import Append
from broker.log.files import OpenFiles
from broker.log.opening import Trust
from broker.log.outcomes import StorageFailed
from broker.log.partition_log import PartitionLog
from muster.kafkawire.batches import read_header
from tests.unit.broker_log.logs import ORDERS, append, opened, stored
from tests.unit.kafkawire.made_batches import made_batch


class Killed(BaseException):
    """The process is gone."""


@contextmanager
def failing_at(path_ends: str, how: BaseException) -> Iterator[None]:
    """The first unlink of such a path does not come to pass."""
    unlink, left = os.unlink, [how]

    def fails(path: object, *rest: object, **options: object) -> None:
        if left and str(path).endswith(path_ends):
            raise left.pop()
        unlink(path, *rest, **options)  # type: ignore[arg-type]

    with patch.object(os, "unlink", fails):
        yield


def test_an_index_that_cannot_be_unlinked_costs_no_record(tmp_path: Path) -> None:
    log = opened(tmp_path)
    for _ in range(30):
        append(log, b"x" * 100)
    second = int(sorted(tmp_path.glob("*.log"))[1].stem)
    with (
        failing_at(f"{0:020}.index", OSError(errno.EIO, "the disk failed")),
        pytest.raises(StorageFailed),
    ):
        log.delete_before(second + 1, now_ms=0)
    assert [first for first, _ in stored(log, second)] == list(range(second, 30))
    assert stored(log) != []
    again = PartitionLog(tmp_path, ORDERS, OpenFiles(), log.settings)
    assert again.open(Trust(), now_ms=0) == ""
    assert (again.start_offset, again.end_offset) == (second + 1, 30)


def test_a_file_that_is_missing_is_never_made_by_reading(tmp_path: Path) -> None:
    log = opened(tmp_path)
    append(log, b"x")
    (path,) = tmp_path.glob("*.log")
    log.close()
    path.unlink()
    with pytest.raises(StorageFailed):
        log.batch_at(0)
    assert not path.exists()


def test_a_kill_while_a_log_begins_anew_brings_no_producer_of_before_back(tmp_path: Path) -> None:
    """Its sequences went on behind the jump: a leader that knew the old ones would call them out of order."""
    log = opened(tmp_path)
    for sequence in range(20):
        append(log, b"x" * 100, producer=(7, 0, sequence))
    with failing_at(".snapshot", Killed()), pytest.raises(Killed):
        log.start_again_at(1_000, now_ms=0)
    again = opened(tmp_path)
    assert (again.start_offset, again.end_offset) == (1_000, 1_000)
    later = read_header(made_batch([b"x"], producer=(7, 0, 999)))
    assert again.producers.judge(later) == Append(is_strangers=True)
