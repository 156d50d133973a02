"""This room shows the checks of the simulation what a log in files holds, and words what is stored in it."""

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from broker.core.producers import Duplicate, Verdict
from broker.log.partition_log import PartitionLog
from muster.kafkawire import batches
from tests.simulation.replication.memory_log import PRODUCER_ID, Stored, header
from tests.unit.kafkawire.made_batches import made_batch

RUNS = 1_000
MACHINES = 10
DAY_MS = 100_000_000
"""By so much time passes in a walk; what a stamp says of who stored a batch is less."""


@cache
def batch_of(value: int, broker_id: int, run: int, mark: int, day: int = 0) -> bytes:
    """The producer's batch with this value; its time says who stored it when, and under which topic id."""
    stamp = stamp_of(broker_id, run, mark, day)
    return bytes(made_batch([b"%d" % value], producer=(PRODUCER_ID, 0, value - 1), timestamp_ms=stamp))


def stamp_of(broker_id: int, run: int, mark: int, day: int) -> int:
    """The time of a batch."""
    return day * DAY_MS + (mark * MACHINES + broker_id) * RUNS + run


def _stored(one: batches.BatchHeader) -> Stored:
    machine, run = divmod(one.base_timestamp_ms % DAY_MS, RUNS)
    mark, broker_id = divmod(machine, MACHINES)
    return Stored(one.leader_epoch, one.base_sequence + 1, (broker_id, run), mark)


class DiskLog:
    """What the checks see of one log: records by their headers, as long as the log is open.

    What was deleted counts as held: `deleted` says what it was.
    """

    def __init__(self, log: PartitionLog, deleted: Callable[[], list[Stored]]) -> None:
        self._log = log
        self._deleted = deleted
        self._read_at: tuple[int, int, int] = (-1, -1, -1)
        self._records: list[Stored] = []
        self.is_damaged = False
        """A bit of its files flipped: until that is found, what was stored counts, not what is read."""

    @property
    def records(self) -> list[Stored]:
        # A log that starts again may end where it ended, with nothing of what it held.
        start = self._log.start_offset
        at = (start, self._log.end_offset, self._log.cuts)
        if at != self._read_at:
            is_known = self.is_damaged or at[2] == self._read_at[2]
            kept = self._records[: self._log.end_offset] if is_known else []
            kept = self._deleted()[:start] + kept[start:]
            self._records = kept + list(self.stored_from(len(kept)))
            self._read_at = at
        return self._records

    def forget(self) -> None:
        """What is deleted counts as something else now."""
        self._read_at = (-1, -1, -1)

    def stored_from(self, offset: int) -> Iterator[Stored]:
        """What lies behind each other from there on; a bit that flipped may put a batch anywhere."""
        held = range(offset, self._log.end_offset)
        return (self.stored(one) for one in self._log.headers_from(offset) if one.base_offset in held)

    def stored(self, one: batches.BatchHeader) -> Stored:
        """What a batch holds, by its header."""
        return _stored(one)

    @property
    def has_hole(self) -> bool:
        """It ends elsewhere than its batches say; one that failed or is damaged may, until its next start."""
        return not self._log.failure and not self.is_damaged and self._log.end_offset != len(self.records)

    @property
    def folder(self) -> Path:
        return self._log.folder

    @property
    def start_offset(self) -> int:
        return self._log.start_offset

    @property
    def end_offset(self) -> int:
        return self._log.end_offset

    def judge(self, value: int) -> Verdict:
        return self._log.producers.judge(header(value))

    @property
    def next_value(self) -> int:
        value = (self.records[-1].value if self.records else 0) + 1
        while isinstance(self.judge(value), Duplicate):
            value += 1
        return value


class KeptRecords(NamedTuple):
    """A log whose process is gone, as it was last seen."""

    records: list[Stored]

    @property
    def end_offset(self) -> int:
        return len(self.records)
