"""This room shows what a broker tells of an election that may have lost records, and when it is quiet."""

from collections.abc import Mapping

import msgspec
import pytest

from broker.core.loss_watch import Held, LossKey, LossWatch
from broker.core.replica import Replica
from broker.core.replica_log import PartitionKey
from muster.messages.link.losses import NOT_KNOWN, LossAsked, LossReport
from muster.messages.link.rows import TopicRow
from muster.messages.link.to_broker import Changes, SnapshotChunk
from tests.unit.broker_core.stage import NOW, ORDERS, Log, row

KEY = PartitionKey(ORDERS, 0)
ASKED = LossAsked(ORDERS, 0, 5, 1)
BYTES = 1_000


class Notes:
    """A disk that remembers, also over the death of a process."""

    def __init__(self) -> None:
        self.held: dict[LossKey, Held] = {}
        self.kept = 0

    def load(self) -> dict[LossKey, Held]:
        return dict(self.held)

    def add(self, key: LossKey, held: Held) -> None:
        self.held[key] = held

    def keep(self, held: Mapping[LossKey, Held]) -> None:
        self.held = dict(held)
        self.kept += 1


class Told:
    """One process of a broker: its watch and its replica of `orders-0`."""

    def __init__(
        self, broker_id: int, log: Log, notes: Notes | None = None, *, crashed: bool = False
    ) -> None:
        self.watch = LossWatch(broker_id)
        self.log = log
        self.replica = Replica(broker_id, log, high_watermark=log.end_offset)
        self.rang = 0
        self.watch.begin(notes or Notes(), self._ring, lambda key: crashed and key == KEY)

    def _ring(self) -> None:
        self.rang += 1

    def snapshot(self, *asked: LossAsked, leader: int = 1, epoch: int = 5) -> None:
        chunk = SnapshotChunk(metadata_version=9, number=0, last=True, losses=asked)
        self.watch.hear(chunk, (KEY,))
        self.obeys(leader, epoch)

    def obeys(
        self, leader: int, epoch: int, assigned: tuple[int, ...] = (1, 2, 3), base_epoch: int = 0
    ) -> None:
        high_watermark = self.replica.high_watermark
        obeyed = row(assigned=assigned, leader=leader, epoch=epoch, isr=(leader,), version=epoch)
        self.replica.obey(msgspec.structs.replace(obeyed, base_epoch=base_epoch), NOW)
        self.watch.look(KEY, self.replica, BYTES, high_watermark)

    def follows(self, cut_to: int, size_bytes: int = BYTES, leader_begins: int = 0) -> None:
        """The leader made it cut its log, and answered the fetch behind that."""
        self.log.epochs.truncate(cut_to)
        self.log.end_offset = cut_to
        self.watch.settled(KEY, self.replica, cut_to, size_bytes, leader_begins)

    def begins_again(self, start: int) -> None:
        """The leader's log begins there, and shares nothing that it still has."""
        self.watch.emptied(KEY)
        self.log.epochs.truncate(0)
        self.log.start_offset = self.log.end_offset = start


def log_of(*batches: tuple[int, int]) -> Log:
    log = Log()
    for epoch, count in batches:
        log.append(epoch, count)
    return log


def test_the_elected_leader_tells_where_its_log_ended() -> None:
    told = Told(1, log_of((3, 90)))
    told.snapshot(ASKED)
    assert told.watch.reports() == (LossReport(ORDERS, 0, 5, 90, 90, 90),)
    assert told.rang == 1


def test_it_tells_the_same_when_it_has_written_and_even_started_again_since() -> None:
    told = Told(1, log_of((3, 90), (5, 7)))
    told.snapshot(ASKED)
    assert told.watch.reports()[0].end_offset == 90


def test_it_tells_the_same_when_another_leads_by_now_if_its_log_shows_it() -> None:
    told = Told(1, log_of((3, 90), (5, 7), (6, 1)))
    told.snapshot(ASKED, leader=2, epoch=7)
    assert told.watch.reports()[0].end_offset == 90


