"""What people are told of logs: each change once, a thousand at a time, everything again on a new link."""

from uuid import UUID

from broker.core.log_notes import LogNotes, LogState
from broker.core.replica_log import PartitionKey
from muster.kernel.instants import Instant
from muster.messages.limits import MAX_ROWS_PER_FRAME
from muster.messages.link.condition import DAMAGED, LEADERLESS, MENDED, OFFLINE, SOUND, LogNote

ORDERS = UUID(int=1)
START = Instant(1_000_000)


def _key(number: int) -> PartitionKey:
    return PartitionKey(ORDERS, number)


def test_a_change_is_told_once_with_its_age() -> None:
    notes = LogNotes()
    assert notes.news({}, START) == ()
    present = {_key(1): LogState(OFFLINE, "EIO")}
    assert notes.news(present, START) == (LogNote(ORDERS, 1, OFFLINE, "EIO"),)
    assert notes.news(present, Instant(START + 5_000)) == ()
    assert notes.news({}, Instant(START + 6_000)) == (LogNote(ORDERS, 1, SOUND),)
    assert notes.news({}, Instant(START + 7_000)) == ()


def test_a_new_link_hears_everything_again_and_since_when() -> None:
    notes = LogNotes()
    present = {_key(1): LogState(LEADERLESS, "", 812)}
    notes.news(present, START)
    notes.begin()
    assert notes.news(present, Instant(START + 9_000)) == (LogNote(ORDERS, 1, LEADERLESS, "", 812, 9_000),)


def test_another_state_begins_anew() -> None:
    notes = LogNotes()
    notes.news({_key(1): LogState(DAMAGED, "cut at 812")}, START)
    later = Instant(START + 5_000)
    assert notes.news({_key(1): LogState(MENDED, "cut at 812")}, later) == (
        LogNote(ORDERS, 1, MENDED, "cut at 812"),
    )


def test_ten_thousand_are_told_in_frames_of_bounded_size() -> None:
    notes = LogNotes()
    present = {_key(number): LogState(OFFLINE, "EIO") for number in range(2 * MAX_ROWS_PER_FRAME + 1)}
    told = [len(notes.news(present, START)) for _ in range(4)]
    assert told == [MAX_ROWS_PER_FRAME, MAX_ROWS_PER_FRAME, 1, 0]
    assert [len(notes.news({}, START)) for _ in range(4)] == told
