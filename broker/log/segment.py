"""This room is one segment of a log: a file of batches, and a sparse index of where they lie.

One index serves offsets and times: each entry holds an offset, a position and the largest
timestamp before it, so Kafka's second file would repeat the first. The index lives in memory
beside the segment that is written, and in a file beside one that is full or was closed cleanly.
"""

import os
from array import array
from bisect import bisect_right
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final

from broker.core.leader_epochs import NO_EPOCH, LeaderEpochs
from broker.log.damage import NotUndone
from broker.log.files import DamagedFile, LogFile, OpenFiles, read_sealed, replace_sealed
from broker.log.outcomes import StoredRecords
from kafkaserver.outbox import FileRegion
from muster.kafkawire import batches
from muster.kafkawire.batches import BatchHeader
from muster.kafkawire.errors import CorruptBatch

INDEX_INTERVAL_BYTES: Final = 4096
"""Kafka's `index.interval.bytes`."""

_SCAN_BYTES: Final = 256 * 1024
_COPIED_BYTES: Final = 4 * 1024
"""So little is copied into the answer: sent from its file it takes another system call, which costs more."""

_LOOKED_AT: Final = 500
"""So many batches at most are looked at for one read."""
_HINTS: Final = 64
"""So many places at least are remembered."""
_FORGOTTEN_AT_ONCE: Final = 16
"""And at most so many more: twice as many would be five kilobytes for each segment that was written."""
_NO_TIME: Final = -1
_NOT_SAVED: Final = -1


