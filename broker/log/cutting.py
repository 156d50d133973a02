"""This room reads what producers have stored in a log that is to be cut: beside the loop, if it is much."""

import os
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from broker.core.producers import Producers
from broker.log import producer_snapshots
from broker.log.segment import Segment
from broker.log.segments import Segments

READ_AT_ONCE: Final = 5_000
"""So many records at most are read over in one turn of the loop: a batch each, they take it 20 ms or more."""

_BATCHES_A_BREATH: Final = 256
"""Behind so many the loop has the interpreter: it would wait 5 ms each time until it is taken away."""


class Replay:
    """The producers of all batches that end at or below `offset`, read in a thread before a log is cut there.

    Made on the loop for a log that was cut `cuts` times. Whoever changes what lies below `offset` meanwhile
    counts a cut; where retention or the compactor took a file away the cut reads for itself.
    """

    def __init__(self, folder: Path, segments: Segments, offset: int, cuts: int, records: int) -> None:
        self.records = records
        """So many at most are to be read over."""
        self._offset = offset
        self._cuts = cuts
        self._producers: Producers | None = None
        self._folder = folder
        self._names = os.listdir(folder)
        self._first_base = segments.bases[0]
        self._segments = [one for one in segments if one.base_offset < offset]
        self._is_ended = False

    def end(self) -> None:
        """Nobody wants it any more."""
        self._is_ended = True

    def read(self, now_ms: int) -> None:
        """In a thread; it returns early where it was ended. What cannot be read is for the cut to meet."""
        with suppress(OSError):
            producers, above = producer_snapshots.newest(
                self._folder, self._names, self._first_base, self._offset, forgets=False
            )
            behind = [one.base_offset for one in self._segments[1:]]
            for segment, end_offset in zip(self._segments, (*behind, self._offset), strict=True):
                if end_offset > above and not self._read_one(segment, above, end_offset, producers, now_ms):
                    return
            self._producers = producers

    def _read_one(
        self, segment: Segment, above: int, end_offset: int, producers: Producers, now_ms: int
    ) -> bool:
        """False: it was ended, or the file is another by now and does not go on where the index says."""
        least, most = 0, max(above, segment.base_offset)
        for count, (_, header) in enumerate(segment.headers(segment.indexed_before(above))):
            if self._is_ended or not least <= header.base_offset <= most:
                return False
            least = most = header.next_offset
            if above <= header.base_offset and most <= end_offset:
                producers.stored(header, header.base_offset, now_ms)
            if most >= end_offset:
                return True
            if count % _BATCHES_A_BREATH == 0:
                time.sleep(0)
        return False

    def read_for(self, offset: int, cuts: int) -> Producers | None:
        """What was read, if it is of this offset, and of a log that was cut `cuts` times."""
        return self._producers if (offset, cuts) == (self._offset, self._cuts) else None


def replay(
    folder: Path, segments: Segments, offset: int, end_offset: int, cuts: int, at_once: int
) -> Replay | None:
    """What is to be read beside the loop before a log is cut at `offset`; None: `at_once` records at most.

    Raises OSError.
    """
    if not len(segments) or not segments.bases[0] < offset < end_offset:
        return None
    above = producer_snapshots.newest_at(os.listdir(folder), segments.bases[0], offset)
    records = offset - above
    return Replay(folder, segments, offset, cuts, records) if records > at_once else None


def producers_at(
    folder: Path, segments: Segments, end_offset: int, now_ms: int, read: Producers | None
) -> Producers:
    """Of a log that was cut at its `end_offset`: those that were `read`, or read now. Raises OSError."""
    if read is None:
        return producers_of(folder, os.listdir(folder), segments, end_offset, now_ms)
    producer_snapshots.forget_behind(folder, end_offset)
    return read


def producers_of(
    folder: Path, names: Iterable[str], segments: Segments, end_offset: int, now_ms: int
) -> Producers:
    """From the newest snapshot that is not behind the end, and the batches behind it. Raises OSError."""
    first_base = segments.bases[0] if len(segments) else end_offset
    producers, offset = producer_snapshots.newest(folder, names, first_base, end_offset)
    for header in segments.headers_from(offset) if offset < end_offset and len(segments) else ():
        if header.base_offset >= offset:
            producers.stored(header, header.base_offset, now_ms)
    return producers
