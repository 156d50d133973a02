"""A folder belongs to one topic id; what no row names becomes stray, and is erased a day later."""

import json
import os
from pathlib import Path
from uuid import UUID

import pytest

from broker.core.replica_log import PartitionKey
from broker.log.files import OpenFiles, read_sealed
from broker.log.outcomes import LogSettings, StorageFailed
from broker.log.partition_log import PartitionLog
from broker.log.shelf import STRAY, LogShelf
from tests.unit.broker_log.logs import append

ORDERS, ORDERS_AGAIN = UUID(int=1), UUID(int=2)
FIRST = PartitionKey(ORDERS, 0)
A_DAY_MS = 24 * 3600 * 1000


def _shelf(folder: Path, was_clean: bool = False) -> LogShelf:
    shelf = LogShelf(folder, was_clean)
    shelf.scan()
    return shelf


def _log(shelf: LogShelf, key: PartitionKey = FIRST) -> PartitionLog:
    return shelf.log(key, "orders", LogSettings(), 0)


def test_a_log_states_its_topic_id_and_is_found_by_it(tmp_path: Path) -> None:
    append(_log(_shelf(tmp_path)), b"a")
    again = _shelf(tmp_path)
    assert again.keys == {FIRST}
    assert _log(again).end_offset == 1
    stated = json.loads(read_sealed(tmp_path / "orders-0" / "partition.metadata"))
    assert UUID(stated["topic_id"]) == ORDERS


def test_a_topic_made_anew_never_gets_the_old_log(tmp_path: Path) -> None:
    append(_log(_shelf(tmp_path)), b"old")
    again = _shelf(tmp_path)
    anew = _log(again, PartitionKey(ORDERS_AGAIN, 0))
    assert anew.end_offset == 0
    append(anew, b"new")
    assert len(list(tmp_path.glob("orders-0.*-stray"))) == 1
    assert again.keys == {PartitionKey(ORDERS_AGAIN, 0)}


def test_a_topic_made_anew_is_not_written_into_files_of_the_old_one_that_are_open(tmp_path: Path) -> None:
    shelf = _shelf(tmp_path)
    append(_log(shelf), b"old")
    append(_log(shelf, PartitionKey(ORDERS_AGAIN, 0)), b"new")
    assert _log(_shelf(tmp_path), PartitionKey(ORDERS_AGAIN, 0)).end_offset == 1


def test_what_a_thread_opens_as_a_log_is_set_aside_is_not_taken_for_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who reads the log beside the loop, as before a long cut, knows nothing of it yet."""
    shelf, rename = _shelf(tmp_path), os.rename
    append(_log(shelf), b"old")
    path = str(next(tmp_path.glob("orders-0/*.log")))

    def behind_a_thread(source: Path, target: Path) -> None:
        shelf._files.get(path)
        rename(source, target)

    monkeypatch.setattr(os, "rename", behind_a_thread)
    shelf.set_aside(FIRST, STRAY)
    append(_log(shelf), b"new")
    assert os.path.exists(path)


def test_a_stray_is_kept_for_its_time_and_not_served(tmp_path: Path) -> None:
    shelf = _shelf(tmp_path)
    append(_log(shelf), b"a")
    shelf.set_aside(FIRST, STRAY)
    (stray,) = tmp_path.glob("*-stray")
    born_ms = int(stray.stat().st_mtime * 1000)
    assert _shelf(tmp_path).keys == frozenset()
    assert shelf.erase_old(born_ms + A_DAY_MS - 1_000, {STRAY: A_DAY_MS}) == 0
    assert shelf.erase_old(born_ms + A_DAY_MS + 1_000, {STRAY: A_DAY_MS}) == 1
    assert list(tmp_path.glob("*-stray")) == []


def test_what_cannot_be_looked_at_keeps_nothing_else_from_being_erased(tmp_path: Path) -> None:
    shelf = _shelf(tmp_path)
    (tmp_path / "clicks-0.abc-stray").symlink_to(tmp_path / "gone")
    append(_log(shelf), b"a")
    shelf.set_aside(FIRST, STRAY)
    born_ms = int(max(path.lstat().st_mtime for path in tmp_path.glob("*-stray")) * 1000)
    assert shelf.erase_old(born_ms + A_DAY_MS + 1_000, {STRAY: A_DAY_MS}) == 1
    assert [path.name for path in tmp_path.glob("*-stray")] == ["clicks-0.abc-stray"]


def test_a_log_whose_topic_id_cannot_be_read_now_is_left_where_it_is(tmp_path: Path) -> None:
    (tmp_path / "orders-0" / "partition.metadata").mkdir(parents=True)
    (tmp_path / "orders-0" / f"{0:020}.log").write_bytes(b"records")
    with pytest.raises(StorageFailed, match=r"orders-0/partition\.metadata cannot be read"):
        _shelf(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["orders-0"], "and not as a stray, for a day"


def test_a_deletion_that_was_interrupted_is_finished_at_start(tmp_path: Path) -> None:
    (tmp_path / "orders-0.abc-delete").mkdir(parents=True)
    (tmp_path / "orders-0.abc-delete" / "x.log").write_bytes(b"x")
    _shelf(tmp_path)
    assert list(tmp_path.glob("*-delete")) == []


def test_a_folder_that_names_no_topic_id_is_set_aside(tmp_path: Path) -> None:
    (tmp_path / "orders-0").mkdir()
    assert _shelf(tmp_path).keys == frozenset()
    assert len(list(tmp_path.glob("orders-0.*-stray"))) == 1


def test_the_longest_topic_name_can_be_set_aside(tmp_path: Path) -> None:
    shelf = _shelf(tmp_path)
    append(shelf.log(FIRST, "t" * 240, LogSettings(), 0), b"a")
    shelf.set_aside(FIRST, STRAY)
    assert len(list(tmp_path.glob("*-stray"))) == 1


def test_high_watermarks_come_back_from_the_checkpoint(tmp_path: Path) -> None:
    shelf = _shelf(tmp_path)
    append(_log(shelf), b"a")
    assert shelf.close({FIRST: 1})
    assert list(_shelf(tmp_path, was_clean=True).high_watermarks.values()) == [1]


@pytest.mark.parametrize("content", [b"", b"0\n1\nno number here\n", b"\xff\xfe"])
def test_a_broken_checkpoint_is_as_good_as_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "replication-offset-checkpoint").write_bytes(content)
    assert _shelf(tmp_path).high_watermarks == {}


def test_no_more_files_stay_open_than_allowed(tmp_path: Path) -> None:
    files = OpenFiles(limit=3)
    shelf = LogShelf(tmp_path, False, files)
    shelf.scan()
    logs = [shelf.log(PartitionKey(ORDERS, n), "orders", LogSettings(), 0) for n in range(10)]
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(2):
        for log in logs:
            append(log, b"a")
    assert len(files) == 3
    assert len(os.listdir("/proc/self/fd")) <= before + 3
    assert all(log.end_offset == 2 for log in logs)
