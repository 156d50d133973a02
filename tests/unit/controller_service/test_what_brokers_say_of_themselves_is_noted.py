"""What brokers say of themselves is written now and then; the latest of each counts, also after a failure."""

from uuid import UUID

from controller.pace import ConditionNotes
from muster.kernel.instants import Instant
from muster.messages.link.condition import DAMAGED, OFFLINE, SOUND, Condition, Disk, LagNote, LogNote

ORDERS = UUID(int=1)
NOW, SECOND = Instant(10_000), 1_000


def _disk(usable: int) -> Disk:
    return Disk(1_000, usable, 10)


def test_only_the_latest_word_of_each_log_is_written() -> None:
    notes = ConditionNotes()
    assert not notes.is_due(NOW, SECOND)
    notes.add(2, Condition(disk=_disk(1), logs=(LogNote(ORDERS, 0, OFFLINE, "EIO"),), begins=True))
    notes.add(2, Condition(disk=_disk(2), logs=(LogNote(ORDERS, 0, SOUND), LogNote(ORDERS, 1, DAMAGED))))
    assert notes.is_due(NOW, SECOND)
    said = notes.take(NOW)
    assert said.begun == (2,)
    assert [(broker, one.disk) for broker, one in said.conditions] == [(2, _disk(2))]
    assert said.logs == ((2, LogNote(ORDERS, 0, SOUND)), (2, LogNote(ORDERS, 1, DAMAGED)))
    notes.add(2, Condition())
    assert not notes.is_due(Instant(NOW + SECOND), SECOND), "the last is still being written"
    notes.done()
    assert notes.is_due(Instant(NOW + SECOND), SECOND)


def test_what_was_not_written_is_written_with_what_was_said_since() -> None:
    notes = ConditionNotes()
    notes.add(2, Condition(disk=_disk(1), logs=(LogNote(ORDERS, 0, OFFLINE), LogNote(ORDERS, 1, OFFLINE))))
    notes.add(3, Condition(logs=(LogNote(ORDERS, 0, OFFLINE),)))
    lost = notes.take(NOW)
    notes.add(2, Condition(disk=_disk(5), logs=(LogNote(ORDERS, 0, SOUND),)))
    notes.add(3, Condition(begins=True))
    notes.give_back(lost)
    notes.done()
    said = notes.take(Instant(NOW + SECOND))
    assert said.begun == (3,), "what broker 3 said on its old link counts no more"
    assert dict(said.conditions)[2].disk == _disk(5)
    assert said.logs == ((2, LogNote(ORDERS, 0, SOUND)), (2, LogNote(ORDERS, 1, OFFLINE)))


def test_who_lags_is_the_latest_word_too_and_no_link_of_before_has_one() -> None:
    notes = ConditionNotes()
    notes.add(2, Condition(lags=(LagNote(ORDERS, 0, (1,)), LagNote(ORDERS, 1, (1,)))))
    notes.add(3, Condition(lags=(LagNote(ORDERS, 2, (1,)),)))
    lost = notes.take(NOW)
    notes.add(2, Condition(lags=(LagNote(ORDERS, 0),)))
    notes.add(3, Condition(begins=True))
    notes.give_back(lost)
    notes.done()
    said = notes.take(Instant(NOW + SECOND))
    assert said.lags == ((2, LagNote(ORDERS, 0)), (2, LagNote(ORDERS, 1, (1,))))
    notes.add(2, Condition(lags=(LagNote(ORDERS, 5, (1,)),)))
    notes.add(2, Condition(begins=True))
    notes.done()
    assert notes.take(Instant(NOW + SECOND)).lags == ()
