"""This room holds a log in memory for the simulation: it survives a kill and can lose its tail."""

from typing import NamedTuple
from uuid import UUID

from broker.core.leader_epochs import LeaderEpochs
from broker.core.producers import Duplicate, Producers, Verdict
from broker.core.replica_log import EpochEnd
from muster.kafkawire.batches import BatchHeader

PRODUCER_ID = 7


class Stored(NamedTuple):
    """One record, a batch of its own: epoch, value (its sequence number + 1), who appended it where."""

    epoch: int
    value: int
    appended_by: tuple[int, int]
    mark: int = 0
    """Of the topic id that it was appended under, and of which partition of its number."""


def mark_of(topic_id: UUID, base_epoch: int = 0) -> int:
    """A small number that tells the topics of one world apart, and the partitions that had one number."""
    return (topic_id.int + 1_009 * base_epoch) % 9_973


def header(value: int, epoch: int = 0, base_offset: int = 0) -> BatchHeader:
    """The header of the batch that holds `value`, sent by the one idempotent producer."""
    return BatchHeader(base_offset, 0, epoch, 0, 0, 0, 0, 0, PRODUCER_ID, 0, value - 1, 1)


class MemoryLog:
    """Records with their leader epochs and producer state, built from what is stored and nothing else."""

    def __init__(self, records: tuple[Stored, ...] = (), start_offset: int = 0) -> None:
        self.records: list[Stored] = []
        """Deleted ones, too: the checks see them, the rules do not."""
        self.start_offset = 0
        self.epochs = LeaderEpochs()
        self.producers = Producers()
        for record in records:
            self.append(record)
        self.begin_at(start_offset)

    def begin_at(self, start_offset: int) -> None:
        """What lies below is deleted."""
        self.start_offset = start_offset
        self.epochs.begin_at(start_offset)

    def begin_again(self, deleted: tuple[Stored, ...]) -> None:
        """It is emptied, and goes on behind what the leader has `deleted`."""
        self.__init__(deleted)  # type: ignore[misc]
        self.epochs = LeaderEpochs()
        self.start_offset = len(deleted)

    @property
    def end_offset(self) -> int:
        return len(self.records)

    @property
    def last_epoch(self) -> int:
        return self.epochs.last_epoch

    def end_of_epoch(self, epoch: int) -> EpochEnd:
        return self.epochs.end_of_epoch(epoch, len(self.records))

    def judge(self, value: int) -> Verdict:
        """What the producer state says to a batch with `value`."""
        return self.producers.judge(header(value))

    @property
    def next_value(self) -> int:
        """The value that comes next in the producer's sequence, by the producer state."""
        value = (self.records[-1].value if self.records else 0) + 1
        while isinstance(self.judge(value), Duplicate):
            value += 1
        return value

    def append(self, record: Stored) -> None:
        self.epochs.assign(record.epoch, len(self.records))
        self.producers.stored(header(record.value, record.epoch), len(self.records), 0)
        self.records.append(record)

    def truncate(self, end_offset: int) -> None:
        """Cut the log and roll the producer state back to it: rebuilt, not popped."""
        del self.records[end_offset:]
        self.epochs.truncate(end_offset)
        self.producers = Producers()
        for offset, record in enumerate(self.records):
            self.producers.stored(header(record.value, record.epoch), offset, 0)
