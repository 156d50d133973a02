"""This room shows the checks of the simulation a compacted log: what lies there, and what was removed."""

from collections.abc import Callable, Iterator
from functools import cache
from typing import Final, NamedTuple
from zlib import crc32

from broker.log.partition_log import PartitionLog
from tests.simulation.replication.disk_log import MACHINES, RUNS, DiskLog
from tests.simulation.replication.memory_log import PRODUCER_ID, Stored
from tests.unit.broker_log.compacted_logs import keyed

KEYS: Final = (b"ann", b"ben", b"cleo", b"dora", b"eve")

Known = dict[tuple[int, int], Stored]
"""By offset and leader epoch, what a leader stored there: who has that place holds this record, or did."""


class Content(NamedTuple):
    """What the record with a value says: of which key, and whether it deletes it."""

    key: bytes
    is_tombstone: bool


@cache
def content_of(value: int) -> Content:
    """Of the producer's record with this value, in every world the same."""
    chance = crc32(b"record %d" % value)
    return Content(KEYS[chance % len(KEYS)], chance % 7 < 3)


@cache
def keyed_batch_of(value: int, broker_id: int, run: int, mark: int) -> bytes:
    """Its batch; the time says who stored it."""
    key, is_tombstone = content_of(value)
    stamp = (mark * MACHINES + broker_id) * RUNS + run
    pair = (key, None if is_tombstone else b"%d" % value)
    return keyed([pair], producer=(PRODUCER_ID, 0, value - 1), timestamp_ms=stamp)


class CompactedLog(DiskLog):
    """What was removed counts as held: `known` says what it was."""

    def __init__(self, log: PartitionLog, deleted: Callable[[], list[Stored]], known: Known) -> None:
        super().__init__(log, deleted)
        self._known = known

    def stored_from(self, offset: int) -> Iterator[Stored]:
        return self._known_from(offset) if self.is_damaged else self._read_from(offset)

    def _known_from(self, offset: int) -> Iterator[Stored]:
        for at in range(offset, self._log.end_offset):
            record = self._known.get((at, self._log.epochs.epoch_at(at)))
            if record is None:
                return
            yield record

    def _read_from(self, offset: int) -> Iterator[Stored]:
        for one in self._log.headers_from(offset):
            for at in range(max(offset, one.base_offset), min(one.next_offset, self._log.end_offset)):
                place = at, one.leader_epoch
                if one.record_count:
                    self._known[place] = self.stored(one)
                if place not in self._known:
                    return
                yield self._known[place]

    def appended(self, record: Stored) -> None:
        """It is stored at the end: of a log that is damaged no file tells so."""
        self._known[self._log.end_offset - 1, record.epoch] = record

    def present(self) -> list[int]:
        """The offsets at which records lie."""
        start, end = self._log.start_offset, self._log.end_offset
        found = (one.base_offset for one in self._log.headers_from(start) if one.record_count)
        return [offset for offset in found if start <= offset < end]

    @property
    def is_readable(self) -> bool:
        return not self._log.failure and not self.is_damaged

    @property
    def clean_to(self) -> int | None:
        """Up to where a pass has been; None: this process has not looked yet."""
        passes = self._log.cleaning.passes
        return passes.clean_to if passes is not None else None
