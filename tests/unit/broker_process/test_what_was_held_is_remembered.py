"""This room shows the file in which a broker remembers what its logs held before they were cut."""

from pathlib import Path
from uuid import UUID

from broker.core.loss_watch import Held
from broker.held_notes import FILE, HeldNotes

ONE, OTHER = (UUID(int=10), 0, 5), (UUID(int=10), 1, 6)
HELD = Held(120, 110, 1_000)


def test_another_process_reads_what_was_noted_though_the_last_line_is_torn(tmp_path: Path) -> None:
    HeldNotes(tmp_path).add(ONE, HELD)
    with open(tmp_path / FILE, "ab") as file:
        file.write(b'["0000')
    assert HeldNotes(tmp_path).load() == {ONE: HELD}


def test_what_was_cut_is_remembered_in_the_place_of_what_was_held(tmp_path: Path) -> None:
    notes = HeldNotes(tmp_path)
    notes.add(ONE, HELD)
    notes.add(OTHER, HELD)
    cut = HELD._replace(parted_at=90, size_bytes=200)
    notes.add(ONE, cut)
    assert HeldNotes(tmp_path).load() == {ONE: cut, OTHER: HELD}
    notes.keep({ONE: cut})
    assert HeldNotes(tmp_path).load() == {ONE: cut}


def test_what_is_noted_behind_a_torn_line_is_remembered_too(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b'["0000')
    notes = HeldNotes(tmp_path)
    assert notes.load() == {}
    notes.add(ONE, HELD)
    assert HeldNotes(tmp_path).load() == {ONE: HELD}


def test_what_nobody_asks_for_is_forgotten_and_at_last_the_file_is_gone(tmp_path: Path) -> None:
    notes = HeldNotes(tmp_path)
    notes.add(ONE, HELD)
    notes.add(OTHER, HELD)
    notes.keep({OTHER: HELD})
    assert HeldNotes(tmp_path).load() == {OTHER: HELD}
    notes.keep({})
    assert list(tmp_path.iterdir()) == []
    assert notes.load() == {}


def test_a_disk_that_refuses_stops_nothing(tmp_path: Path) -> None:
    notes = HeldNotes(tmp_path / "not there")
    notes.add(ONE, HELD)
    notes.keep({ONE: HELD})
    assert notes.load() == {}