def test_it_says_so_when_it_does_not_know_any_more() -> None:
    written_nothing = Told(1, log_of((3, 90)))
    written_nothing.snapshot(ASKED, leader=2, epoch=7)
    assert written_nothing.watch.reports()[0].end_offset == NOT_KNOWN

    deleted = log_of((5, 100))
    deleted.start_offset = 95
    deleted.epochs.begin_at(95)
    begins_later = Told(1, deleted)
    begins_later.snapshot(ASKED)
    assert begins_later.watch.reports()[0].end_offset == NOT_KNOWN


def test_who_held_more_tells_what_was_cut_once_it_follows() -> None:
    told = Told(2, log_of((3, 120)))
    told.snapshot(ASKED)
    assert told.watch.reports() == (), "nothing is cut yet"
    told.follows(cut_to=90, size_bytes=800)
    assert told.watch.reports() == (LossReport(ORDERS, 0, 5, 120, 90, 120, 200),)


def test_who_held_nothing_more_says_that() -> None:
    told = Told(2, log_of((3, 80)))
    told.snapshot(ASKED)
    told.follows(cut_to=80)
    assert told.watch.reports() == (LossReport(ORDERS, 0, 5, 80, 80, 80, 0),)


def test_where_the_leader_has_deleted_nobody_knows_what_was_lost_and_nobody_says_nothing() -> None:
    unknown = LossReport(ORDERS, 0, 5, 120, NOT_KNOWN, 120, NOT_KNOWN)
    for start in (100, 120, 500):
        told = Told(2, log_of((3, 120)))
        told.snapshot(ASKED)
        told.begins_again(start)
        told.follows(cut_to=start, leader_begins=start)
        assert told.watch.reports() == (unknown,), start

        elected = Told(2, log_of((3, 120)))
        elected.snapshot(ASKED)
        elected.begins_again(start)
        elected.obeys(leader=2, epoch=6)
        assert elected.watch.reports() == (unknown,), start


def test_who_had_deleted_what_its_leader_holds_does_not_know_either_nor_does_its_next_process() -> None:
    notes = Notes()
    first = Told(2, log_of((3, 120)), notes)
    first.snapshot(ASKED)
    first.begins_again(0)

    second = Told(2, first.log, notes)
    second.snapshot(ASKED)
    second.follows(cut_to=0)
    assert second.watch.reports() == (LossReport(ORDERS, 0, 5, 120, NOT_KNOWN, 120, NOT_KNOWN),)


def test_who_stands_where_its_leader_begins_was_not_compared() -> None:
    told = Told(2, log_of((3, 120)))
    told.snapshot(ASKED)
    told.follows(cut_to=120, leader_begins=120)
    assert told.watch.reports()[0].cut_to == NOT_KNOWN


def test_what_the_leader_deleted_below_the_place_where_they_parted_hides_nothing() -> None:
    told = Told(2, log_of((3, 120)))
    told.snapshot(ASKED)
    told.follows(cut_to=90, size_bytes=800, leader_begins=50)
    assert told.watch.reports() == (LossReport(ORDERS, 0, 5, 120, 90, 120, 200),)


def test_who_is_elected_later_without_having_followed_was_cut_by_nobody() -> None:
    told = Told(2, log_of((3, 120)))
    told.snapshot(ASKED, leader=2, epoch=6)
    assert told.watch.reports() == (LossReport(ORDERS, 0, 5, 120, 120, 120, 0),)


def test_who_is_elected_behind_the_cut_before_its_leader_found_it_level_tells_what_was_cut() -> None:
    told = Told(2, log_of((3, 120)))
    told.snapshot(ASKED)
    told.log.epochs.truncate(90)
    told.log.end_offset = 90
    told.obeys(leader=2, epoch=6)
    assert told.watch.reports() == (LossReport(ORDERS, 0, 5, 120, 90, 120, 0),)


