"""This room takes a log over as its folder holds it: checks it, cuts what is no batch, says what was damaged.

Base offset and leader epoch of a batch lie outside its checksum. An offset must follow the one before it; an
epoch must be the one that the file of epochs states, which is written before an epoch's first batch.
"""

import os
import struct
import sys
from collections.abc import Iterator, Set
from contextlib import suppress
from itertools import zip_longest
from pathlib import Path
from typing import Final, NamedTuple

from broker.core.leader_epochs import LeaderEpochs
from broker.core.producers import Producers
from broker.log import producer_snapshots
from broker.log.checkpoints import LEADER_EPOCHS, LOG_START, load_epochs, load_start, save_epochs
from broker.log.cleaning import finish_swaps
from broker.log.cutting import producers_of
from broker.log.files import DELETED
from broker.log.segment import Segment
from broker.log.segments import Segments
from muster.kafkawire import batches
from muster.kafkawire.batches import BatchHeader
from muster.kafkawire.errors import CorruptBatch
from muster.kafkawire.framing import DEFAULT_LIMIT_BYTES

DAMAGED: Final = "damaged"
"""A file that marks a log whose damage was found and not yet confessed; it holds what was found."""

LARGEST_BATCH_BYTES: Final = DEFAULT_LIMIT_BYTES
"""No request is larger, so no batch is. What a topic allows is not known yet when its log is opened."""

_PLACE = struct.Struct(">q")
_MAGIC_AT: Final = 16


class Trust(NamedTuple):
    """What the last process left behind that can be believed."""

    was_clean: bool = False
    """It flushed everything and said so: no batch is checked."""
    recovery_point: int = 0
    """After an unclean stop, segments that end at or below it are not checked."""
    high_watermark: int = 0
    """Everything below was committed and must be there."""
    same_boot: bool = True
    """The machine did not crash, so small files are as they were last written."""


class TakenOver(NamedTuple):
    """What a log begins with; `damage` says what is missing that was once stored ("" if nothing is)."""

    start_offset: int
    end_offset: int
    epochs: LeaderEpochs
    producers: Producers
    damage: str


def take_over(folder: Path, segments: Segments, trust: Trust, now_ms: int) -> TakenOver:
    """Fill `segments` from the files in `folder`. Raises OSError; ValueError for a file of another name.

    Damage is noted in the folder before anything is cut: a process that dies before it could confess leaves
    the note to the next one.
    """
    names = frozenset(os.listdir(folder))
    for left in names:
        if left.endswith(DELETED):
            (folder / left).unlink(missing_ok=True)
    if finish_swaps(folder, names):
        names = frozenset(os.listdir(folder))
    stated = load_epochs(folder / LEADER_EPOCHS) if LEADER_EPOCHS in names else None
    check = _Check(folder, names, segments, trust, stated if trust.same_boot else None)
    end = check.all_segments()
    if trust.high_watermark > end:
        check.note(f"it ends at {end}, {trust.high_watermark} was committed")
    start = max(segments.bases[0] if len(segments) else 0, check.stated_start())
    if start > end:
        # All that is left was deleted: what ends before its own start holds nothing that anybody may read,
        # and says nothing of what its producers have stored since.
        producer_snapshots.forget_all(folder)
        names = frozenset()
        segments.drop_all()
        segments.begin(start)
        end = start
    epochs = _epochs_of(folder, segments, stated, min(end, check.stated_to), end)
    epochs.begin_at(start)
    producers = producers_of(folder, names, segments, end, now_ms)
    return TakenOver(start, end, epochs, producers, check.damage)


def damage_noted(folder: Path) -> str:
    """What an earlier process found and could not confess; "" if nothing. Raises OSError."""
    try:
        return (folder / DAMAGED).read_text("utf-8", "replace") or "damaged"
    except FileNotFoundError:
        return ""


def note_damage(folder: Path, text: str) -> None:
    """Leave a note to the next process, if the disk still takes one."""
    with suppress(OSError):
        if not damage_noted(folder):
            (folder / DAMAGED).write_text(text, "utf-8")


def damage_confessed(folder: Path) -> None:
    """The controller knows. Raises OSError."""
    (folder / DAMAGED).unlink(missing_ok=True)


