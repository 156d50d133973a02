"""This room compacts one log: of each key the last record stays, beside the loop, by files of its own.

Offsets stay where they are: a batch keeps its place and its header, whatever it loses; what is left out whole
is covered by an empty batch, so that each batch begins where the one before it ends, as everywhere else in a
log. A producer's last batch stays, emptied if need be: retries and sequences are judged by it. Nothing here
touches what a log has in memory; `PartitionLog.swap_in` puts a finished file in the place of others.
"""

import os
import time
from array import array
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from broker.log.keyed_records import Kept, kept_of, note_last, picked
from muster.kafkawire import batches
from muster.kafkawire.batches import BatchHeader
from muster.kafkawire.compression import compress
from muster.kafkawire.errors import CorruptBatch, KafkaWireError
from muster.kafkawire.record_frames import records_of

MOST_KEYS: Final = 200_000
"""So many keys are told apart in one pass, about 40 MB; what is dirty behind them is for the next pass."""

OPENED_BYTES: Final = 100 * 1024 * 1024
"""To no more are the records of a batch decompressed; a larger one is left as it is.

So is one whose checksum is right and whose records are not what its header says: its producer lied, and the
topic was not compacted yet, so that nobody looked.
"""

LONGEST_GAP: Final = 0x7FFFFFFF
CLEANED: Final = ".cleaned"
"""What the name of a compacted file ends in as long as it is written."""
_READ_BYTES: Final = 256 * 1024
"""Two such pieces are held while one follows the other; of larger ones a pass gets no faster."""


class Source(NamedTuple):
    """A segment that is written no more: its file, and the offsets that it spans."""

    path: Path
    base_offset: int
    end_offset: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Task:
    """What is to be compacted: `sources` are the log's segments from its first one on."""

    sources: tuple[Source, ...]
    clean_to: int
    """Below, each key stands once already."""
    tombstones_below: int
    """Tombstones below have been there for long enough since the pass that removed what they delete."""
    segment_bytes: int
    last_batches: Mapping[int, int] = field(default_factory=dict)
    """By producer id, the base offset of its last batch."""


class Cleaned(NamedTuple):
    """A finished file, synced, to stand for `bases`; `placed` is (base offset, position, size, time)."""

    path: Path
    bases: tuple[int, ...]
    end_offset: int
    placed: tuple[tuple[int, int, int, int], ...]
    size_bytes: int
    before_bytes: int


class LastOffsets:
    """The last offset of each key in the dirty part of a log, up to `end_offset`."""

    def __init__(self, task: Task, most_keys: int = MOST_KEYS, *, gives_way: bool = True) -> None:
        """`gives_way`: whoever else works in this process goes first, at each batch, which costs some 60 us.

        Raises CorruptBatch, OSError.
        """
        self.gives_way = gives_way
        self.end_offset = task.clean_to
        self.unreadable = 0
        """Batches that are left as they are."""
        self.offsets: dict[bytes, int] = {}
        """By what a key is told apart by (`keyed_records`)."""
        self._looked_from = max(task.clean_to, task.tombstones_below)
        self._in_place = True
        self._look(task, most_keys)
        self._last = array("q", sorted(self.offsets.values()) if self._in_place else ())

    def _look(self, task: Task, most_keys: int) -> None:
        for source in task.sources:
            if source.end_offset <= task.clean_to:
                continue
            for batch, header in _batches(source.path):
                if header.next_offset <= task.clean_to:
                    continue
                if len(self.offsets) >= most_keys:
                    return
                self._note(batch, header)
                self.end_offset = header.next_offset
                if self.gives_way:
                    time.sleep(0)
            self.end_offset = source.end_offset

    def __len__(self) -> int:
        return len(self.offsets)

    def places_of(self, header: BatchHeader) -> Sequence[int] | None:
        """The places of a batch's records that are the last of their keys; None: only their keys tell.

        Every batch that was looked at has keys, and each record its place for its offset: so none that states
        another batch's offset passes for a record of that one.
        """
        first, behind = header.base_offset, header.next_offset
        if not self._in_place or first < self._looked_from or behind - first != header.record_count:
            return None
        found = self._last[bisect_left(self._last, first) : bisect_left(self._last, behind)]
        return [offset - first for offset in found]

    def _note(self, batch: memoryview, header: BatchHeader) -> None:
        count = header.record_count
        try:
            records = bytes(records_of(batch, header, OPENED_BYTES))
            in_place = note_last(records, count, header.base_offset, self.offsets)
        except KafkaWireError:
            # What was noted of it until then stays, as it does.
            self.unreadable += 1
            in_place = False
        if not in_place or header.next_offset - header.base_offset < count:
            self._in_place = False


def compacted(task: Task, latest: LastOffsets) -> Iterator[Cleaned]:
    """One file after the other for as many segments as fit together; none where nothing would change.

    A file that is not swapped in may be removed at any time. Raises CorruptBatch, OSError.
    """
    group: list[Source] = []
    for source in task.sources:
        if source.base_offset >= latest.end_offset:
            break
        if group and sum(one.size_bytes for one in group) + source.size_bytes > task.segment_bytes:
            yield from _written(task, latest, group)
            group = []
        group.append(source)
    if group:
        yield from _written(task, latest, group)