def test_a_process_that_dies_behind_the_cut_does_not_say_that_it_had_nothing() -> None:
    notes = Notes()
    first = Told(2, log_of((3, 120)), notes)
    first.snapshot(ASKED)
    first.log.end_offset = 90

    second = Told(2, first.log, notes)
    second.snapshot(ASKED)
    second.follows(cut_to=90)
    report = second.watch.reports()[0]
    assert (report.end_offset, report.cut_to) == (120, 90)


@pytest.mark.parametrize("leader", [1, 2])
def test_what_its_log_has_grown_by_since_does_not_hide_the_cut_from_the_next_process(leader: int) -> None:
    notes = Notes()
    first = Told(2, log_of((3, 120)), notes)
    first.snapshot(ASKED)
    first.follows(cut_to=90, size_bytes=800)
    first.log.append(5, 50)

    second = Told(2, first.log, notes)
    second.snapshot(ASKED, leader=leader, epoch=6)
    second.watch.settled(KEY, second.replica, 140, BYTES)
    assert second.watch.reports() == (LossReport(ORDERS, 0, 5, 120, 90, 120, 200),)


def test_nor_does_it_where_the_leader_had_deleted_what_could_be_compared() -> None:
    notes = Notes()
    first = Told(2, log_of((3, 120)), notes)
    first.snapshot(ASKED)
    first.follows(cut_to=100, leader_begins=100)
    first.log.append(5, 50)

    second = Told(2, first.log, notes)
    second.snapshot(ASKED)
    second.watch.settled(KEY, second.replica, 150, BYTES, 100)
    assert second.watch.reports() == (LossReport(ORDERS, 0, 5, 120, NOT_KNOWN, 120, NOT_KNOWN),)


def test_what_a_crash_of_the_machine_took_is_not_said_to_be_cut() -> None:
    notes = Notes()
    Told(2, log_of((3, 120)), notes).snapshot(ASKED)

    second = Told(2, log_of((3, 60)), notes, crashed=True)
    second.snapshot(ASKED)
    third = Told(2, second.log, notes)
    third.snapshot(ASKED)
    for told in (second, third):
        told.follows(cut_to=60)
        assert told.watch.reports() == (LossReport(ORDERS, 0, 5, 120, NOT_KNOWN, 120, NOT_KNOWN),)


def test_a_crash_that_took_nothing_leaves_no_doubt() -> None:
    notes = Notes()
    Told(2, log_of((3, 120)), notes).snapshot(ASKED)

    second = Told(2, log_of((3, 120)), notes, crashed=True)
    second.snapshot(ASKED)
    second.follows(cut_to=90, size_bytes=800)
    second.obeys(leader=1, epoch=5)
    assert second.watch.reports() == (LossReport(ORDERS, 0, 5, 120, 90, 120, 200),)


def test_it_is_told_until_the_controller_has_heard_it() -> None:
    notes = Notes()
    told = Told(2, log_of((3, 120)), notes)
    told.snapshot(ASKED)
    told.follows(cut_to=90)
    report = told.watch.reports()
    told.snapshot(ASKED)
    assert told.watch.reports() == report, "another link, whose controller has not heard it"
    heard = LossAsked(ORDERS, 0, 5, 1, told=(1, 2))
    told.watch.hear(Changes(metadata_version=10, losses=(heard,)), (KEY,))
    assert told.watch.reports() == () and notes.held == {}


def test_thousands_that_were_heard_are_noted_once() -> None:
    notes = Notes()
    asked = [LossAsked(ORDERS, 0, epoch, 1) for epoch in range(5, 1_005)]
    told = Told(2, log_of((3, 120)), notes)
    told.snapshot(*asked, epoch=1_005)
    assert len(notes.held) == 1_000
    before = notes.kept
    heard = tuple(LossAsked(ORDERS, 0, one.leader_epoch, 1, told=(1, 2)) for one in asked)
    told.watch.hear(Changes(metadata_version=10, losses=heard), (KEY,))
    assert (notes.held, notes.kept - before) == ({}, 1)


def test_a_snapshot_that_does_not_ask_ends_it() -> None:
    told = Told(2, log_of((3, 120)))
    told.snapshot(ASKED)
    told.follows(cut_to=90)
    told.snapshot()
    assert told.watch.reports() == ()
    told.follows(cut_to=80)
    assert told.watch.reports() == ()


