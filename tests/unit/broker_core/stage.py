"""This room builds single replicas for the tests of the broker's core."""

from uuid import UUID

from broker.core.leader_epochs import LeaderEpochs
from broker.core.replica import Replica
from broker.core.replica_log import EpochEnd
from muster.kernel.instants import Instant
from muster.messages.link.rows import PartitionRow

ORDERS = UUID(int=10)
NOW = Instant(1_000)


class Log:
    """A log that knows nothing but its offsets and leader epochs."""

    def __init__(self) -> None:
        self.start_offset = 0
        self.end_offset = 0
        self.epochs = LeaderEpochs()

    @property
    def last_epoch(self) -> int:
        return self.epochs.last_epoch

    def append(self, epoch: int, count: int = 1) -> None:
        self.epochs.assign(epoch, self.end_offset)
        self.end_offset += count

    def end_of_epoch(self, epoch: int) -> EpochEnd:
        return self.epochs.end_of_epoch(epoch, self.end_offset)


def row(
    leader: int = 1,
    epoch: int = 1,
    isr: tuple[int, ...] = (1, 2, 3),
    version: int = 1,
    assigned: tuple[int, ...] = (1, 2, 3),
) -> PartitionRow:
    return PartitionRow(ORDERS, 0, assigned, leader, epoch, isr, version)


def leader_of(
    records: int = 0, min_insync: int = 1, first: PartitionRow | None = None
) -> tuple[Replica, Log]:
    """Broker 1, leading since NOW with `records` records of its own epoch."""
    log = Log()
    replica = Replica(1, log, min_insync_replicas=min_insync)
    replica.obey(first or row(), NOW)
    if records:
        log.append(replica.leader_epoch, records)
        replica.appended()
    return replica, log


def fetch(
    replica: Replica, follower: int, offset: int, now: Instant = NOW, epoch: int = 1, broker_epoch: int = 1
) -> object:
    """A follower's fetch, whose last batch is of the leader's epoch as soon as it has one."""
    return replica.follower_fetches(follower, broker_epoch, epoch, offset, epoch if offset else -1, now)
