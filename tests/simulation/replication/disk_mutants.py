"""This room switches single rules of logs, recovery and confession off, to show that walks with disks notice.

Every mutant changes the product's code, none what stands in for a disk or a process.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from broker.core import producers
from broker.core.loss_watch import LossWatch
from broker.core.producers import Append, Producers, Refused
from broker.core.refused_batches import RefusedBatches
from broker.core.replica import Replica, Role
from broker.core.replica_log import EpochEnd
from broker.handlers_produce import _ParkedProduce
from broker.handlers_replication import Followed, FollowerSession
from broker.hosted import HostedPartition
from broker.log import accepting, cutting, opening, partition_log, retention
from broker.log.given_up import GivenUpLogs
from broker.log.outcomes import LARGEST, LogSettings, StorageFailed
from broker.log.partition_log import PartitionLog
from broker.log.segment import Segment
from broker.log.shelf import LogShelf
from broker.replicas import DataPlane
from controller.core import brokers, leaders, turn
from controller.core.loss_draft import LossDraft
from controller.core.state import LostTail

Mutant = Callable[[], AbstractContextManager[object]]
MUTANTS: dict[str, Mutant] = {}


def mutant(name: str) -> Callable[[Callable[[], Iterator[None]]], None]:
    """Register a generator as the context of mutant `name`."""

    def register(switch_off: Callable[[], Iterator[None]]) -> None:
        MUTANTS[name] = contextmanager(switch_off)

    return register


# ---------------------------------------------------------------------------------- confession

MUTANTS["confess_nothing"] = lambda: patch.object(DataPlane, "damaged", property(lambda self: ()))
MUTANTS["note_nothing"] = lambda: patch.object(opening._Check, "note", _note_in_memory)


def _note_in_memory(check: Any, text: str) -> None:
    """Told by this process or by none."""
    check.damage = check.damage or text


MUTANTS["damage_kept"] = lambda: patch.object(
    brokers, "LostTail", lambda everywhere, _logs: LostTail(everywhere, frozenset())
)


MUTANTS["given_up_leads"] = lambda: patch.object(GivenUpLogs, "withholds", lambda _logs, _key: False)
MUTANTS["given_up_is_forgotten"] = lambda: patch.object(GivenUpLogs, "_note_since", lambda *_: None)
MUTANTS["withheld_is_forgotten"] = lambda: patch.object(
    GivenUpLogs, "load", lambda _logs, _found: frozenset()
)
MUTANTS["unopened_is_forgotten"] = lambda: patch.object(LogShelf, "tried", lambda _shelf: None)
MUTANTS["unusable_untold"] = lambda: patch.object(turn, "unusable_news", lambda *_: ())


@mutant("nameless_is_nothing")
def _() -> Iterator[None]:
    scan = LogShelf.scan
    with patch.object(LogShelf, "scan", lambda self, lose_tail=None: scan(self)):
        yield


@mutant("torn_is_all")
def _() -> Iterator[None]:
    """Whatever is cut counts as a write that nobody was told of."""
    with patch.object(opening._Check, "_is_torn", lambda *_: True):
        yield


# ---------------------------------------------------------------------------------- recovery


@mutant("offsets_believed")
def _() -> Iterator[None]:
    is_wrong = opening._Check._is_wrong

    def believing(self: Any, segment: Any, position: int, header: Any, expected: int) -> bool:
        return is_wrong(self, segment, position, header, max(expected, header.base_offset))

    with patch.object(opening._Check, "_is_wrong", believing):
        yield


@mutant("epochs_believed")
def _() -> Iterator[None]:
    is_wrong = opening._Check._is_wrong

    def believing(self: Any, segment: Any, position: int, header: Any, expected: int) -> bool:
        stated, self._stated = self._stated, None
        try:
            return is_wrong(self, segment, position, header, expected)
        finally:
            self._stated = stated

    with patch.object(opening._Check, "_is_wrong", believing):
        yield


MUTANTS["settings_of_the_start"] = lambda: patch.object(
    DataPlane, "_reconfigure", lambda self, topic_ids: _require_alone(self, topic_ids)
)
MUTANTS["cuts_untold"] = lambda: patch.object(LossWatch, "settled", lambda *_: None)
MUTANTS["failed_is_untold"] = lambda: patch.object(LossWatch, "_tell_unread", lambda *_: None)
MUTANTS["crash_is_a_cut"] = lambda: patch.object(LossWatch, "_look_behind_a_crash", lambda *_: None)
MUTANTS["tail_is_believed"] = lambda: patch.object(LossDraft, "doubt", lambda *_: "")
MUTANTS["greeted_at_once"] = lambda: patch.object(brokers, "is_kept_waiting", lambda *_: False)


@mutant("doubt_is_the_returns")
def _() -> Iterator[None]:
    """Whoever is elected by another event than its own return is believed to hold all."""
    doubt, elect = LossDraft.doubt, leaders.elect_leaderless
    returning: list[int] = []

    def elect_leaderless(draft: Any, broker_id: int) -> bool:
        returning.append(broker_id)
        try:
            return elect(draft, broker_id)
        finally:
            returning.pop()

    def doubt_of_returns(self: LossDraft, row: Any, leader: int) -> str:
        return doubt(self, row, leader) if leader in returning else ""

    with (
        patch.object(leaders, "elect_leaderless", elect_leaderless),
        patch.object(LossDraft, "doubt", doubt_of_returns),
    ):
        yield


@mutant("grown_is_uncut")
def _() -> Iterator[None]:
    """Where a log parted from its leader's is looked for again by each process."""
    begin = LossWatch.begin

    def begin_anew(self: LossWatch, *stated: Any, **named: Any) -> None:
        begin(self, *stated, **named)
        self._held = {key: one._replace(parted_at=None) for key, one in self._held.items()}

    with patch.object(LossWatch, "begin", begin_anew):
        yield