def test_what_is_cut_between_two_chunks_of_a_snapshot_is_told() -> None:
    told = Told(2, log_of((3, 100)))
    told.snapshot(ASKED)
    told.watch.hear(SnapshotChunk(metadata_version=9, number=0, last=False), (KEY,))
    told.follows(90, BYTES - 100)
    told.log.append(5, 20)
    told.watch.hear(SnapshotChunk(metadata_version=9, number=1, last=True, losses=(ASKED,)), (KEY,))
    told.obeys(1, 5)
    told.watch.settled(KEY, told.replica, 110, BYTES)
    assert told.watch.reports() == (LossReport(ORDERS, 0, 5, 100, 90, 100, 100),)


def test_a_log_that_goes_tells_what_it_held_also_by_the_next_process() -> None:
    notes = Notes()
    told = Told(2, log_of((3, 120)), notes)
    told.snapshot(ASKED)
    told.watch.stopped(KEY)
    held_and_not_what_was_cut = (LossReport(ORDERS, 0, 5, 120, NOT_KNOWN, 120, NOT_KNOWN),)
    assert told.watch.reports() == held_and_not_what_was_cut

    again = Told(2, Log(), notes)
    again.watch.hear(SnapshotChunk(metadata_version=9, number=0, last=True, losses=(ASKED,)), (KEY,))
    assert again.watch.reports() == held_and_not_what_was_cut, "it is no replica, and looks at nothing"

    back = Told(2, Log(), notes)
    back.snapshot(ASKED)
    back.follows(cut_to=0, size_bytes=0)
    assert back.watch.reports() == held_and_not_what_was_cut, "its log is another one"


def test_what_was_cut_before_the_log_went_is_known_still() -> None:
    notes = Notes()
    before = Told(2, log_of((3, 120)), notes)
    before.snapshot(ASKED)
    before.follows(cut_to=90, size_bytes=800)
    before.watch.stopped(KEY)
    known = (LossReport(ORDERS, 0, 5, 120, 90, 120, 200),)
    assert before.watch.reports() == known

    back = Told(2, Log(), notes)
    back.snapshot(ASKED)
    back.follows(cut_to=0, size_bytes=0)
    assert back.watch.reports() == known


def test_a_log_that_goes_tells_what_was_committed_in_it() -> None:
    told = Told(2, log_of((3, 120)))
    told.watch.hear(SnapshotChunk(metadata_version=9, number=0, last=True, losses=(ASKED,)), (KEY,))
    told.obeys(leader=1, epoch=5, assigned=(1, 3))
    told.watch.stopped(KEY)
    assert told.watch.reports()[0].high_watermark == 120


def test_an_elected_one_whose_log_went_and_that_died_before_it_was_heard_tells_where_it_began() -> None:
    notes = Notes()
    elected = Told(1, log_of((3, 90)), notes)
    elected.snapshot(ASKED)
    elected.obeys(leader=2, epoch=6, assigned=(2, 3))
    elected.watch.stopped(KEY)

    again = Told(1, Log(), notes)
    again.watch.hear(SnapshotChunk(metadata_version=9, number=0, last=True, losses=(ASKED,)), (KEY,))
    assert again.watch.reports() == (LossReport(ORDERS, 0, 5, 90, 90, 90),)
    heard = LossAsked(ORDERS, 0, 5, 1, told=(1,))
    again.watch.hear(Changes(metadata_version=10, losses=(heard,)), (KEY,))
    assert (again.watch.reports(), notes.held) == ((), {})


def test_an_elected_one_that_wrote_nothing_and_was_followed_by_another_knows_still_where_it_began() -> None:
    notes = Notes()
    Told(1, log_of((3, 90)), notes).snapshot(ASKED)
    again = Told(1, log_of((3, 90)), notes)
    again.snapshot(ASKED, leader=2, epoch=7)
    assert again.watch.reports() == (LossReport(ORDERS, 0, 5, 90, 90, 90),)