def _written(task: Task, latest: LastOffsets, group: list[Source]) -> Iterator[Cleaned]:
    # Of this process alone: one that outlives its broker by a moment writes to no file of the next one's.
    path = group[0].path.with_name(f"{group[0].path.name}.{os.getpid()}{CLEANED}")
    before = sum(one.size_bytes for one in group)
    with open(path, "wb") as file:
        writer = _Writer(file.fileno(), group[0].base_offset, latest.gives_way)
        for source in group:
            for batch, header in _batches(source.path):
                writer.take(_kept(task, latest, batch, header), header)
        writer.end_at(group[-1].end_offset)
        if len(group) > 1 or writer.position != before:
            os.fsync(file.fileno())
    if len(group) == 1 and writer.position == before:
        path.unlink()
        return
    # Where records have no times their file's counts, for the retention.
    newest_ns = max(os.stat(one.path).st_mtime_ns for one in group)
    os.utime(path, ns=(newest_ns, newest_ns))
    bases = tuple(one.base_offset for one in group)
    yield Cleaned(path, bases, group[-1].end_offset, tuple(writer.index), writer.position, before)


class _Writer:
    """Writes batches behind each other; where some are left out, an empty one stands for them."""

    def __init__(self, descriptor: int, base_offset: int, gives_way: bool) -> None:
        self._descriptor = descriptor
        self._gives_way = gives_way
        self._end_offset = base_offset
        self._gap_epoch = -1
        self._gap_from = base_offset
        self.position = 0
        self.index: list[tuple[int, int, int, int]] = []

    def take(self, kept: bytes | memoryview | None, header: BatchHeader) -> None:
        """`header` is the next batch of the log; `kept` what stays of it, None: nothing."""
        if header.base_offset != self._end_offset:
            raise CorruptBatch(f"batch {header.base_offset} where {self._end_offset} should be")
        if kept is not None:
            self._fill()
            self._write(kept, batches.read_header(kept))
            self._gap_from = header.next_offset
        else:
            is_first = self._gap_from == header.base_offset
            is_long = header.next_offset - self._gap_from > LONGEST_GAP
            if not is_first and (is_long or header.leader_epoch != self._gap_epoch):
                self._fill()
            self._gap_epoch = header.leader_epoch
        self._end_offset = header.next_offset

    def end_at(self, end_offset: int) -> None:
        """No batch follows."""
        if self._end_offset != end_offset:
            raise CorruptBatch(f"the batches end at {self._end_offset}, and should at {end_offset}")
        self._fill()

    def _fill(self) -> None:
        if self._gap_from < self._end_offset:
            filler = batches.filler(self._gap_from, self._end_offset, self._gap_epoch)
            self._write(filler, batches.read_header(filler))
            self._gap_from = self._end_offset

    def _write(self, batch: bytes | memoryview, header: BatchHeader) -> None:
        left = memoryview(batch)
        while len(left):
            left = left[os.write(self._descriptor, left) :]
        self.index.append((header.base_offset, self.position, header.size_bytes, header.max_timestamp_ms))
        self.position += header.size_bytes
        if self._gives_way:
            time.sleep(0)


def _kept(
    task: Task, latest: LastOffsets, batch: memoryview, header: BatchHeader
) -> bytes | memoryview | None:
    """What stays of a batch; None: nothing."""
    if header.attributes & (batches.CONTROL_BIT | batches.TRANSACTIONAL_BIT):
        return batch
    if header.base_offset >= latest.end_offset:
        # What lies behind the last look has no later record that is known, whatever offset another stated.
        return batch
    is_last = task.last_batches.get(header.producer_id) == header.base_offset
    if not header.record_count:
        return _emptied(batch, header) if is_last else None
    places = latest.places_of(header)
    if places is not None and len(places) == header.record_count:
        return batch
    try:
        kept, newest_delta = _staying(task, latest, batch, header, places)
    except KafkaWireError:
        return batch
    if len(kept) == header.record_count:
        return batch
    if not kept:
        return _emptied(batch, header) if is_last else None
    is_appended = header.attributes & batches.APPEND_TIME_BIT
    newest_ms = header.max_timestamp_ms
    if not is_appended:
        # A liar's record may be younger than its batch says, or of no time that there is.
        newest_ms = max(min(header.base_timestamp_ms + newest_delta, newest_ms), batches.NO_TIMESTAMP)
    payload = b"".join(kept)
    if header.codec:
        payload = compress(header.codec, payload)
    return batches.rewritten(batch, header, payload, len(kept), newest_ms)


def _staying(
    task: Task, latest: LastOffsets, batch: memoryview, header: BatchHeader, places: Sequence[int] | None
) -> Kept:
    """The records of a batch that stay. Raises KafkaWireError."""
    if places is not None and not places:
        return Kept([], 0)
    records = bytes(records_of(batch, header, OPENED_BYTES))
    if places is not None:
        return picked(records, places)
    return kept_of(
        records, header.record_count, header.base_offset, latest.offsets.get, task.tombstones_below
    )


def _emptied(batch: memoryview, header: BatchHeader) -> bytes:
    """A batch that only remembers its producer, and where it was."""
    return batches.rewritten(batch, header, b"", 0, batches.NO_TIMESTAMP)


def _batches(path: Path) -> Iterator[tuple[memoryview, BatchHeader]]:
    """Every batch of a segment, checked. Raises CorruptBatch, OSError."""
    size_bytes = os.stat(path).st_size
    with open(path, "rb") as file:
        position, chunk, start = 0, b"", 0
        while position < size_bytes:
            if position + batches.HEADER_BYTES > start + len(chunk):
                chunk, start = os.pread(file.fileno(), _READ_BYTES, position), position
            header = batches.read_header(chunk, position - start)
            if position + header.size_bytes > start + len(chunk):
                if position + header.size_bytes > size_bytes:
                    raise CorruptBatch("the segment ends inside a batch")
                chunk, start = (
                    os.pread(file.fileno(), max(_READ_BYTES, header.size_bytes), position),
                    position,
                )
            batch = memoryview(chunk)[position - start : position - start + header.size_bytes]
            batches.check(batch, 0, header)
            yield batch, header
            position += header.size_bytes