@mutant("epoch_untold")
def _() -> Iterator[None]:
    """A follower that is level hears nothing of another epoch of the same leader."""
    move = FollowerSession._move

    def move_on(self: FollowerSession, *asked: Any) -> list[Followed]:
        told = {key: followed.told for key, followed in self._followed.items()}
        moved = move(self, *asked)
        for followed in moved:
            followed.told = told.get(followed.key)
        return moved

    with patch.object(FollowerSession, "_move", move_on):
        yield


def _require_alone(plane: DataPlane, topic_ids: Any) -> None:
    for hosted in plane.partitions():
        if hosted.key.topic_id in topic_ids and (topic := plane.topics.get(hosted.key.topic_id)):
            hosted.replica.require(topic.min_insync_replicas)
            hosted.look()


MUTANTS["mark_outlives_log"] = lambda: patch.object(LogShelf, "_restate", lambda *_: None)
MUTANTS["place_believed"] = lambda: patch.object(Segment, "sound_to", lambda self, start, end, epochs: end)


# ---------------------------------------------------------------------------------- failing


@mutant("failed_leads")
def _() -> Iterator[None]:
    def go_on(self: Replica) -> None:
        self.role = self.role if self.role is not Role.FAILED else Role.LEADER

    with patch.object(Replica, "fail", go_on):
        yield


@mutant("fsync_believed")
def _() -> Iterator[None]:
    """An fsync that failed is as good as none: the next one is believed."""
    fail = PartitionLog.fail

    def forgiving(self: PartitionLog, reason: str) -> None:
        if not reason.startswith("not flushed"):
            fail(self, reason)

    with patch.object(PartitionLog, "fail", forgiving):
        yield


@mutant("cut_in_memory_first")
def _() -> Iterator[None]:
    truncate_to = PartitionLog.truncate_to

    def cut_anyway(self: PartitionLog, offset: int, *arguments: Any) -> None:
        try:
            truncate_to(self, offset, *arguments)
        except StorageFailed:
            self.failure = ""
            self.end_offset = offset
            self._epochs.truncate(offset)
            raise

    with (
        patch.object(PartitionLog, "truncate_to", cut_anyway),
        patch.object(PartitionLog, "fail", lambda self, reason: None),
    ):
        yield


# ---------------------------------------------------------------------------------- bad batches

MUTANTS["bad_batch_kept"] = lambda: patch.object(HostedPartition, "sent_in_vain", lambda *_: None)
MUTANTS["last_gives_up"] = lambda: patch.object(Replica, "another_may_lead", lambda self, live: True)


@mutant("noted_is_believed")
def _() -> Iterator[None]:
    """A log that gave way is opened like any other."""
    begin = opening._Check.__init__

    def unsuspecting(self: Any, *arguments: Any) -> None:
        begin(self, *arguments)
        self._is_suspect = False

    with patch.object(opening._Check, "__init__", unsuspecting):
        yield


