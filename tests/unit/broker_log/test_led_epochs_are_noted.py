"""In which epochs a broker led its next process finds again, whatever was torn, refused or written anew."""

import errno
from collections.abc import Mapping
from pathlib import Path
from uuid import UUID

import pytest

from broker.core.led_epochs import Led
from broker.core.replica_log import PartitionKey
from broker.log import led_notes
from broker.log.led_notes import FILE, LedNotes

KEYS = [PartitionKey(UUID(int=1), number) for number in range(3)]


def notes(folder: Path, *leds: Led) -> LedNotes:
    """Of the process that noted these of the first partitions."""
    one = LedNotes(folder)
    note(one, *leds)
    return one


def note(one: LedNotes, *leds: Led) -> None:
    one.news = dict(zip(KEYS, leds, strict=False))
    one.led |= one.news
    one.save()


def found(folder: Path) -> list[Led]:
    again = LedNotes(folder)
    again.load(KEYS)
    return [again.led[key] for key in KEYS if key in again.led]


def test_the_last_of_each_partition_is_found_again(tmp_path: Path) -> None:
    one = notes(tmp_path, Led(3, 10), Led(4, 20))
    note(one, Led(5, 30))
    assert found(tmp_path) == [Led(5, 30), Led(4, 20)]


def test_of_a_log_that_is_not_there_nothing_is_kept(tmp_path: Path) -> None:
    notes(tmp_path, Led(3, 10), Led(4, 20))
    again = LedNotes(tmp_path)
    again.load(KEYS[1:])
    assert again.led == {KEYS[1]: Led(4, 20)}


@pytest.mark.parametrize("torn_at", [1, 30, -9, -1])
def test_a_line_that_a_kill_tore_says_nothing_and_spoils_no_other(tmp_path: Path, torn_at: int) -> None:
    notes(tmp_path, Led(3, 10))
    path = tmp_path / FILE
    before = path.read_bytes()
    notes(tmp_path, Led(5, 30))
    path.write_bytes(before + path.read_bytes()[len(before) :][:torn_at])
    notes(tmp_path, Led(3, 10), Led(4, 20))
    assert found(tmp_path) == [Led(3, 10), Led(4, 20)]


def test_a_number_that_is_not_what_was_written_is_not_believed(tmp_path: Path) -> None:
    notes(tmp_path, Led(3, 10))
    path = tmp_path / FILE
    path.write_bytes(path.read_bytes().replace(b" 3 10 ", b" 7 10 "))
    assert found(tmp_path) == []


def test_the_checksum_of_nothing_is_no_line(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"\n 00000000\n")
    assert found(tmp_path) == []


def test_all_of_a_turn_is_one_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, written = LedNotes(tmp_path), list[int]()

    def counted(led: Mapping[tuple[UUID, int], Led]) -> bytes:
        written.append(len(led))
        return lines(led)

    lines = led_notes._lines
    monkeypatch.setattr(led_notes, "_lines", counted)
    note(one, Led(3, 10), Led(4, 20), Led(5, 30))
    one.save()
    assert written == [3]


def test_what_a_disk_refused_is_noted_with_the_next(tmp_path: Path) -> None:
    one = LedNotes(tmp_path / "away")
    note(one, Led(3, 10))
    assert one.news and not found(tmp_path / "away")
    (tmp_path / "away").mkdir()
    one.save()
    assert not one.news and found(tmp_path / "away") == [Led(3, 10)]


def test_what_counts_no_more_is_written_anew_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(led_notes, "SPARE_LINES", 4)
    one = LedNotes(tmp_path)
    for epoch in range(1, 100):
        note(one, Led(epoch, epoch), Led(epoch, epoch))
        assert found(tmp_path) == [Led(epoch, epoch)] * 2
        assert len((tmp_path / FILE).read_bytes().splitlines()) <= 2 * 2 + 4 + 3


def test_a_disk_with_no_room_for_a_new_file_still_takes_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each frame of rows would write the whole file in vain, and hold up the loop for it."""
    monkeypatch.setattr(led_notes, "SPARE_LINES", 4)
    one, tried = LedNotes(tmp_path), list[Path]()

    def half_written(path: Path, data: bytes) -> None:
        tried.append(path)
        path.touch()
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", half_written)
    for epoch in range(1, 22):
        note(one, Led(epoch, epoch))
        assert found(tmp_path) == [Led(epoch, epoch)]
    assert len(tried) == 3
    assert [path.name for path in tmp_path.iterdir()] == [FILE]
