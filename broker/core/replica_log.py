"""This room says what the rules of replication must be able to ask a log; the log itself is elsewhere."""

from typing import NamedTuple, Protocol
from uuid import UUID


class PartitionKey(NamedTuple):
    """What names a replica for ever: a topic made anew under an old name has another id."""

    topic_id: UUID
    partition: int


class EpochEnd(NamedTuple):
    """A leader epoch and the offset behind its last record; epoch −1: there is none."""

    epoch: int
    end_offset: int


class ReplicaLog(Protocol):
    """One replica's log. Offsets count records from 0; the end offset is that of the next record."""

    @property
    def start_offset(self) -> int:
        """Everything below was committed and is deleted."""
        ...

    @property
    def end_offset(self) -> int: ...

    @property
    def last_epoch(self) -> int:
        """Leader epoch of the last batch, −1 if the log is empty."""
        ...

    def end_of_epoch(self, epoch: int) -> EpochEnd:
        """The largest epoch in the log that is not above `epoch`, and where it ends."""
        ...