@pytest.mark.parametrize(
    ("log", "said"),
    [
        (log_of((3, 120)), LossReport(ORDERS, 0, 5, 120, NOT_KNOWN, 120, NOT_KNOWN)),
        (log_of(), LossReport(ORDERS, 0, 5, NOT_KNOWN, NOT_KNOWN, NOT_KNOWN, NOT_KNOWN)),
    ],
    ids=["failed in this process", "could not be opened"],
)
def test_of_a_log_that_failed_and_goes_is_told_that_nobody_can_read_it(log: Log, said: LossReport) -> None:
    notes = Notes()
    told = Told(2, log, notes)
    told.replica.fail()
    told.snapshot(ASKED)
    assert (told.watch.reports(), notes.held) == ((), {}), "its next process may be able to read it"

    told.obeys(leader=1, epoch=5, assigned=(1, 3))
    told.watch.stopped(KEY)
    assert told.watch.reports() == (said,)

    again = Told(2, Log(), notes)
    again.watch.hear(SnapshotChunk(metadata_version=9, number=0, last=True, losses=(ASKED,)), (KEY,))
    assert again.watch.reports() == (said,)


def test_of_a_log_that_failed_behind_what_was_noted_of_it_that_is_told() -> None:
    told = Told(2, log_of((3, 120)))
    told.snapshot(ASKED)
    told.replica.fail()
    told.obeys(leader=1, epoch=5, assigned=(1, 3))
    told.watch.stopped(KEY)
    assert told.watch.reports() == (LossReport(ORDERS, 0, 5, 120, NOT_KNOWN, 120, NOT_KNOWN),)


@pytest.mark.parametrize(("log", "began"), [(log_of((3, 90), (5, 7)), 90), (log_of(), NOT_KNOWN)])
def test_an_elected_one_whose_log_failed_and_goes_tells_what_its_epochs_show(log: Log, began: int) -> None:
    told = Told(1, log)
    told.replica.fail()
    told.snapshot(ASKED)
    told.obeys(leader=2, epoch=6, assigned=(2, 3))
    told.watch.stopped(KEY)
    [report] = told.watch.reports()
    assert (report.end_offset, report.cut_to) == (began, began)


@pytest.mark.parametrize(
    "removal",
    [
        Changes(metadata_version=10, deleted_topics=(ORDERS,)),
        Changes(metadata_version=10, topics=(TopicRow(ORDERS, "orders", 0, 1),)),
    ],
)
def test_of_a_partition_that_is_removed_nothing_is_told(removal: Changes) -> None:
    notes = Notes()
    told = Told(2, log_of((3, 120)), notes)
    told.snapshot(ASKED)
    told.watch.hear(removal, ())
    told.watch.stopped(KEY)
    told.follows(cut_to=90)
    assert (told.watch.reports(), notes.held, told.watch.is_asked(KEY)) == ((), {}, False)


def test_a_partition_that_got_the_number_of_a_removed_one_answers_for_itself() -> None:
    notes = Notes()
    before = Told(2, log_of((3, 120)), notes)
    before.snapshot(ASKED)
    before.watch.stopped(KEY)
    assert before.watch.reports() != ()

    later = LossAsked(ORDERS, 0, 9, 1)
    before.watch.hear(Changes(metadata_version=11, losses=(later,)), (KEY,))
    before.replica = Replica(2, Log())
    before.obeys(leader=1, epoch=9, base_epoch=7)
    before.watch.settled(KEY, before.replica, 0, 0)
    assert before.watch.reports() == (LossReport(ORDERS, 0, 9, 0, 0, 0, 0),)
    assert list(notes.held) == [(ORDERS, 0, 9)]


def test_of_two_elections_each_is_told() -> None:
    later = LossAsked(ORDERS, 0, 7, 2)
    told = Told(3, log_of((3, 120)))
    told.snapshot(ASKED, later, leader=2, epoch=7)
    told.follows(cut_to=90)
    assert [one.leader_epoch for one in told.watch.reports()] == [5, 7]
