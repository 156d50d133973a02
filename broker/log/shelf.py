"""This room keeps all logs of one broker: finds them at start, makes them, sets strays aside.

A folder `<topic>-<partition>` holds one log. Nothing is erased at once: a log that no row names any
more becomes `…-stray` for a day, because a wrong or partial snapshot must not wipe records
(design.md section 7; conformance 235). Where its topic was deleted it becomes `…-delete` for a minute, as
operators delete topics for room.
"""

import contextlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Set
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final
from uuid import UUID, uuid4

import structlog

from broker.core.leader_epochs import NO_EPOCH
from broker.core.replica_log import PartitionKey
from broker.log import given_up, opening
from broker.log.checkpoints import LEADER_EPOCHS, load_epochs, load_offsets, save_offsets
from broker.log.files import DamagedFile, OpenFiles, read_sealed, replace_sealed, sync_with_folder
from broker.log.led_notes import LedNotes
from broker.log.outcomes import LogSettings, StorageFailed
from broker.log.partition_log import PartitionLog
from broker.log.stated_offsets import Begun, StatedOffsets

log = structlog.get_logger(__name__)

METADATA_FILE: Final = "partition.metadata"
HIGH_WATERMARKS: Final = "replication-offset-checkpoint"
RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"
UNOPENED: Final = "unopened-since-crash"
STRAY: Final = "-stray"
DELETE: Final = "-delete"
_LONGEST_TOPIC_IN_SUFFIXED_NAME: Final = 200
_FLUSHED_AT_ONCE: Final = 16
_CLOSED_BY_ONE: Final = 50
"""Logs that one thread closes in a row: to hand over each by itself costs as much as to close it."""