class Segment:
    """One file `<base offset>.log`. Offsets are the log's, positions are bytes in this file."""

    __slots__ = (
        "_files",
        "_first_time_ms",
        "_hints",
        "_index_offsets",
        "_index_positions",
        "_index_times",
        "_indexed_to",
        "_saved_at_bytes",
        "_unseen",
        "base_offset",
        "max_timestamp_ms",
        "place",
        "size_bytes",
    )

    def __init__(self, folder: Path | str, base_offset: int, files: OpenFiles) -> None:
        self.base_offset = base_offset
        self.place = os.path.join(folder, f"{base_offset:020}.log")
        """Where the file is."""
        self.size_bytes = 0
        self.max_timestamp_ms = _NO_TIME
        self._files = files
        self._first_time_ms: int | None = None
        self._hints: dict[int, int] = {}
        self._index_offsets = array("q")
        self._index_positions = array("q")
        self._index_times = array("q")
        self._indexed_to = 0
        self._saved_at_bytes = _NOT_SAVED
        """How large the file was when its index was written or read."""
        self._unseen: bytearray | None = None
        """By entry of an index that was read: 1 as long as nobody looked at what lies from there on."""

    @property
    def path(self) -> Path:
        """The same, made when it is asked for."""
        return Path(self.place)

    @property
    def index_path(self) -> Path:
        """The file that holds the index of a segment that is not written any more."""
        return self.path.with_suffix(".index")

    @property
    def file(self) -> LogFile:
        """The open file; hold it as long as its descriptor is used. Raises OSError."""
        return self._files.get(self.place)

    # -- writing

    def create(self) -> None:
        """Make the file of one that begins. Raises OSError."""
        self._files.get(self.place, is_new=True)

    def write(self, data: memoryview) -> int:
        """Append bytes at the end, all or nothing; returns their position. Raises OSError, NotUndone."""
        position, file, size_bytes = self.size_bytes, self._files.get(self.place), len(data)
        try:
            written = file.write(data, position)
            while written < size_bytes:
                written += file.write(data[written:], position + written)
        except OSError:
            try:
                file.cut(position)
            except OSError as error:
                raise NotUndone(error.errno, error.strerror) from error
            raise
        self.size_bytes += written
        return position

    def note(self, base_offset: int, position: int, size_bytes: int, max_timestamp_ms: int) -> None:
        """A batch lies at `position`: index it if the last entry is far enough, and remember the spot."""
        if position >= self._indexed_to:
            self._index_offsets.append(base_offset)
            self._index_positions.append(position)
            self._index_times.append(self.max_timestamp_ms)
            self._indexed_to = position + INDEX_INTERVAL_BYTES
        if max_timestamp_ms > self.max_timestamp_ms:
            self.max_timestamp_ms = max_timestamp_ms
        if not position:
            self._first_time_ms = max_timestamp_ms
        self.remember(base_offset, position)

    def remember(self, offset: int, position: int) -> None:
        """Keep where `offset` lies, so that readers near the tail never search."""
        hints = self._hints
        hints[offset] = position
        if len(hints) > _HINTS + _FORGOTTEN_AT_ONCE:
            # Together: one by one each would be looked for behind the places of those that went before it.
            for oldest in tuple(islice(hints, _FORGOTTEN_AT_ONCE)):
                del hints[oldest]

    def truncate(self, position: int, end_offset: int) -> None:
        """Cut the file at `position`, where `end_offset` would lie. Raises OSError."""
        self._cut_file(position)
        keep = bisect_right(self._index_positions, position - 1) if position else 0
        del self._index_offsets[keep:], self._index_positions[keep:], self._index_times[keep:]
        if self._unseen is not None:
            del self._unseen[keep:]
        self._hints = {offset: at for offset, at in self._hints.items() if offset < end_offset}
        if not position:
            self._first_time_ms = None
        self._indexed_to = self._index_positions[-1] + INDEX_INTERVAL_BYTES if keep else 0
        self.index_path.unlink(missing_ok=True)
        self.max_timestamp_ms = self._index_times[-1] if keep else _NO_TIME
        start = self._index_positions[-1] if keep else 0
        for _, header in self.headers(start):
            self.max_timestamp_ms = max(self.max_timestamp_ms, header.max_timestamp_ms)

    def _cut_file(self, position: int) -> None:
        self.file.cut(position)
        self.size_bytes = position
        self._saved_at_bytes = _NOT_SAVED

    def sync(self) -> None:
        """Make the batches durable. Raises OSError."""
        self.file.sync()

    def delete(self) -> None:
        """Take the files away; answers that are being sent keep theirs open. Raises OSError.

        To unlink a gigabyte holds whoever does it for long, so that is left to `OpenFiles.erase`.
        """
        # The index first: what fails leaves a segment that can be read, and opened again.
        self.index_path.unlink(missing_ok=True)
        self._files.discard(self.place)

    # -- reading

    def position_of(self, offset: int) -> int:
        """Where the batch that holds `offset` begins; the end of the file if none does. Raises OSError."""
        known = self._hints.get(offset)
        if known is not None:
            return known
        index, position = self._indexed_before(offset)
        if index >= 0 and self._index_offsets[index] == offset:
            return position
        for start, header in self.headers(position):
            if header.next_offset > offset:
                return start
        return self.size_bytes

    def indexed_before(self, offset: int) -> int:
        """Where a batch begins that is not behind `offset`, near it; found in memory alone, by any thread."""
        return self._indexed_before(offset)[1]

    def _indexed_before(self, offset: int) -> tuple[int, int]:
        """The last index entry that is not behind `offset`, −1 if none is, and where its batch begins."""
        index = bisect_right(self._index_offsets, offset) - 1
        return index, self._index_positions[index] if index >= 0 else 0

    def cut_before(self, start: int, limit: int) -> int:
        """The last batch border above `start` and at most `limit`; the end of the first batch if none."""
        index = bisect_right(self._index_positions, limit) - 1
        if index >= 0 and self._index_positions[index] > start:
            return self._index_positions[index]
        end = start
        for position, header in self.headers(start):
            if end > start and position + header.size_bytes > limit:
                return end
            end = position + header.size_bytes
            if end >= limit:
                return end
        return end

    @property
    def is_believed(self) -> bool:
        """It was not checked when it was opened."""
        return self._unseen is not None

    def sound_to(self, start: int, end: int, epochs: LeaderEpochs) -> int:
        """From `start` up to there the batches are those that were stored; at most `end`. Raises OSError.

        Base offset, length and leader epoch of a batch lie outside its checksum, and a segment that is
        believed when it is opened is not read. So each batch is looked at once, before it is served: it must
        begin where the one before it ends, as the index, which has a checksum, knows of some, and be of its
        epoch by `epochs`. What a checksum covers is for whoever reads it to check.
        """
        unseen, offsets, positions = self._unseen, self._index_offsets, self._index_positions
        if not unseen:
            return end
        block = max(bisect_right(positions, start) - 1, 0)
        block = unseen.find(1, block, bisect_right(positions, end - 1))
        if block < 0:
            return end
        last, expected, behind = positions[block], offsets[block], positions[block]
        for looked_at, (position, header) in enumerate(self.headers(last)):
            if block + 1 < len(positions) and position >= positions[block + 1]:
                if position != positions[block + 1] or expected != offsets[block + 1]:
                    return min(self._unless_spoilt(last, position), end)
                if block < len(unseen):
                    unseen[block] = 0
                block += 1
                if position >= end or looked_at >= _LOOKED_AT:
                    return min(position, end)
            stated = epochs.epoch_at(expected)
            if header.base_offset != expected or stated not in (NO_EPOCH, header.leader_epoch):
                return min(self._unless_spoilt(last, position), end)
            last, expected, behind = position, header.next_offset, position + header.size_bytes
        if behind != self.size_bytes:
            return min(self._unless_spoilt(last, behind), end)
        if block < len(unseen):
            unseen[block] = 0
        return end

    def _unless_spoilt(self, last: int, position: int) -> int:
        """`position`, where another batch should be, or `last` before it, if that one ends elsewhere."""
        if last < position:
            batch = self.read(last, position - last)
            try:
                batches.check(memoryview(batch), 0, batches.read_header(batch))
            except CorruptBatch:
                return last
        return position

    def headers(self, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
        """(position, header) of each batch from `position`, which must be a batch border; unchecked.

        Ends silently before bytes that are no whole batch: opening cuts those. Raises OSError.
        """
        file, chunk, chunk_start = self.file, b"", position
        while position + batches.HEADER_BYTES <= self.size_bytes:
            if position + batches.HEADER_BYTES > chunk_start + len(chunk):
                chunk_start = position
                chunk = file.read(min(_SCAN_BYTES, self.size_bytes - position), position)
            try:
                header = batches.read_header(chunk, position - chunk_start)
            except CorruptBatch:
                return
            if position + header.size_bytes > self.size_bytes:
                return
            yield position, header
            position += header.size_bytes

    def first_from(self, timestamp_ms: int, start_offset: int = 0) -> tuple[int, BatchHeader] | None:
        """The first batch with a record at or after `timestamp_ms` that ends above `start_offset`.

        None if there is none. Raises OSError.
        """
        if self.max_timestamp_ms < timestamp_ms:
            return None
        # entry i holds the largest time before it: the last entry still below is where to begin
        index = max(self._first_time_at(timestamp_ms) - 1, 0)
        start = self._index_positions[index] if self._index_positions else 0
        for position, header in self.headers(max(start, self._indexed_before(start_offset)[1])):
            if header.max_timestamp_ms >= timestamp_ms and header.next_offset > start_offset:
                return position, header
        return None

    def _first_time_at(self, timestamp_ms: int) -> int:
        """The first index entry before which a record at or after `timestamp_ms` lies."""
        low, high = 0, len(self._index_times)
        while low < high:
            middle = (low + high) // 2
            if self._index_times[middle] < timestamp_ms:
                low = middle + 1
            else:
                high = middle
        return low

    def read(self, position: int, size_bytes: int) -> bytes:
        """Bytes of the file. Raises OSError."""
        return self.file.read(size_bytes, position)

    def records(self, position: int, size_bytes: int) -> StoredRecords:
        """Bytes of the file to be sent: where they lie, or a copy if they are few or no file can be held.

        Raises OSError.
        """
        if size_bytes <= _COPIED_BYTES and len(copied := self.read(position, size_bytes)) == size_bytes:
            return copied
        file = self._files.get_to_keep(self.place)
        return self.read(position, size_bytes) if file is None else FileRegion(file, position, size_bytes)

    # -- times

    def spans_ms(self, newest_ms: int) -> int:
        """By how much `newest_ms` is younger than the first batch; 0 if one has no time. Raises OSError."""
        first = self._first_time_ms
        if first is None:
            header = next((header for _, header in self.headers()), None)
            first = self._first_time_ms = _NO_TIME if header is None else header.max_timestamp_ms
        return newest_ms - first if first != _NO_TIME != newest_ms else 0

    def oldest_ms(self) -> int:
        """Calendar time of the first batch; of the file, where it has none. Raises OSError."""
        self.spans_ms(_NO_TIME)
        if self._first_time_ms is not None and self._first_time_ms != _NO_TIME:
            return self._first_time_ms
        return int(os.stat(self.place).st_mtime * 1000)

    def youngest_ms(self) -> int:
        """Calendar time of the youngest record; of the file, where the records have none. Raises OSError."""
        if self.max_timestamp_ms != _NO_TIME:
            return self.max_timestamp_ms
        return int(os.stat(self.place).st_mtime * 1000)

    # -- opening

    def save_index(self) -> None:
        """Write the index file, if it is not there. Raises OSError."""
        if self._saved_at_bytes == self.size_bytes:
            return
        head = array("q", [self.size_bytes, self.max_timestamp_ms])
        parts = (head, self._index_offsets, self._index_positions, self._index_times)
        replace_sealed(self.index_path, b"".join(part.tobytes() for part in parts))
        self._saved_at_bytes = self.size_bytes

    def open(self) -> bool:
        """Take size and index from the files; False: there is no index that fits. Raises OSError."""
        self.measure()
        try:
            stored = array("q", read_sealed(self.index_path))
        except (FileNotFoundError, DamagedFile):
            stored = array("q")
        if len(stored) < 2 or (len(stored) - 2) % 3 or stored[0] != self.size_bytes:
            return False
        count = (len(stored) - 2) // 3
        self._saved_at_bytes = self.size_bytes
        self.max_timestamp_ms = stored[1]
        self._index_offsets = stored[2 : 2 + count]
        self._index_positions = stored[2 + count : 2 + 2 * count]
        self._index_times = stored[2 + 2 * count :]
        self._indexed_to = self._index_positions[-1] + INDEX_INTERVAL_BYTES if count else 0
        self._unseen = bytearray(b"\1") * count
        return True

    def compacted(self, size_bytes: int, batches_in_it: tuple[tuple[int, int, int, int], ...]) -> None:
        """The file is another one now: (base offset, position, size, time) of each batch in it."""
        self.size_bytes = size_bytes
        for one in batches_in_it:
            self.note(*one)

    def measure(self) -> None:
        """Take the size from the file, and begin without an index. Raises OSError."""
        self.size_bytes = os.stat(self.place).st_size
        self._index_offsets, self._index_positions, self._index_times = array("q"), array("q"), array("q")
        self._indexed_to, self.max_timestamp_ms = 0, _NO_TIME
        self._saved_at_bytes = _NOT_SAVED
        self._first_time_ms = None
        self._hints = {}
        self._unseen = None

    def cut_behind(self, position: int) -> None:
        """What lies behind `position` is no batch of this log. Raises OSError."""
        if position != self.size_bytes:
            self._cut_file(position)
            self.index_path.unlink(missing_ok=True)

    def last_batch(self) -> tuple[int, BatchHeader | None]:
        """(where the last whole batch ends, its header), from the last index entry on. Raises OSError."""
        last, end = None, 0
        for position, header in self.headers(self._index_positions[-1] if self._index_positions else 0):
            last, end = header, position + header.size_bytes
        return end, last
