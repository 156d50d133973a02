"""This room is the segments of one log in their order: what is read from them, and how they are cut."""

import os
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from broker.core.leader_epochs import LeaderEpochs
from broker.log.compaction import Cleaned
from broker.log.damage import DamageFound, WrongBatch
from broker.log.files import OpenFiles
from broker.log.outcomes import SWAP, StoredRecords, TimestampedOffset
from broker.log.segment import Segment
from muster.kafkawire.batches import BatchHeader

_NO_TIME: Final = -1


class Segments:
    """Segments without gaps, oldest first. All methods that touch files raise OSError."""

    __slots__ = ("_files", "_folder", "_listed", "bases")

    def __init__(self, folder: Path | str, files: OpenFiles) -> None:
        self._folder = folder
        self._files = files
        self._listed: list[Segment] = []
        self.bases: list[int] = []
        """The base offset of each."""

    def __len__(self) -> int:
        return len(self._listed)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._listed)

    @property
    def active(self) -> Segment | None:
        """The one that is written."""
        return self._listed[-1] if self._listed else None

    @property
    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self._listed)

    def on_disk(self, base_offset: int) -> Segment:
        """One whose file is there and that is not listed yet."""
        return Segment(self._folder, base_offset, self._files)

    def add(self, segment: Segment) -> None:
        self._listed.append(segment)
        self.bases.append(segment.base_offset)

    def begin(self, base_offset: int) -> Segment:
        """A new one, to be written from now on; its file is there when this returns."""
        segment = self.on_disk(base_offset)
        segment.create()
        self.add(segment)
        return segment

    def ended(self, above_offset: int) -> list[Segment]:
        """Those that are written no more and end above `above_offset`, oldest first."""
        if not self.bases or self.bases[-1] <= above_offset:
            return []
        pairs = zip(self._listed, self.bases[1:], strict=False)
        return [segment for segment, end_offset in pairs if end_offset > above_offset]

    def sync(self, above_offset: int) -> None:
        """Make durable what ends above `above_offset`."""
        for segment in (*self.ended(above_offset), *self._listed[-1:]):
            segment.sync()

    def end_of(self, segment: Segment) -> int | None:
        """The offset behind one that is written no more; None for the active one and for strangers."""
        if segment not in self._listed[:-1]:
            return None
        return self.bases[self._listed.index(segment) + 1]

    def forget_files(self) -> None:
        """Close all files as soon as nobody holds them."""
        for segment in self._listed:
            self._files.forget(segment.place)

    # -- reading

    def read(
        self,
        offset: int,
        max_bytes: int,
        limit_offset: int,
        end_offset: int,
        epochs: LeaderEpochs,
        *,
        at_least_one: bool,
    ) -> StoredRecords | None:
        """Whole batches from the one that holds `offset`, all below `limit_offset`.

        `end_offset` and `epochs` are the log's. At most `max_bytes`, or one batch if `at_least_one` and it is
        larger. Raises DamageFound, WrongBatch.
        """
        index = max(bisect_right(self.bases, offset) - 1, 0)
        segment = self._listed[index]
        start = segment.position_of(offset)
        if start >= segment.size_bytes:
            raise _not_found(segment, offset)
        end = self._end_position(index, limit_offset, end_offset)
        if end - start > max_bytes:
            cut = segment.cut_before(start, start + max_bytes)
            if cut <= start:
                raise _not_found(segment, offset)
            end = cut if cut - start <= max_bytes or at_least_one else start
        if end <= start:
            return None
        end = segment.sound_to(start, end, epochs)
        if end <= start:
            raise WrongBatch(segment.path, offset)
        return segment.records(start, end - start)

    def copy_of_batch(self, offset: int, end_offset: int, epochs: LeaderEpochs) -> bytes:
        """The batch that holds `offset`, which lies below the log's `end_offset`.

        Raises DamageFound, WrongBatch.
        """
        found = self.read(offset, 0, end_offset, end_offset, epochs, at_least_one=True)
        if found is None or isinstance(found, bytes):
            return found or b""
        return found.copied()

    def _end_position(self, index: int, limit_offset: int, end_offset: int) -> int:
        """Where reading of segment `index` must end so that nothing at `limit_offset` is read."""
        segment = self._listed[index]
        if index + 1 < len(self._listed):
            if limit_offset >= self.bases[index + 1]:
                return segment.size_bytes
        elif limit_offset >= end_offset:
            segment.remember(end_offset, segment.size_bytes)
            return segment.size_bytes
        return segment.position_of(limit_offset)

    def first_from(
        self, timestamp_ms: int, start_offset: int, limit_offset: int, epochs: LeaderEpochs
    ) -> TimestampedOffset | None:
        """The first batch with a record at or after `timestamp_ms`, from `start_offset` to `limit_offset`.

        Raises WrongBatch.
        """
        for segment in self._listed:
            found = segment.first_from(timestamp_ms, start_offset)
            if found is not None:
                position, header = found
                _require_sound(segment, position, header, epochs)
                if header.base_offset >= limit_offset:
                    return None
                return TimestampedOffset(header.max_timestamp_ms, max(header.base_offset, start_offset))
        return None

    def youngest(
        self, start_offset: int, limit_offset: int, epochs: LeaderEpochs
    ) -> TimestampedOffset | None:
        """The first batch with the largest time, from `start_offset` to `limit_offset`. Raises WrongBatch.

        Segments that lie between know theirs; of the first and the last, which are cut, each header is read.
        """
        found: TimestampedOffset | None = None
        for segment, behind in zip(self._listed, (*self.bases[1:], limit_offset + 1), strict=False):
            is_whole = segment.base_offset >= start_offset and behind <= limit_offset
            least = found.timestamp_ms if found is not None else _NO_TIME
            if segment.base_offset >= limit_offset or segment.max_timestamp_ms <= least:
                continue
            wanted = segment.max_timestamp_ms if is_whole else least + 1
            begin = segment.position_of(max(start_offset, segment.base_offset))
            for position, header in segment.headers(begin):
                if header.base_offset >= limit_offset:
                    break
                if header.max_timestamp_ms >= wanted:
                    _require_sound(segment, position, header, epochs)
                    found = TimestampedOffset(header.max_timestamp_ms, max(header.base_offset, start_offset))
                    wanted = found.timestamp_ms + 1
        return found

    def headers_from(self, offset: int) -> Iterator[BatchHeader]:
        """The header of each batch that ends above `offset`."""
        index = max(bisect_right(self.bases, offset) - 1, 0)
        for segment in self._listed[index:]:
            position = segment.position_of(offset) if segment.base_offset < offset else 0
            for _, header in segment.headers(position):
                yield header

    # -- cutting

    def truncate(self, offset: int, epochs: LeaderEpochs) -> int:
        """Drop the batch that holds `offset` and all behind it; returns where the log then ends.

        From the end on, so that whatever a kill leaves is a log that ends somewhere. Raises WrongBatch.
        """
        while len(self._listed) > 1 and self._listed[-1].base_offset >= offset:
            self._listed[-1].delete()
            self._listed.pop()
            self.bases.pop()
        last = self._listed[-1]
        position = last.position_of(offset) if offset > last.base_offset else 0
        before, behind = max(position - 1, 0), max(position, 1)
        if offset > last.base_offset and last.sound_to(before, behind, epochs) < behind:
            raise WrongBatch(last.path, offset)
        last.truncate(position, offset)
        end, header = last.last_batch()
        if end != position:
            # A batch below was spoilt since it was stored: what came next would lie behind what nobody reads.
            raise WrongBatch(last.path, offset)
        return last.base_offset if header is None else header.next_offset

    def swap(self, cleaned: Cleaned) -> bool:
        """Put a compacted file in the place of those that it was made of; False if they are here no more.

        It is renamed before any of them goes: the next process finishes what a kill cuts off.
        """
        bases, count = cleaned.bases, len(cleaned.bases)
        at = bisect_right(self.bases, bases[0]) - 1
        if at < 0 or (*bases, cleaned.end_offset) != tuple(self.bases[at : at + count + 1]):
            return False
        first = self._listed[at]
        swap = first.path.with_name(first.path.name + SWAP)
        os.replace(cleaned.path, swap)
        # The old file of the same name, too: to replace it would free its room here and now.
        for segment in reversed(self._listed[at : at + count]):
            segment.delete()
        os.replace(swap, first.path)
        fresh = self.on_disk(bases[0])
        fresh.compacted(cleaned.size_bytes, cleaned.placed)
        self._listed[at : at + count], self.bases[at : at + count] = [fresh], [bases[0]]
        return True

    def drop_before(self, offset: int) -> int:
        """Drop what ends at or below `offset`, never the one that is written; returns how many.

        From the oldest on, so that whatever a kill leaves is a log that begins somewhere.
        """
        dropped = 0
        while len(self.bases) > 1 and self.bases[1] <= offset:
            self.drop_oldest()
            dropped += 1
        return dropped

    def drop_oldest(self) -> None:
        self._listed[0].delete()
        del self._listed[0], self.bases[0]

    def drop_all(self) -> None:
        while self._listed:
            self._listed[-1].delete()
            self._listed.pop()
            self.bases.pop()


def _not_found(segment: Segment, offset: int) -> OSError:
    """In a file that was checked or written here it was there once; of another one the rest may be whole."""
    return WrongBatch(segment.path, offset) if segment.is_believed else DamageFound(segment.path, offset)


def _require_sound(segment: Segment, position: int, header: BatchHeader, epochs: LeaderEpochs) -> None:
    """Raises WrongBatch for a batch that is another one than was stored there."""
    if segment.sound_to(position, position + 1, epochs) <= position:
        raise WrongBatch(segment.path, header.base_offset)
