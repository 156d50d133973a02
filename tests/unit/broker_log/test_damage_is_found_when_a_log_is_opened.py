"""What a disk did to a log is found when it is opened, and kept in the folder until it was confessed."""

from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import pytest

from broker.core.replica_log import PartitionKey
from broker.log.files import OpenFiles
from broker.log.opening import Trust
from broker.log.outcomes import LogSettings, StorageFailed
from broker.log.partition_log import PartitionLog
from broker.log.shelf import LogShelf
from muster.kafkawire import batches
from tests.unit.broker_log.logs import ORDERS, SMALL, append, opened, stored
from tests.unit.kafkawire.made_batches import made_batch

KEY = PartitionKey(UUID(int=1), 0)
BASE_OFFSET, LENGTH, LEADER_EPOCH, MAGIC, RECORDS = 6, 8, 15, 16, 61
"""Where in a batch a bit flips."""


def _written(folder: Path, count: int = 10, settings: LogSettings | None = None) -> list[Path]:
    log = opened(folder, settings or LogSettings())
    for number in range(count):
        append(log, b"x" * 300 + b"%d" % number, epoch=1 + number // 5)
    return sorted(folder.glob("*.log"))


def _flip(path: Path, at: int, bit: int = 0x40) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= bit
    path.write_bytes(data)


def _start_of(path: Path, number: int) -> int:
    return [start for start, _ in batches.headers(path.read_bytes())][number]


def _open(folder: Path, trust: Trust | None = None) -> tuple[PartitionLog, str]:
    log = PartitionLog(folder, ORDERS, OpenFiles(), SMALL)
    return log, log.open(trust or Trust(), 0)


@pytest.mark.parametrize("number", [0, 4, 5, 9])
@pytest.mark.parametrize("at", [BASE_OFFSET, LENGTH, LENGTH + 3, LEADER_EPOCH, MAGIC, RECORDS])
def test_a_flipped_bit_anywhere_ends_the_log_before_its_batch(tmp_path: Path, at: int, number: int) -> None:
    """Base offset, length and leader epoch lie outside the checksum."""
    (path,) = _written(tmp_path)
    _flip(path, _start_of(path, number) + at, bit=0x40 if at < RECORDS else 0x01)
    log, damage = _open(tmp_path)
    assert f"offset {number}" in damage
    assert log.end_offset == number == len(stored(log))


def test_a_write_that_a_kill_cut_off_is_no_damage(tmp_path: Path) -> None:
    (path,) = _written(tmp_path)
    whole = path.read_bytes()
    batch = made_batch([b"y" * 500])
    batches.stamp(batch, 0, 10, 2)
    for size in (1, 60, 61, 200, len(batch) - 1):
        path.write_bytes(whole + batch[:size])
        log, damage = _open(tmp_path)
        assert (damage, log.end_offset) == ("", 10)


def test_a_file_that_is_missing_between_two_others_is_damage(tmp_path: Path) -> None:
    segments = _written(tmp_path, settings=SMALL)
    segments[1].unlink()
    log, damage = _open(tmp_path)
    assert "missing" in damage
    assert log.end_offset == int(segments[1].stem)
    assert list(tmp_path.glob("*.log")) == segments[:1]


def test_what_was_committed_must_be_there(tmp_path: Path) -> None:
    (path,) = _written(tmp_path)
    path.write_bytes(path.read_bytes()[: _start_of(path, 7)])
    assert _open(tmp_path, Trust(high_watermark=7))[1] == ""
    assert "10 was committed" in _open(tmp_path, Trust(high_watermark=10))[1]


def test_damage_is_found_after_a_clean_stop_too(tmp_path: Path) -> None:
    log = opened(tmp_path, LogSettings())
    for _ in range(5):
        append(log, b"x")
    log.flush()
    log.close()
    (path,) = tmp_path.glob("*.log")
    _flip(path, _start_of(path, 4) + MAGIC)
    assert "offset 4" in _open(tmp_path, Trust(was_clean=True, recovery_point=5))[1]


def test_damage_is_told_by_every_process_until_it_was_confessed(tmp_path: Path) -> None:
    shelf = LogShelf(tmp_path, was_clean=False)
    shelf.scan()
    first = shelf.log(KEY, "orders", LogSettings(), 0)
    append(first, b"a")
    append(first, b"b")
    (path,) = first.folder.glob("*.log")
    _flip(path, _start_of(path, 1) + RECORDS)
    for _ in range(2):
        again = _shelf(tmp_path)
        again.read(KEY, LogSettings(), 0)
        assert list(again.damaged) == [KEY]
    again.confessed()
    last = _shelf(tmp_path)
    assert last.read(KEY, LogSettings(), 0).end_offset == 1
    assert last.damaged == {}


def test_a_folder_that_is_gone_is_missed(tmp_path: Path) -> None:
    shelf = _shelf(tmp_path)
    log = shelf.log(KEY, "orders", LogSettings(), 0)
    append(log, b"a")
    shelf.checkpoint({KEY: 1})
    log.folder.rename(tmp_path.parent / "elsewhere")
    again = _shelf(tmp_path)
    assert list(again.damaged) == [KEY]
    again.confessed()
    again.checkpoint({})
    assert _shelf(tmp_path).damaged == {}


@pytest.mark.parametrize("spoil", [lambda path: path.write_bytes(b"{"), lambda path: _flip(path, 30, 0x01)])
def test_records_that_nobody_can_name_the_partition_of_are_confessed_for_all(
    tmp_path: Path, spoil: Callable[[Path], None]
) -> None:
    append(_shelf(tmp_path).log(KEY, "orders", LogSettings(), 0), b"a")
    spoil(tmp_path / "orders-0" / "partition.metadata")
    said: list[bool] = []
    shelf = LogShelf(tmp_path, was_clean=True)
    shelf.scan(lambda: said.append((tmp_path / "orders-0").exists()))
    assert said == [True]
    assert shelf.keys == frozenset()


def test_a_file_that_is_no_segment_is_named(tmp_path: Path) -> None:
    _written(tmp_path)
    (tmp_path / "old.log").write_bytes(b"")
    with pytest.raises(StorageFailed, match=r"old\.log is not the name of a segment"):
        _open(tmp_path)


def test_a_changed_digit_in_a_small_file_is_made_good_from_the_log(tmp_path: Path) -> None:
    _written(tmp_path)
    epochs = tmp_path / "leader-epoch-checkpoint"
    epochs.write_bytes(epochs.read_bytes().replace(b"2 5", b"0 5"))
    log, damage = _open(tmp_path)
    assert (damage, log.epochs.entries) == ("", [(1, 0), (2, 5)])
    assert _open(tmp_path)[0].epochs.entries == [(1, 0), (2, 5)]


def test_after_a_crash_of_the_machine_an_older_file_of_epochs_ends_no_log(tmp_path: Path) -> None:
    epochs = tmp_path / "leader-epoch-checkpoint"
    log = opened(tmp_path, LogSettings())
    append(log, b"a", epoch=1)
    old = epochs.read_bytes()
    append(log, b"b", epoch=3)
    epochs.write_bytes(old)
    again, damage = _open(tmp_path, Trust(same_boot=False))
    assert (damage, again.epochs.entries) == ("", [(1, 0), (3, 1)])


def _shelf(folder: Path) -> LogShelf:
    shelf = LogShelf(folder, was_clean=False)
    shelf.scan()
    return shelf