# ---------------------------------------------------------------------------------- log starts

MUTANTS["retention_above_hw"] = lambda: patch.object(retention, "surplus", _surplus_of_all)
MUTANTS["start_forgotten"] = lambda: patch.object(partition_log, "save_start", lambda *_: None)
MUTANTS["start_not_followed"] = lambda: patch.object(
    Replica, "start_to_follow", lambda self, _leaders: self.log.start_offset
)
MUTANTS["start_above_hw"] = lambda: patch.object(Replica, "began_again", lambda self: None)


_surplus: Any = retention.surplus


def _surplus_of_all(*stated: Any) -> int:
    """Whether it is committed or not."""
    *known, _high_watermark, end_offset = stated
    return int(_surplus(*known, end_offset, end_offset))


_settings_made: Any = LogSettings.__post_init__


def _never_old(settings: LogSettings) -> None:
    _settings_made(settings)
    object.__setattr__(settings, "rolls_after_ms", LARGEST)


MUTANTS["age_closes_nothing"] = lambda: patch.object(LogSettings, "__post_init__", _never_old)
MUTANTS["old_is_kept"] = lambda: patch.object(
    retention,
    "surplus",
    lambda one, settings, *rest: _surplus(one, replace(settings, retention_ms=-1), *rest),
)
MUTANTS["young_goes"] = lambda: patch.object(Segment, "youngest_ms", Segment.oldest_ms)


@mutant("forgotten_diverges")
def _() -> Iterator[None]:
    """An epoch below all that a leader knows says that nothing at all is shared."""

    def divergence(self: Replica, offset: int, last_epoch: int) -> EpochEnd | None:
        if last_epoch < 0:
            return None
        end = self.log.end_of_epoch(last_epoch)
        return end if end.epoch != last_epoch or end.end_offset < offset else None

    with patch.object(Replica, "divergence", divergence):
        yield


# ---------------------------------------------------------------------------------- producers


@mutant("ps_leader_only")
def _() -> Iterator[None]:
    append = PartitionLog.append_as_follower

    def append_without(self: PartitionLog, *arguments: Any) -> int:
        with patch.object(Producers, "stored", lambda *_: None):
            return append(self, *arguments)

    with patch.object(PartitionLog, "append_as_follower", append_without):
        yield


MUTANTS["ps_not_rolled"] = lambda: patch.object(PartitionLog, "_rebuild_producers", lambda *_: None)
MUTANTS["ps_forgotten"] = lambda: patch.object(cutting, "producers_of", lambda *_: Producers())
MUTANTS["ps_unread"] = lambda: patch.object(cutting.Replay, "read_for", lambda *_: Producers())
MUTANTS["window_is_short"] = lambda: patch.object(producers, "REMEMBERED_BATCHES", 4)


# ---------------------------------------------------------------------------------- refused batches

MUTANTS["gap_is_told"] = lambda: patch.object(
    Producers, "leaves_a_gap", lambda self, header: self.judge(header) == Append(is_strangers=True)
)
MUTANTS["gap_is_taken"] = lambda: patch.object(
    Producers, "leaves_a_gap", lambda self, header: isinstance(self.judge(header), Refused)
)


MUTANTS["cut_is_told"] = lambda: patch.object(_ParkedProduce, "refuse", _refuse_without_a_note)


def _refuse_without_a_note(_parked: Any, outcome: Any, error_code: Any) -> None:
    outcome.refuse(error_code)


@mutant("one_line_for_all")
def _() -> Iterator[None]:
    """What comes over one connection clears what was refused on another."""
    note, in_the_way = RefusedBatches.note, RefusedBatches.in_the_way

    def note_for_all(self: RefusedBatches, place: Any, _peer: str, *told: Any) -> None:
        note(self, place, "anybody", *told)

    def in_the_way_of_all(self: RefusedBatches, place: Any, _peer: str, *told: Any) -> Any:
        return in_the_way(self, place, "anybody", *told)

    with (
        patch.object(RefusedBatches, "note", note_for_all),
        patch.object(RefusedBatches, "in_the_way", in_the_way_of_all),
    ):
        yield


@mutant("stranger_is_taken")
def _() -> Iterator[None]:
    def of_anybody(*stated: Any, is_whole: bool) -> Any:
        return accepting.in_sequence(*stated, is_whole=False)

    with patch.object(partition_log, "in_sequence", of_anybody):
        yield
