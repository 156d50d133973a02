"""This room is the log of one replica: its segments, its leader epochs, its producers.

Everything runs on the broker's loop; a write is a copy into the page cache. Nothing is fsynced per
batch: the promise of design.md section 8 rests on replicas.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple
from uuid import UUID

from broker.core.leader_epochs import LeaderEpochs
from broker.core.producers import Duplicate, Producers, Refused
from broker.core.replica_log import EpochEnd
from broker.log import producer_snapshots
from broker.log.checkpoints import LEADER_EPOCHS, load_epochs, save_epochs
from broker.log.files import OpenFiles
from broker.log.segment import Segment
from kafkaserver.outbox import FileRegion
from muster.kafkawire import batches
from muster.kafkawire.batches import BatchHeader
from muster.kafkawire.errors import CorruptBatch
from muster.kernel.error_codes import ErrorCode
from muster.kernel.invariants import invariant

UNBOUNDED: Final = -1
_LARGEST_CODEC: Final = 4


@dataclass(frozen=True, slots=True)
class LogSettings:
    """Kafka's topic settings of the same names; -1: no bound."""

    segment_bytes: int = 1024 * 1024 * 1024
    retention_ms: int = 7 * 24 * 3600 * 1000
    retention_bytes: int = UNBOUNDED
    max_message_bytes: int = 1_048_588
    producer_id_expiration_ms: int = 24 * 3600 * 1000


class AppendRefused(Exception):
    """The records were not appended, none of them; `error_code` says why to the producer."""

    def __init__(self, error_code: ErrorCode, text: str) -> None:
        super().__init__(text)
        self.error_code = error_code


class StorageFailed(Exception):
    """The file system refused; the log is as it was before (KAFKA_STORAGE_ERROR)."""


class Appended(NamedTuple):
    """Where the records lie; `is_duplicate`: they lay there before this request."""

    base_offset: int
    next_offset: int
    is_duplicate: bool = False


class TimestampedOffset(NamedTuple):
    """A record's place and wall time in ms."""

    timestamp_ms: int
    offset: int


