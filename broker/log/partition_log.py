"""This room is the log of one replica: its segments, its leader epochs, its producers.

Everything runs on the broker's loop; a write is a copy into the page cache. Nothing is fsynced per
batch: the promise of design.md section 8 rests on replicas. Whatever leaves files and memory apart closes the
log for good (`failure`): what it holds is read again, checked and confessed at the next start.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn
from uuid import UUID

from broker.core.leader_epochs import LeaderEpochs
from broker.core.producers import Producers
from broker.core.replica_log import EpochEnd
from broker.log import cutting, opening, producer_snapshots, retention
from broker.log.accepting import Placed, from_leader, from_producer, in_sequence, refusal_at, shortened
from broker.log.checkpoints import LEADER_EPOCHS, LOG_START, save_epochs, save_start
from broker.log.cleaning import Cleaning
from broker.log.compaction import Cleaned
from broker.log.damage import DamageFound, NotUndone, WrongBatch
from broker.log.files import OpenFiles, require_descriptors, sync_with_folder
from broker.log.outcomes import (
    Appended,
    AppendRefused,
    LogSettings,
    StorageFailed,
    StoredRecords,
    TimestampedOffset,
)
from broker.log.segment import INDEX_INTERVAL_BYTES, Segment
from broker.log.segments import Segments
from muster.kafkawire import batches
from muster.kafkawire.errors import CorruptBatch
from muster.kernel.error_codes import ErrorCode
from muster.kernel.invariants import invariant
from muster.kernel.tuples import made


class PartitionLog:
    """An append-only sequence of record batches in one folder; fulfils `broker.core.ReplicaLog`."""

    __slots__ = (
        *("__weakref__", "_epochs", "_make_folder", "_place", "_segments", "_stated_ahead"),
        *("cleaning", "cuts", "end_offset", "failure", "on_failure", "producers", "recovery_point"),
        *("restate", "settings", "start_offset", "topic_id"),
    )

    def __init__(
        self,
        folder: Path | str,
        topic_id: UUID,
        files: OpenFiles,
        settings: LogSettings,
        make_folder: Callable[["PartitionLog"], None] | None = None,
    ) -> None:
        """`make_folder` is called before the first file of a log that begins empty; it may raise OSError."""
        self._place = str(folder)
        self.topic_id = topic_id
        self.settings = settings
        self.start_offset = 0
        """Everything below was committed and is deleted; it may lie within the first batch."""
        self.end_offset = 0
        self.recovery_point = 0
        """Everything below is durable: a start after a kill need not check it."""
        self.cuts = 0
        """How often the log was cut: what was read or flushed before the last cut says nothing any more."""
        self.failure = ""
        """Why the log is closed for good; "" as long as it can be used."""
        self.on_failure: Callable[[], None] = _nobody_listens
        self.restate: Callable[[PartitionLog, int], None] = _nobody_listens
        """Called before a segment ends, or the log is cut, at this offset; it may raise OSError."""
        self.producers = Producers()
        self._make_folder = make_folder
        self._segments = Segments(self._place, files)
        self.cleaning = Cleaning(self._place, self._segments)
        self._epochs = LeaderEpochs()
        self._stated_ahead = False
        """True if the file of epochs states one whose first batch never came."""

    @property
    def folder(self) -> Path:
        """Where its files are; ten thousand paths that are kept would be as large as the logs in memory."""
        return Path(self._place)

    # -- what the rules of replication ask

    @property
    def last_epoch(self) -> int:
        """Leader epoch of the last batch, -1 if the log is empty."""
        return self._epochs.last_epoch

    @property
    def epochs(self) -> LeaderEpochs:
        """Where each leader epoch begins; changed only by appends and cuts of this log."""
        return self._epochs

    def end_of_epoch(self, epoch: int) -> EpochEnd:
        """The largest epoch in the log that is not above `epoch`, and where it ends."""
        return self._epochs.end_of_epoch(epoch, self.end_offset)

    @property
    def size_bytes(self) -> int:
        """Bytes of all segments."""
        return self._segments.size_bytes

    def fail(self, reason: str) -> None:
        """Close the log for good: its files may not hold what was appended. Said once to `on_failure`.

        The next process confesses it as damage: what it reads may come from memory that no disk has taken.
        """
        if not self.failure:
            self.failure = reason
            opening.note_damage(self.folder, reason)
            self.on_failure()

    def _fail(self, error: OSError) -> NoReturn:
        if isinstance(error, DamageFound):
            # The next start checks from here on, whatever was flushed behind it.
            self.recovery_point = min(self.recovery_point, error.offset)
        self.fail(str(error))
        raise StorageFailed(self.failure) from error

    @contextmanager
    def _closing_on_failure(self) -> Iterator[None]:
        """Around whatever, if it fails in the middle, leaves files and memory apart.

        A process that can open no file yet has changed nothing: the next attempt may find room.
        """
        if self.failure:
            raise StorageFailed(self.failure)
        try:
            require_descriptors()
        except OSError as error:
            raise StorageFailed(str(error)) from error
        try:
            yield
        except OSError as error:
            self._fail(error)

    # -- append

    def append_as_leader(
        self, records: memoryview, leader_epoch: int, now_ms: int, *, is_sent_again: bool = False
    ) -> Appended:
        """Give a producer's batch its offset and `leader_epoch`, and store it.

        `records` must be writable: offset and epoch are stamped into it, outside the checksum.
        `is_sent_again`: it was refused here before. Raises AppendRefused, StorageFailed.
        """
        records, header = from_producer(records, self.settings, now_ms)
        producers, is_whole = self.producers, not (is_sent_again or self.start_offset)
        if duplicate := in_sequence(header, producers, is_whole=is_whole):
            return Appended(duplicate.base_offset, duplicate.last_offset + 1, True, header=header)
        base_offset = self.end_offset
        next_offset = base_offset + header.last_offset_delta + 1
        batches.stamp(records, 0, base_offset, leader_epoch)
        append_time_ms = batches.NO_TIMESTAMP
        if self.settings.takes_append_time:
            header, append_time_ms = batches.stamp_append_time(records, 0, header, now_ms), now_ms
        self._store(records, [made(Placed, (0, base_offset, header))], leader_epoch, next_offset, now_ms)
        return made(Appended, (base_offset, next_offset, False, append_time_ms, header))

    def append_as_follower(self, records: memoryview, now_ms: int) -> int:
        """Store what the leader sent, byte for byte, up to the first bad batch; returns the new end offset.

        A last batch that is cut off is left for the next fetch, but one batch at least must be whole: the
        next fetch would be answered the same. Raises AppendRefused (CORRUPT_MESSAGE) for bytes that are no
        batches at exactly the log's end, StorageFailed.
        """
        before = self.end_offset
        with suppress(CorruptBatch):
            records = self._from_within(records, now_ms)
        try:
            self._follow(records, now_ms)
        finally:
            if self.end_offset < self.start_offset and not self.failure:
                self.start_again_at(self.start_offset, now_ms)
        if self.end_offset == before:
            raise AppendRefused(ErrorCode.CORRUPT_MESSAGE, "no whole batch")
        return self.end_offset

    def _follow(self, records: memoryview, now_ms: int) -> None:
        while len(records):
            placed, used_bytes, refusal = from_leader(records, self.end_offset, self.last_epoch)
            if placed:
                last = placed[-1].header
                self._store(records[:used_bytes], placed, last.leader_epoch, last.next_offset, now_ms)
                records = records[used_bytes:]
            if refusal:
                raise AppendRefused(ErrorCode.CORRUPT_MESSAGE, refusal)
            if not placed:
                break

    def _from_within(self, records: memoryview, now_ms: int) -> memoryview:
        """Make records fit whose first batch begins before this log's end and ends behind it.

        Of one that only stands for offsets the rest will do: the leader compacted more than one at once. An
        empty log begins with the batch that holds its start (KAFKA-6975). Raises CorruptBatch, StorageFailed.
        """
        first = batches.read_header(records)
        if not first.base_offset < self.end_offset < first.next_offset:
            return records
        if batches.is_filler(first):
            return shortened(records, first, self.end_offset)
        if self.start_offset == self.end_offset and not self.size_bytes:
            self.start_again_at(self.start_offset, now_ms, first.base_offset)
        return records

    def _store(
        self, records: memoryview, placed: list[Placed], leader_epoch: int, next_offset: int, now_ms: int
    ) -> None:
        """Write batches of one epoch at the end. The file first: what fails leaves nothing behind."""
        if self.failure:
            raise StorageFailed(self.failure)
        try:
            if leader_epoch != self._epochs.last_epoch or self._stated_ahead:
                self._state_epoch(leader_epoch)
            segment = self._segment_for(len(records), placed[-1].header.max_timestamp_ms, now_ms)
            position = segment.write(records)
        except NotUndone as error:
            self._fail(error)
        except OSError as error:
            raise StorageFailed(str(error)) from error
        for start, base_offset, header in placed:
            segment.note(base_offset, position + start, header.size_bytes, header.max_timestamp_ms)
            if header.producer_id > batches.NO_PRODUCER:
                self.producers.stored(header, base_offset, now_ms)
        if self._stated_ahead:
            self._epochs.assign(leader_epoch, max(placed[0].base_offset, self.start_offset))
            self._stated_ahead = False
        self.end_offset = next_offset

    def _have_folder(self) -> None:
        if self._make_folder is not None:
            self._make_folder(self)
            self._make_folder = None

    def _state_epoch(self, leader_epoch: int) -> None:
        """State the epoch in its file before its first batch; a load drops it if the batch never came."""
        self._have_folder()
        ahead = LeaderEpochs(self._epochs.entries)
        ahead.assign(leader_epoch, max(self.end_offset, self.start_offset))
        save_epochs(self.folder / LEADER_EPOCHS, ahead)
        self._stated_ahead = True

    def _segment_for(self, size_bytes: int, newest_ms: int, now_ms: int) -> Segment:
        active, settings = self._segments.active, self.settings
        if active is None:
            self._have_folder()
            return self._segments.begin(self.end_offset)
        is_full = active.size_bytes + size_bytes > settings.segment_bytes
        if not active.size_bytes or not (is_full or active.spans_ms(newest_ms) > settings.rolls_after_ms):
            return active
        return self._roll(active, now_ms)

    def _roll(self, active: Segment, now_ms: int) -> Segment:
        """Write on in a new segment; index and producers of the one before go into files."""
        self.restate(self, self.end_offset)
        self.producers.forget_silent(now_ms, self.settings.producer_id_expiration_ms)
        active.save_index()
        producer_snapshots.save(self.folder, self.producers, self.end_offset)
        return self._segments.begin(self.end_offset)

    # -- read

    def read(
        self, offset: int, max_bytes: int, limit_offset: int, *, at_least_one: bool
    ) -> StoredRecords | None:
        """Whole batches from the one that holds `offset`, all below `limit_offset`.

        At most `max_bytes`, or one batch if `at_least_one` and it is larger. None if there is
        nothing. Raises StorageFailed. The caller has checked that `offset` lies within the log.
        """
        if offset >= limit_offset or not len(self._segments):
            return None
        with self._telling_damage():
            return self._segments.read(
                offset, max_bytes, limit_offset, self.end_offset, self._epochs, at_least_one=at_least_one
            )

    def damage_at(self, offset: int, last_epoch: int) -> str:
        """What a follower behind a batch of `last_epoch` finds wrong with the batch at `offset`; "": nothing.

        Raises StorageFailed.
        """
        if self.failure or not self.start_offset <= offset < self.end_offset:
            return ""
        try:
            batch = self._segments.copy_of_batch(offset, self.end_offset, self._epochs)
        except (DamageFound, WrongBatch) as error:
            return str(error)
        except OSError as error:
            raise StorageFailed(str(error)) from error
        refusal = refusal_at(offset, batch, last_epoch, is_first=offset == self.start_offset)
        return refusal and f"the batch at offset {offset}: {refusal}"

    def first_from(self, time_ms: int, limit_offset: int, from_offset: int = 0) -> TimestampedOffset | None:
        """The first batch from `from_offset` to `limit_offset` with a record at or after `time_ms`.

        The answer is where it begins, and its largest time: batches stay opaque here. Raises StorageFailed.
        """
        start_offset = max(self.start_offset, from_offset)
        with self._telling_damage():
            return self._segments.first_from(time_ms, start_offset, limit_offset, self._epochs)

    def youngest(self, limit_offset: int, from_offset: int = 0) -> TimestampedOffset | None:
        """As `first_from`: the first with the largest time; None: none has one. Raises StorageFailed."""
        with self._telling_damage():
            return self._segments.youngest(max(self.start_offset, from_offset), limit_offset, self._epochs)

    def batch_at(self, offset: int) -> bytes:
        """A copy of the batch that holds `offset`, which lies within the log. Raises StorageFailed."""
        with self._telling_damage():
            return self._segments.copy_of_batch(offset, self.end_offset, self._epochs)

    def headers_from(self, offset: int) -> Iterator[batches.BatchHeader]:
        """The header of each batch that ends above `offset`. Raises OSError."""
        return self._segments.headers_from(offset)

    @contextmanager
    def _telling_damage(self) -> Iterator[None]:
        """A read that the system refuses may be granted the next time; a batch that is gone is gone."""
        if self.failure:
            raise StorageFailed(self.failure)
        try:
            yield
        except DamageFound as error:
            self._fail(error)
        except OSError as error:
            raise StorageFailed(str(error)) from error

    # -- cut and compact

    def replay(self, offset: int, at_once: int) -> cutting.Replay | None:
        """Read beside the loop before a cut; None: at most `at_once` records. Raises StorageFailed."""
        with self._telling_damage():
            return cutting.replay(self.folder, self._segments, offset, self.end_offset, self.cuts, at_once)

    def truncate_to(self, offset: int, now_ms: int, replay: cutting.Replay | None = None) -> None:
        """Drop the batch that holds `offset` and all behind it; producers are the `replay`'s, or read again.

        At its start or below the log goes on at `offset`, empty. Raises StorageFailed, and is closed then.
        """
        if offset >= self.end_offset:
            return
        if offset <= self.start_offset:
            return self.start_again_at(offset, now_ms)
        read = replay.read_for(offset, self.cuts) if replay is not None else None
        with self._closing_on_failure():
            self.restate(self, offset)
            self.cuts += 1
            self.recovery_point = min(self.recovery_point, offset)
            self.end_offset = self._segments.truncate(offset, self._epochs)
            self.recovery_point = min(self.recovery_point, self.end_offset)
            self._epochs.truncate(self.end_offset)
            save_epochs(self.folder / LEADER_EPOCHS, self._epochs)
            self._stated_ahead = False
            self._rebuild_producers(now_ms, read)
            self.cleaning.cut_at(self.end_offset)
        if self.end_offset < self.start_offset:
            self.start_again_at(self.start_offset, now_ms)

    def start_again_at(self, offset: int, now_ms: int, base_offset: int | None = None) -> None:
        """Forget everything and go on at `offset`, the start of a leader far ahead (conformance 232).

        The next batch begins at `base_offset`, if that is before. The start is stated first: whatever a kill
        leaves then is behind its start, and no process believes it. Producers are forgotten, too: a sequence
        that went on behind the jump would seem out of order. Raises StorageFailed, and is closed then.
        """
        with self._closing_on_failure():
            self.restate(self, offset)
            self.cuts += 1
            self._have_folder()
            save_start(self.folder / LOG_START, offset)
            producer_snapshots.forget_all(self.folder)
            self._segments.drop_all()
            self.start_offset = offset
            self.end_offset = self.recovery_point = offset if base_offset is None else base_offset
            self.producers, self._epochs = Producers(), LeaderEpochs()
            save_epochs(self.folder / LEADER_EPOCHS, self._epochs)
            self._stated_ahead = False
            self._segments.begin(self.end_offset)
            self.cleaning.cut_at(self.end_offset)

    def swap_in(self, cleaned: Cleaned) -> bool:
        """Let a compacted file stand for the segments that it was made of; False if they are here no more.

        Raises StorageFailed, and is closed then: the next process finishes it.
        """
        with self._closing_on_failure():
            return self._segments.swap(cleaned)

    def delete_before(self, offset: int, now_ms: int) -> bool:
        """Records below `offset`, all of them committed, are deleted; False if they were (conformance 226).

        Whole segments go at once, of the first that is left nothing below `offset` is read. The start is
        stated first: a kill between leaves files that the next process drops. Raises StorageFailed; then what
        is said to be deleted is, and what is left of it goes with the next pass of the retention.
        """
        if self.failure:
            raise StorageFailed(self.failure)
        if offset <= self.start_offset:
            return False
        invariant(offset <= self.end_offset, "what was never written cannot be deleted")
        try:
            save_start(self.folder / LOG_START, offset)
            self.start_offset = offset
            active = self._segments.active
            if offset == self.end_offset and active is not None and active.size_bytes:
                self._roll(active, now_ms)
            self._segments.drop_before(offset)
            self._began_later()
        except OSError as error:
            raise StorageFailed(str(error)) from error
        return True

    def _began_later(self) -> None:
        self._epochs.begin_at(self.start_offset)
        save_epochs(self.folder / LEADER_EPOCHS, self._epochs)

    def sync_start(self) -> None:
        """Make durable where the log begins; beside the loop. Raises OSError."""
        sync_with_folder(self.folder / LOG_START)

    def apply_retention(self, wall_ms: int, high_watermark: int) -> int:
        """Delete old segments, never what is not committed, and what `delete_before` left; returns how many.

        Raises StorageFailed; what is left is a log that begins later.
        """
        active = self._segments.active
        if self.failure or active is None:
            return 0
        try:
            surplus = retention.surplus(
                self._segments, self.settings, wall_ms, self.start_offset, high_watermark, self.end_offset
            )
            if surplus == len(self._segments):
                self._roll(active, wall_ms)
            for _ in range(surplus):
                self._segments.drop_oldest()
                self.start_offset = max(self.start_offset, self._segments.bases[0])
            if surplus:
                self._began_later()
        except OSError as error:
            raise StorageFailed(str(error)) from error
        return surplus

    def _rebuild_producers(self, now_ms: int, read: Producers | None) -> None:
        self.producers = cutting.producers_at(self.folder, self._segments, self.end_offset, now_ms, read)

    # -- opening, flushing, closing

    def open(self, trust: opening.Trust, now_ms: int) -> str:
        """Take over what the folder holds, checked as far as `trust` demands; returns what was damaged.

        "": the log holds all that was ever acknowledged from it. Raises StorageFailed.
        """
        invariant(not len(self._segments) and not self.end_offset, "a log is opened once")
        try:
            found = opening.take_over(self.folder, self._segments, trust, now_ms)
            self.cleaning.opened_at(found.end_offset, is_sure=trust.was_clean and not found.damage)
        except (OSError, ValueError) as error:
            raise StorageFailed(str(error)) from error
        self.start_offset, self.end_offset, self._epochs, self.producers, damage = found
        self.recovery_point = min(trust.recovery_point, self.end_offset)
        return damage

    def full_segments(self) -> list[Segment]:
        """Segments that are written no more and not known to be durable, oldest first."""
        return [] if self.failure else self._segments.ended(self.recovery_point)

    def flushed_through(self, segment: Segment, cuts: int) -> None:
        """`segment` and all before it were durable when the log had been cut `cuts` times."""
        if (behind := self._segments.end_of(segment)) is not None and cuts == self.cuts and not self.failure:
            self.recovery_point = max(self.recovery_point, behind)

    def flush(self) -> None:
        """Make all batches durable. Raises StorageFailed, and is closed then: a loss is told only once."""
        with self._closing_on_failure():
            self._segments.sync(self.recovery_point)
        self.recovery_point = self.end_offset

    def close(self) -> None:
        """Write index and producers, unless the batches are read as quickly. Raises StorageFailed."""
        active = self._segments.active
        try:
            if active is not None and active.size_bytes > INDEX_INTERVAL_BYTES and not self.failure:
                active.save_index()
                producer_snapshots.save(self.folder, self.producers, self.end_offset)
            self._segments.forget_files()
        except OSError as error:
            raise StorageFailed(str(error)) from error


def _nobody_listens(*_told: object) -> None:
    """Until a shelf keeps the log, and a data plane hosts it."""