class LogShelf:
    """The logs under one folder.

    `was_clean`: the last process flushed everything; `same_boot`: the machine did not crash since.
    """

    def __init__(
        self, folder: Path, was_clean: bool, files: OpenFiles | None = None, *, same_boot: bool = True
    ) -> None:
        self._folder = folder
        self._was_clean = was_clean
        self._same_boot = same_boot
        self._files = OpenFiles() if files is None else files
        self._make_folder, self._restates = self._make, self._restate
        """Made once: each of ten thousand empty logs would have its own."""
        self._found: dict[PartitionKey, str] = {}
        """The name of the folder of each log on disk."""
        self._open: dict[PartitionKey, PartitionLog] = {}
        self._recovery_points: dict[PartitionKey, int] = {}
        self.high_watermarks: dict[PartitionKey, int] = {}
        """As the last checkpoint stated; for speed (replication.md section 3), and to miss what is gone."""
        self._unopened: frozenset[PartitionKey] = frozenset()
        """Logs that may lack what a crash of the machine took, and could not be opened when that was said."""
        self._stated_points = StatedOffsets(folder / RECOVERY_POINTS)
        self._stated_marks = StatedOffsets(folder / HIGH_WATERMARKS)
        self.given_up = given_up.GivenUpLogs(folder)
        self.led = LedNotes(folder)
        self.damaged: dict[PartitionKey, str] = {}
        """Logs that lack what they once held, and what was found; the controller must hear of each before
        this broker may lead it."""

    def scan(self, lose_tail: Callable[[], None] | None = None) -> None:
        """Learn which logs are there, finish deletions that were begun. Raises StorageFailed.

        `lose_tail` is called before records are set aside that nobody can say the partition of.
        """
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            for path in sorted(self._folder.iterdir()):
                if path.name.endswith(DELETE):
                    shutil.rmtree(path)
                elif path.is_dir() and not path.name.endswith(STRAY):
                    self._find(path, lose_tail)
            self._load()
        except OSError as error:
            where = error.filename or self._folder
            raise StorageFailed(f"{where} cannot be used: {error.strerror}.") from error

    def _load(self) -> None:
        self._recovery_points = self._stated_points.load()
        self.high_watermarks = self._stated_marks.load()
        withheld = self.given_up.load(self.keys)
        self.led.load(self._found)
        self._unopened = frozenset(load_offsets(self._folder / UNOPENED).keys() & self._found)
        gone = {key for key, offset in self.high_watermarks.items() if offset and key not in self._found}
        self.damaged.update(dict.fromkeys(gone, "its folder is gone"))
        self.damaged.update(dict.fromkeys(withheld, given_up.CONFESSED))

    def _find(self, path: Path, lose_tail: Callable[[], None] | None) -> None:
        """A folder without a metadata file, or with a spoilt one, belongs to no topic id: nobody asks for it.

        What the disk does not give, or this process may not read, is no such one: the records may be there
        again after a repair. Raises OSError, StorageFailed.
        """
        topic, _, partition = path.name.rpartition("-")
        try:
            key = PartitionKey(_topic_id(path / METADATA_FILE), int(partition))
        except (FileNotFoundError, ValueError, KeyError, TypeError) as error:
            log.error("log_without_topic_id", folder=path.name, reason=str(error))
            if lose_tail is not None and any(one.stat().st_size for one in path.glob("*.log")):
                lose_tail()
            self._set_aside(path, topic or path.name, STRAY)
            return
        except OSError as error:
            raise StorageFailed(f"{path / METADATA_FILE} cannot be read: {error.strerror}.") from error
        self._found[key] = path.name

    @property
    def folder(self) -> Path:
        """The one folder of all logs."""
        return self._folder

    @property
    def keys(self) -> frozenset[PartitionKey]:
        """Every log that is there, opened or not."""
        return frozenset(self._found)

    def may_lack(self, key: PartitionKey) -> bool:
        """True if its machine crashed since a process opened it, and had that said of it."""
        return not self._same_boot or key in self._unopened

    def holds(self, key: PartitionKey) -> bool:
        """True if its log is on disk."""
        return key in self._found

    def cold(self) -> Iterator[PartitionKey]:
        """Logs that lie on disk and are not open: to open one may take seconds after a kill."""
        return (key for key in tuple(self._found) if key not in self._open)

    def log(self, key: PartitionKey, topic: str, settings: LogSettings, now_ms: int) -> PartitionLog:
        """The log of `key`, found on disk or empty. Raises StorageFailed.

        An empty log that was never on disk takes no room there before its first record: a topic of ten
        thousand partitions is made without touching the disk, and most of them may never be written.
        """
        opened = self._open.get(key)
        if opened is None:
            if self.given_up.withholds(key) and key not in self.damaged:
                raise StorageFailed(given_up.WHY)
            opened = self._new(key, topic, settings)
            if key in self._found:
                opened = self.read(key, settings, now_ms)
            self.keep(key, opened)
        return opened

    def _new(self, key: PartitionKey, topic: str, settings: LogSettings) -> PartitionLog:
        place = f"{self._folder}/{topic}-{key.partition}"
        return PartitionLog(place, key.topic_id, self._files, settings, self._make_folder)

    def failed(self, key: PartitionKey, topic: str, settings: LogSettings, reason: str) -> PartitionLog:
        """In the place of a log that could not be opened: one that is closed for good."""
        stands_in = self._new(key, topic, settings)
        stands_in.failure = reason
        return stands_in

    def read(self, key: PartitionKey, settings: LogSettings, now_ms: int) -> PartitionLog:
        """The log of `key` as it lies on disk, checked as far as the last stop demands. Raises StorageFailed.

        Beside the loop as well: nothing is shared until `keep`. The same log must not be read twice at once.
        """
        found = PartitionLog(self._folder / self._found[key], key.topic_id, self._files, settings)
        trust = opening.Trust(
            self._was_clean,
            self._recovery_points.get(key, 0),
            self.high_watermarks.get(key, 0),
            not self.may_lack(key),
        )
        damage = found.open(trust, now_ms)
        if key in self._unopened:
            damage = damage or "its machine crashed, and it could not be opened then"
        if damage:
            log.error("log_damaged", folder=found.folder.name, found=damage, end_offset=found.end_offset)
            self.damaged[key] = damage
        return found

    def keep(self, key: PartitionKey, opened: PartitionLog) -> None:
        """From now on `log` answers with this one."""
        self._open[key] = opened
        opened.restate = self._restates

    def tried(self) -> None:
        """All logs were tried, and the next hello says what is known by now. Raises StorageFailed.

        A crash of the machine is said once, for all logs: one that cannot be opened leads nothing then, and
        may be the last in sync. The process that opens it at last says so of it again.
        """
        try:
            if not self._same_boot:
                self._save_unopened(self._unopened | frozenset(self.cold()))
        except OSError as error:
            raise StorageFailed(str(error)) from error

    def _save_unopened(self, keys: Set[PartitionKey]) -> None:
        if keys == self._unopened:
            return
        self._unopened = frozenset(keys)
        path = self._folder / UNOPENED
        save_offsets(path, dict.fromkeys(sorted(keys), 0))
        sync_with_folder(path)

    def confessed(self) -> None:
        """The controller has heard of all that is damaged. Raises StorageFailed."""
        damaged, self.damaged = self.damaged, {}
        try:
            for key in damaged:
                if key in self._found:
                    opening.damage_confessed(self._folder / self._found[key])
                    self._lower(key, self._open[key].end_offset if key in self._open else 0)
                else:
                    self._forget_offsets(key)
                self.given_up.begun(key)
            if damaged:
                self.given_up.save()
                self._stated_marks.save_durably(self.high_watermarks)
                self._save_unopened(self._unopened - damaged.keys())
        except OSError as error:
            raise StorageFailed(str(error)) from error

    def _forget_offsets(self, key: PartitionKey) -> None:
        self._recovery_points.pop(key, None)
        self.high_watermarks.pop(key, None)

    def forget_set_aside(self) -> None:
        """Logs were set aside: what the file says of them is said of nothing, or of who comes after them.

        Apart from `set_aside`: thousands that go at once cost one file.
        """
        try:
            self.given_up.save_withheld()
            if self._stated_marks.names_others_than(self.high_watermarks.keys()):
                self._stated_marks.save_durably(self.high_watermarks)
        except OSError as error:
            log.error("checkpoint_not_written", reason=str(error))

    def _make(self, opened: PartitionLog) -> None:
        """Begin a log on disk; nothing here waits for it. Raises OSError.

        A kill -9 takes nothing that was written; one between the two steps leaves a folder that `_find` sets
        aside, and it is empty. A machine crash may take the whole folder: that is a lost tail like any other,
        and the next hello confesses it (another boot id and no clean mark; replication.md section 1).
        """
        folder = opened.folder
        topic, _, partition = folder.name.rpartition("-")
        self._restate(opened, opened.end_offset)
        try:
            folder.mkdir()
        except FileExistsError:
            # another topic id under the old name: that log is stray and never used again
            for known in [known for known, name in self._found.items() if name == folder.name]:
                self._give_up(known, folder, self._open.get(known))
                del self._found[known]
                self.led.forget(known)
            if any(folder.iterdir()):
                self._set_aside(folder, topic, STRAY)
                folder.mkdir()
        stated = {"version": 1, "topic_id": str(opened.topic_id)}
        replace_sealed(folder / METADATA_FILE, json.dumps(stated).encode() + b"\n")
        key = PartitionKey(opened.topic_id, int(partition))
        self._found[key] = folder.name
        self.given_up.begun(key)

    def set_aside(self, key: PartitionKey, suffix: str) -> None:
        """The log of `key` is not served any more: STRAY, or DELETE with its topic. Raises StorageFailed."""
        name = self._found.pop(key, None)
        opened = self._open.pop(key, None)
        if name is not None:
            self._give_up(key, self._folder / name, opened)
        self._forget_offsets(key)
        self.led.forget(key)
        self.damaged.pop(key, None)
        if opened is not None:
            opened.close()
        if name is None:
            return
        try:
            self._set_aside(self._folder / name, name.rpartition("-")[0], suffix)
            self._save_unopened(self._unopened - {key})
        except OSError as error:
            raise StorageFailed(str(error)) from error

    def _give_up(self, key: PartitionKey, folder: Path, opened: PartitionLog | None) -> None:
        """Noted before it goes, also where nobody has noted that it moves away."""
        last_epoch = NO_EPOCH
        if opened is not None and not opened.failure:
            last_epoch = opened.last_epoch
        else:
            # A log goes away because its disk fails: what cannot be read must not keep it.
            with contextlib.suppress(OSError):
                epochs = load_epochs(folder / LEADER_EPOCHS)
                last_epoch = NO_EPOCH if epochs is None else epochs.last_epoch
        if last_epoch > NO_EPOCH:
            self.given_up.note(key, last_epoch)

    def _set_aside(self, folder: Path, topic: str, suffix: str) -> None:
        partition = folder.name.rpartition("-")[2]
        moved = self._folder / (
            f"{topic[:_LONGEST_TOPIC_IN_SUFFIXED_NAME]}-{partition}.{uuid4().hex}{suffix}"
        )
        # The time of becoming stray is the folder's own, which a rename does not change. It is set first:
        # a kill in between would else leave a stray that seems old, and is erased at once.
        os.utime(folder)
        os.rename(folder, moved)
        # Behind the rename, whoever opened them: what lies in the folder next would be written into these.
        self._files.forget_below(str(folder))
        log.info("log_set_aside", folder=folder.name, moved_to=moved.name)

    def erase_old(self, wall_ms: int, ages: Mapping[str, int]) -> int:
        """Erase discarded segments, and what was set aside longer ago than its suffix is kept, in ms; returns
        how many logs.

        Terabytes take their time: beside the loop. Nothing that is served is touched.
        """
        self._files.erase()
        erased = 0
        for path, kept_ms in self._put_aside(ages):
            try:
                is_old = wall_ms - path.stat().st_mtime * 1000 >= kept_ms
            except OSError as error:
                # The disk fails, or somebody deleted it meanwhile: what is served goes on, others are erased.
                log.warning("not_erased_yet", folder=path.name, reason=str(error))
                continue
            if is_old:
                shutil.rmtree(path, ignore_errors=True)
                erased += 1
        return erased

    def _put_aside(self, ages: Mapping[str, int]) -> list[tuple[Path, int]]:
        try:
            return [(path, age) for suffix, age in ages.items() for path in self._folder.glob(f"*{suffix}")]
        except OSError as error:
            log.warning("not_erased_yet", reason=str(error))
            return []

    def checkpoint(self, high_watermarks: Mapping[PartitionKey, int]) -> None:
        """Save high watermarks and recovery points, if there are others. Raises StorageFailed."""
        self._take_over(high_watermarks)
        try:
            self.given_up.save()
            self._stated_points.save(self._recovery_points)
            self._stated_marks.save(self.high_watermarks)
        except OSError as error:
            raise StorageFailed(str(error)) from error

    def begin_checkpoint(self, high_watermarks: Mapping[PartitionKey, int]) -> "BegunCheckpoint":
        """The same, but what is written of all logs is left to a thread. Raises StorageFailed."""
        self._take_over(high_watermarks)
        try:
            self.given_up.save()
        except OSError as error:
            raise StorageFailed(str(error)) from error
        pairs = ((self._stated_points, self._recovery_points), (self._stated_marks, self.high_watermarks))
        return BegunCheckpoint([(file, begun) for file, offsets in pairs if (begun := file.begin(offsets))])

    def _take_over(self, high_watermarks: Mapping[PartitionKey, int]) -> None:
        for key, opened in self._open.items():
            if opened.end_offset:
                self._recovery_points[key] = opened.recovery_point
                self.high_watermarks[key] = high_watermarks.get(key, self.high_watermarks.get(key, 0))
            else:
                # What is not named begins at 0: an empty log needs no line.
                self._forget_offsets(key)

    def state_ends(self, ends: Mapping[PartitionKey, int]) -> None:
        """Before these logs are cut, each to its offset: what `_restate` would write once for each of them.

        The files name every log, and are synced: a thousand cuts took 19 s. Raises StorageFailed.
        """
        at_most = self._stated_marks.at_most
        lowered = {key: offset for key, offset in ends.items() if at_most(key) > offset}
        for key, offset in lowered.items():
            self._lower(key, offset)
        try:
            if lowered:
                self._stated_marks.save_durably(self.high_watermarks)
        except OSError as error:
            raise StorageFailed(str(error)) from error

    def _restate(self, opened: PartitionLog, end_offset: int) -> None:
        """The log ends at `end_offset` for now: state first, and durably, what the files say too much of it.

        It was cut, or made anew. Below what was flushed once, what is written there since would be believed
        without a check at a start after a kill; Kafka states it with each cut (`LogManager.truncateTo`).
        Below what was committed until it was removed or an election lost it, another history would count as
        committed, or be missed. Raises OSError.
        """
        key = PartitionKey(opened.topic_id, int(opened.folder.name.rpartition("-")[2]))
        if self._stated_points.at_most(key) > opened.recovery_point:
            self._recovery_points[key] = opened.recovery_point
            self._stated_points.save_durably(self._recovery_points)
        if self._stated_marks.at_most(key) > end_offset:
            self._lower(key, end_offset)
            # Durably: after a crash of the machine an older file would say more than is true again.
            self._stated_marks.save_durably(self.high_watermarks)

    def _lower(self, key: PartitionKey, offset: int) -> None:
        if self.high_watermarks.get(key, 0) > offset:
            self.high_watermarks[key] = offset

    def close(self, high_watermarks: dict[PartitionKey, int]) -> bool:
        """Make everything durable and write indexes; True if the clean-shutdown mark may be left.

        Takes as long as the disk needs, so it belongs beside the loop: nobody may append meanwhile.
        """
        # A log that was not opened since an unclean stop may still have a torn tail.
        is_clean = self._was_clean or self._found.keys() <= self._open.keys()
        with ThreadPoolExecutor(_FLUSHED_AT_ONCE, "flush") as threads:
            opened = list(self._open.values())
            few = [opened[start : start + _CLOSED_BY_ONE] for start in range(0, len(opened), _CLOSED_BY_ONE)]
            is_clean &= all(list(threads.map(_close, few)))
        try:
            self.checkpoint(high_watermarks)
        except StorageFailed as error:
            log.error("checkpoint_not_written", reason=str(error))
            is_clean = False
        # The many small files beside the logs are not fsynced one by one: a broker whose machine
        # crashed confesses a lost tail anyway. A clean stop promises more, so one sync for all.
        os.sync()
        return is_clean


class BegunCheckpoint:
    """Files that are to be written in a thread: `write` there, then `settle` on the loop."""

    def __init__(self, files: list[tuple[StatedOffsets, Begun]]) -> None:
        self._files = files

    def write(self) -> None:
        """Raises StorageFailed."""
        try:
            for _, begun in self._files:
                begun.write()
        except OSError as error:
            raise StorageFailed(str(error)) from error

    def settle(self) -> bool:
        """True if all of it is written."""
        return all([file.settle(begun) for file, begun in self._files])


def _topic_id(path: Path) -> UUID:
    """What a metadata file states. Raises ValueError, KeyError, TypeError, OSError."""
    try:
        return UUID(json.loads(read_sealed(path))["topic_id"])
    except DamagedFile:
        # Version 0 had no checksum.
        return UUID(json.loads(path.read_bytes())["topic_id"])


def _close(logs: list[PartitionLog]) -> bool:
    is_clean = True
    for opened in logs:
        try:
            if opened.recovery_point < opened.end_offset or opened.failure:
                opened.flush()
            opened.close()
        except StorageFailed as error:
            log.error("log_not_closed", folder=opened.folder.name, reason=str(error))
            is_clean = False
    return is_clean