class _Check:
    """One pass over a log's segments."""

    def __init__(
        self,
        folder: Path,
        names: Set[str],
        segments: Segments,
        trust: Trust,
        stated: LeaderEpochs | None,
    ) -> None:
        self.damage = damage_noted(folder) if DAMAGED in names else ""
        self._is_suspect = bool(self.damage)
        """Damage was found where it had been flushed, too, or the disk failed: nothing is believed."""
        self._folder = folder
        self._names = names
        self._segments = segments
        self._trust = trust
        self._stated = stated
        self._last_epoch = -1
        self._checked_from: int | None = None

    @property
    def stated_to(self) -> int:
        """Up to where the file of epochs may be believed: after a crash not where batches were checked."""
        if self._trust.same_boot or self._checked_from is None:
            return sys.maxsize
        return self._checked_from

    def note(self, text: str) -> None:
        """Remember damage, in the folder first."""
        if not self.damage:
            self.damage = text
            (self._folder / DAMAGED).write_text(text, "utf-8")

    def stated_start(self) -> int:
        """Where the log begins by its file; 0 if it states nothing. Raises OSError.

        One that cannot be believed is damage: what was deleted would be there again, until the leader's log
        start is followed.
        """
        try:
            return load_start(self._folder / LOG_START) if LOG_START in self._names else 0
        except ValueError as error:
            self.note(f"where it begins is not known: {error}")
            return 0

    def all_segments(self) -> int:
        """Take segment by segment; behind the first that is not whole nothing is kept. Where the log ends."""
        end = 0
        bases = sorted(_base_of(name) for name in self._names if name.endswith(".log"))
        for base, next_base in zip_longest(bases, bases[1:]):
            segment = self._segments.on_disk(base)
            is_below = next_base is not None and next_base <= self._trust.recovery_point
            end = segment.base_offset
            is_believed = (is_below or self._trust.was_clean) and not self._is_suspect
            end = self._end_of(segment, next_base) if is_believed else self._checked(segment)
            self._segments.add(segment)
            if next_base is not None and end != next_base:
                self.note(f"records {end} to {next_base} are missing")
                for behind in reversed(bases[bases.index(next_base) :]):
                    self._segments.on_disk(behind).delete()
                break
        return end

    def _end_of(self, segment: Segment, next_base: int | None) -> int:
        """The offset behind a segment that is believed.

        It is checked after all if it has no index, or its last batches are not those that should be there:
        how the others follow each other is looked at when they are read.
        """
        if not segment.open():
            return self._checked(segment)
        if next_base is not None:
            return next_base
        size, (position, last) = segment.size_bytes, segment.last_batch()
        if position != size or segment.sound_to(size - 1, size, self._stated or LeaderEpochs()) != size:
            return self._checked(segment)
        return segment.base_offset if last is None else last.next_offset

    def _checked(self, segment: Segment) -> int:
        """Check every batch and cut behind the last good one; returns the offset behind it."""
        segment.measure()
        if self._checked_from is None:
            self._checked_from = segment.base_offset
        good, end = 0, segment.base_offset
        for position, header in segment.headers():
            if self._is_wrong(segment, position, header, end):
                break
            good, end = position + header.size_bytes, header.next_offset
            self._last_epoch = header.leader_epoch
            segment.note(header.base_offset, position, header.size_bytes, header.max_timestamp_ms)
        if good != segment.size_bytes:
            if not self._is_torn(segment, good, end):
                self.note(f"the batch at offset {end} is damaged")
            segment.cut_behind(good)
        return end

    def _is_wrong(self, segment: Segment, position: int, header: BatchHeader, expected: int) -> bool:
        if header.base_offset != expected or header.leader_epoch < self._last_epoch:
            return True
        stated = self._stated.epoch_at(expected) if self._stated is not None else -1
        if stated >= 0 and header.leader_epoch != stated:
            return True
        try:
            batches.check(memoryview(segment.read(position, header.size_bytes)), 0, header)
        except CorruptBatch:
            return True
        return False

    def _is_torn(self, segment: Segment, position: int, expected: int) -> bool:
        """True if the last bytes can only be a write that a kill cut off: nobody was told of it.

        A batch whose length was damaged also seems to go on behind the end of the file; but then it ends
        somewhere in these bytes, and is whole there or another one follows.
        """
        size = segment.size_bytes - position
        if size > LARGEST_BATCH_BYTES or self._trust.was_clean:
            return False
        rest = segment.read(position, size)
        if size < batches.HEADER_BYTES:
            return True
        try:
            header = batches.read_header(rest)
        except CorruptBatch:
            return False
        if header.base_offset != expected or header.size_bytes <= size:
            return False
        return not any(_is_end(rest, at, header) for at in _possible_ends(rest, header))


def _base_of(name: str) -> int:
    """Raises ValueError for what is no segment: whoever put it there reads this on a page."""
    try:
        return int(name.removesuffix(".log"))
    except ValueError as error:
        raise ValueError(f"{name} is not the name of a segment: who put it there?") from error


def _possible_ends(rest: bytes, header: BatchHeader) -> Iterator[int]:
    """Where the batch at the head of `rest` may end: at the end, or where the next offset stands."""
    yield len(rest)
    following = _PLACE.pack(header.next_offset)
    at = rest.find(following, batches.HEADER_BYTES)
    while at >= 0:
        yield at
        at = rest.find(following, at + 1)


def _is_end(rest: bytes, at: int, header: BatchHeader) -> bool:
    whole = header._replace(size_bytes=at)
    with suppress(CorruptBatch):
        batches.check(memoryview(rest)[:at], 0, whole)
        return True
    return rest[at + _MAGIC_AT : at + _MAGIC_AT + 1] == b"\x02"


def _epochs_of(
    folder: Path, segments: Segments, stated: LeaderEpochs | None, stated_to: int, end_offset: int
) -> LeaderEpochs:
    """What the file states of the log below `stated_to`, and behind it what the batches say."""
    epochs = LeaderEpochs(stated.entries if stated is not None else ())
    if len(segments):
        epochs.begin_at(segments.bases[0])
    epochs.truncate(stated_to)
    if len(segments):
        known = epochs.entries
        last = _last_header(segments)
        if stated_to < end_offset or (last is not None and last.leader_epoch != epochs.last_epoch):
            for header in segments.headers_from(known[-1][1] if known else segments.bases[0]):
                if header.leader_epoch > epochs.last_epoch:
                    epochs.assign(header.leader_epoch, header.base_offset)
    if epochs.entries != (stated.entries if stated is not None else []):
        save_epochs(folder / LEADER_EPOCHS, epochs)
    return epochs


def _last_header(segments: Segments) -> BatchHeader | None:
    """Of the last batch; an active segment that is still empty has none."""
    for segment in reversed(list(segments)):
        _, last = segment.last_batch()
        if last is not None:
            return last
    return None