class PartitionLog:
    """An append-only sequence of record batches in one folder; fulfils `broker.core.ReplicaLog`."""

    def __init__(
        self,
        folder: Path,
        topic_id: UUID,
        files: OpenFiles,
        settings: LogSettings,
        make_folder: Callable[[], None] | None = None,
    ) -> None:
        """`make_folder` is called before the first file of a log that begins empty; it may raise OSError."""
        self.folder = folder
        self.topic_id = topic_id
        self.settings = settings
        self.start_offset = 0
        self.end_offset = 0
        self.recovery_point = 0
        """Everything below is durable: a start after a kill need not check it."""
        self.producers = Producers()
        self._files = files
        self._make_folder = make_folder
        self._segments: list[Segment] = []
        self._bases: list[int] = []
        self._epochs = LeaderEpochs()

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
        return sum(segment.size_bytes for segment in self._segments)

    # -- append

    def append_as_leader(self, records: memoryview, leader_epoch: int, now_ms: int) -> Appended:
        """Give a producer's batches their offsets and `leader_epoch`, and store them, all or none.

        `records` must be writable: offset and epoch are stamped into it, outside the checksum.
        Raises AppendRefused, StorageFailed.
        """
        found = self._checked(records)
        if len(found) == 1:
            verdict = self.producers.judge(found[0][1])
            if isinstance(verdict, Duplicate):
                return Appended(verdict.base_offset, verdict.last_offset + 1, is_duplicate=True)
            if isinstance(verdict, Refused):
                raise AppendRefused(verdict.error_code, "out of the producer's sequence")
        base_offset = next_offset = self.end_offset
        placed = []
        for start, header in found:
            batches.stamp(records, start, next_offset, leader_epoch)
            placed.append((start, next_offset, header))
            next_offset += header.last_offset_delta + 1
        self._store(records, placed, leader_epoch, next_offset, now_ms)
        return Appended(base_offset, next_offset)

    def _checked(self, records: memoryview) -> list[tuple[int, BatchHeader]]:
        """The batches of a Produce request. Raises AppendRefused unless every byte belongs to a good one."""
        found = []
        start, size = 0, len(records)
        try:
            while start < size:
                header = batches.read_header(records, start)
                batches.check(records, start, header)
                found.append((start, header))
                start += header.size_bytes
        except CorruptBatch as error:
            raise AppendRefused(ErrorCode.CORRUPT_MESSAGE, str(error)) from error
        if not found:
            raise AppendRefused(ErrorCode.INVALID_RECORD, "no batch")
        for _, header in found:
            self._check_served(header, alone=len(found) == 1)
        return found

    def _check_served(self, header: BatchHeader, alone: bool) -> None:
        if header.size_bytes > self.settings.max_message_bytes:
            raise AppendRefused(ErrorCode.MESSAGE_TOO_LARGE, f"a batch of {header.size_bytes} bytes")
        if header.attributes & (batches.CONTROL_BIT | batches.TRANSACTIONAL_BIT):
            raise AppendRefused(ErrorCode.INVALID_RECORD, "transactions are not served")
        if header.attributes & 0x07 > _LARGEST_CODEC:
            raise AppendRefused(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "an unknown codec")
        if header.producer_id != batches.NO_PRODUCER and not alone:
            raise AppendRefused(ErrorCode.INVALID_RECORD, "an idempotent producer sends one batch at a time")

    def append_as_follower(self, records: memoryview, now_ms: int) -> int:
        """Store what the leader sent, byte for byte; returns the new end offset.

        A last batch that is cut off is left for the next fetch. Raises AppendRefused
        (CORRUPT_MESSAGE) for bytes that are no batches at exactly the log's end, StorageFailed.
        """
        next_offset = self.end_offset
        while next_offset == self.end_offset:
            placed: list[tuple[int, int, BatchHeader]] = []
            epoch, used = self.last_epoch, 0
            for start, header in batches.headers(records):
                self._check_follows(records, start, header, next_offset, epoch)
                if placed and header.leader_epoch != epoch:
                    break
                epoch = header.leader_epoch
                placed.append((start, header.base_offset, header))
                next_offset = header.next_offset
                used = start + header.size_bytes
            if not placed:
                break
            self._store(records[:used], placed, epoch, next_offset, now_ms)
            records = records[used:]
        return self.end_offset

    def _check_follows(
        self, records: memoryview, start: int, header: BatchHeader, next_offset: int, epoch: int
    ) -> None:
        try:
            batches.check(records, start, header)
        except CorruptBatch as error:
            raise AppendRefused(ErrorCode.CORRUPT_MESSAGE, str(error)) from error
        if header.base_offset != next_offset or header.leader_epoch < epoch:
            text = f"batch {header.base_offset} of epoch {header.leader_epoch} at {next_offset} of {epoch}"
            raise AppendRefused(ErrorCode.CORRUPT_MESSAGE, text)

    def _store(
        self,
        records: memoryview,
        placed: list[tuple[int, int, BatchHeader]],
        leader_epoch: int,
        next_offset: int,
        now_ms: int,
    ) -> None:
        """Write batches of one epoch at the end. The file first: what fails leaves nothing behind."""
        try:
            if leader_epoch != self._epochs.last_epoch:
                self._begin_epoch(leader_epoch)
            segment = self._segment_for(len(records), now_ms)
            position = segment.write(records)
        except OSError as error:
            raise StorageFailed(str(error)) from error
        for start, base_offset, header in placed:
            segment.note(base_offset, position + start, header.size_bytes, header.max_timestamp_ms)
            self.producers.stored(header, base_offset, now_ms)
        self._epochs.assign(leader_epoch, placed[0][1])
        self.end_offset = next_offset

    def _have_folder(self) -> None:
        if self._make_folder is not None:
            self._make_folder()
            self._make_folder = None

    def _begin_epoch(self, leader_epoch: int) -> None:
        """State the epoch in its file before its first batch; a load drops it if the batch never came."""
        self._have_folder()
        ahead = LeaderEpochs(self._epochs.entries)
        ahead.assign(leader_epoch, self.end_offset)
        save_epochs(self.folder / LEADER_EPOCHS, ahead)

    def _segment_for(self, size_bytes: int, now_ms: int) -> Segment:
        if self._segments:
            active = self._segments[-1]
            if active.size_bytes + size_bytes <= self.settings.segment_bytes or not active.size_bytes:
                return active
            self._roll(active, now_ms)
        self._have_folder()
        segment = Segment(self.folder, self.end_offset, self._files)
        _ = segment.file
        self._add(segment)
        return segment

    def _roll(self, full: Segment, now_ms: int) -> None:
        """Close the active segment: its index and the producers up to its end go into files."""
        self.producers.forget_silent(now_ms, self.settings.producer_id_expiration_ms)
        full.save_index()
        producer_snapshots.save(self.folder, self.producers, self.end_offset)

    def _add(self, segment: Segment) -> None:
        self._segments.append(segment)
        self._bases.append(segment.base_offset)

    # -- read

    def read(
        self, offset: int, max_bytes: int, limit_offset: int, *, at_least_one: bool
    ) -> FileRegion | None:
        """Whole batches from the one that holds `offset`, all below `limit_offset`, as a file region.

        At most `max_bytes`, or one batch if `at_least_one` and it is larger. None if there is
        nothing. Raises StorageFailed. The caller has checked that `offset` lies within the log.
        """
        if offset >= limit_offset or not self._segments:
            return None
        try:
            index = max(bisect_right(self._bases, offset) - 1, 0)
            segment = self._segments[index]
            start = segment.position_of(offset)
            end = self._end_position(index, limit_offset)
            if end - start > max_bytes:
                cut = segment.cut_before(start, start + max_bytes)
                end = cut if cut - start <= max_bytes or at_least_one else start
            if end <= start:
                return None
            return FileRegion(segment.file, start, end - start)
        except OSError as error:
            raise StorageFailed(str(error)) from error

    def _end_position(self, index: int, limit_offset: int) -> int:
        """Where reading of segment `index` must end so that nothing at `limit_offset` is read."""
        segment = self._segments[index]
        if index + 1 < len(self._segments):
            if limit_offset >= self._bases[index + 1]:
                return segment.size_bytes
        elif limit_offset >= self.end_offset:
            segment.remember(self.end_offset, segment.size_bytes)
            return segment.size_bytes
        return segment.position_of(limit_offset)

    def first_from(self, timestamp_ms: int, limit_offset: int) -> TimestampedOffset | None:
        """The first batch below `limit_offset` that holds a record at or after `timestamp_ms`.

        The answer is the batch's first offset and largest time: batches stay opaque, so that a
        reader may get some older records first, and never misses one. Raises StorageFailed.
        """
        try:
            for segment in self._segments:
                found = segment.first_from(timestamp_ms)
                if found is not None:
                    header = found[1]
                    if header.base_offset >= limit_offset:
                        return None
                    return TimestampedOffset(header.max_timestamp_ms, header.base_offset)
        except OSError as error:
            raise StorageFailed(str(error)) from error
        return None

    def headers_from(self, offset: int) -> Iterator[BatchHeader]:
        """The header of each batch that ends above `offset`. Raises OSError."""
        index = max(bisect_right(self._bases, offset) - 1, 0)
        for segment in self._segments[index:]:
            position = segment.position_of(offset) if segment.base_offset < offset else 0
            for _, header in segment.headers(position):
                yield header

    # -- cut

    def truncate_to(self, offset: int, now_ms: int) -> None:
        """Drop the batch that holds `offset` and all behind it; producers are built again for the new end.

        Below its start the log is empty and goes on at `offset`. Raises StorageFailed.
        """
        if offset >= self.end_offset:
            return
        if offset < self.start_offset:
            return self.start_again_at(offset, now_ms)
        try:
            while self._segments and self._segments[-1].base_offset >= offset and len(self._segments) > 1:
                self._bases.pop()
                self._segments.pop().delete()
            self.end_offset = offset
            if self._segments:
                last = self._segments[-1]
                position = last.position_of(offset) if offset > last.base_offset else 0
                last.truncate(position, offset)
                self.end_offset = last.end_offset()
            self.recovery_point = min(self.recovery_point, self.end_offset)
            self._epochs.truncate(self.end_offset)
            save_epochs(self.folder / LEADER_EPOCHS, self._epochs)
            self._rebuild_producers(now_ms)
        except OSError as error:
            raise StorageFailed(str(error)) from error

    def start_again_at(self, offset: int, now_ms: int) -> None:
        """Forget everything and go on at `offset`, the start of a leader far ahead (conformance 232).

        Raises StorageFailed.
        """
        try:
            self._have_folder()
            for segment in self._segments:
                segment.delete()
            self._segments, self._bases = [], []
            self.start_offset = self.end_offset = self.recovery_point = offset
            self._epochs = LeaderEpochs()
            save_epochs(self.folder / LEADER_EPOCHS, self._epochs)
            # An empty segment is what states the start to the next process.
            segment = Segment(self.folder, offset, self._files)
            _ = segment.file
            self._add(segment)
            self._rebuild_producers(now_ms)
        except OSError as error:
            raise StorageFailed(str(error)) from error

    def apply_retention(self, wall_ms: int, high_watermark: int) -> int:
        """Delete old segments, never the one that is written nor what is not committed; returns how many.

        Raises StorageFailed.
        """
        settings, deleted = self.settings, 0
        excess = self.size_bytes - settings.retention_bytes if settings.retention_bytes >= 0 else 0
        try:
            while len(self._segments) > 1 and self._bases[1] <= high_watermark:
                oldest = self._segments[0]
                is_old = 0 <= settings.retention_ms < wall_ms - oldest.max_timestamp_ms
                is_excess = excess >= oldest.size_bytes
                if not (is_old and oldest.max_timestamp_ms >= 0) and not is_excess:
                    break
                excess -= oldest.size_bytes
                oldest.delete()
                del self._segments[0], self._bases[0]
                self.start_offset = self._bases[0]
                deleted += 1
            if deleted:
                self._drop_epochs_before_start()
        except OSError as error:
            raise StorageFailed(str(error)) from error
        return deleted

    def _drop_epochs_before_start(self) -> None:
        entries = self._epochs.entries
        while len(entries) > 1 and entries[1][1] <= self.start_offset:
            del entries[0]
        self._epochs = LeaderEpochs((epoch, max(start, self.start_offset)) for epoch, start in entries)
        save_epochs(self.folder / LEADER_EPOCHS, self._epochs)

    # -- producers

    def _rebuild_producers(self, now_ms: int) -> None:
        """From the newest snapshot that is not behind the end, and the batches behind it."""
        self.producers, offset = producer_snapshots.newest(self.folder, self.start_offset, self.end_offset)
        for header in self.headers_from(offset):
            if header.base_offset >= offset:
                self.producers.stored(header, header.base_offset, now_ms)

    # -- opening and closing

    def open(self, was_clean: bool, recovery_point: int, now_ms: int) -> None:
        """Take over what the folder holds. After an unclean stop every segment that ends above
        `recovery_point` is checked batch by batch, and the log ends before the first bad byte.

        Raises StorageFailed.
        """
        invariant(not self._segments, "a log is opened once")
        try:
            bases = sorted(int(path.stem) for path in self.folder.glob("*.log"))
            for index, base in enumerate(bases):
                segment = Segment(self.folder, base, self._files)
                is_checked = was_clean or (index + 1 < len(bases) and bases[index + 1] <= recovery_point)
                if is_checked:
                    segment.open()
                    self._add(segment)
                    continue
                is_whole = self._recover(segment, bases[index + 1] if index + 1 < len(bases) else None)
                self._add(segment)
                if not is_whole:
                    for behind in bases[index + 1 :]:
                        Segment(self.folder, behind, self._files).delete()
                    break
            self._take_ends(now_ms)
            self.recovery_point = min(recovery_point, self.end_offset)
        except (OSError, ValueError) as error:
            raise StorageFailed(str(error)) from error

    def _recover(self, segment: Segment, next_base: int | None) -> bool:
        """Check a segment; False if it ends before the next one begins."""
        end = segment.recover(segment.base_offset)
        return next_base is None or end == next_base

    def _take_ends(self, now_ms: int) -> None:
        if self._segments:
            self.start_offset = self._bases[0]
            self.end_offset = self._segments[-1].end_offset()
        path = self.folder / LEADER_EPOCHS
        self._epochs = load_epochs(path)
        on_disk = self._epochs.entries
        self._epochs.truncate(self.end_offset)
        self._find_epochs_again()
        if self._epochs.entries != on_disk:
            save_epochs(path, self._epochs)
        self._rebuild_producers(now_ms)

    def _find_epochs_again(self) -> None:
        """Epochs whose file was lost: read them from the batches behind the last one known."""
        known = self._epochs.entries
        last = self._segments[-1].last_header() if self._segments else None
        if last is None or last.leader_epoch == self._epochs.last_epoch:
            return
        for header in self.headers_from(known[-1][1] if known else self.start_offset):
            if header.leader_epoch > self._epochs.last_epoch:
                self._epochs.assign(header.leader_epoch, header.base_offset)

    def full_segments(self) -> list[Segment]:
        """Segments that are written no more and not known to be durable, oldest first."""
        ended = zip(self._segments, self._bases[1:], strict=False)
        return [segment for segment, end_offset in ended if end_offset > self.recovery_point]

    def flushed_through(self, segment: Segment) -> None:
        """`segment` and all before it are durable."""
        if segment in self._segments[:-1]:
            behind = self._bases[self._segments.index(segment) + 1]
            self.recovery_point = max(self.recovery_point, behind)

    def flush(self) -> None:
        """Make all batches durable. Raises StorageFailed."""
        try:
            for segment in [*self.full_segments(), *self._segments[-1:]]:
                segment.sync()
        except OSError as error:
            raise StorageFailed(str(error)) from error
        self.recovery_point = self.end_offset

    def close(self) -> None:
        """Write index and producers, so that the next process reads no batch. Raises StorageFailed."""
        try:
            if self._segments and self._segments[-1].size_bytes:
                self._segments[-1].save_index()
                producer_snapshots.save(self.folder, self.producers, self.end_offset)
            for segment in self._segments:
                self._files.forget(segment.path)
        except OSError as error:
            raise StorageFailed(str(error)) from error
