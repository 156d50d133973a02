"""This room is an idempotent producer of the simulation: what it sends, and what it believes of each answer.

It behaves as librdkafka does: five batches under way in each partition; one that fails is sent again, in its
order, as soon as nothing else is under way; a success counts for all batches before it. Told that a batch
is out of sequence it begins a new epoch in all partitions when nothing is under way in any, and numbers anew
what is not acknowledged. An eager one, as Java's, waits for nothing, and sends again what is out of sequence;
if later batches are acknowledged, until its time is over.
"""

from bisect import insort
from collections.abc import Iterable
from typing import Final, NamedTuple

from broker.core.cluster_view import PartitionKey
from muster.kernel.error_codes import ErrorCode
from tests.simulation.replication.wishes import Broken

IN_FLIGHT: Final = 5

SENT_AGAIN: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)


class Batch(NamedTuple):
    """One record: the partition's `value`-th, from 1."""

    value: int
    epoch: int
    sequence: int


class Stream:
    """What one producer writes into one partition."""

    def __init__(self, values: Iterable[int]) -> None:
        self.waiting = list(values)
        self.under_way: list[Batch] = []
        self.acknowledged: dict[int, int] = {}
        """Offset by value; −1: only a later batch was said to be stored."""
        self.first_values = {0: 1}
        """By producer epoch: where its numbers begin. What lies from there on was in doubt until then."""
        self._epoch = 0
        self._sent_to = 0
        self._drains = False

    def may_send(self, epoch: int, *, is_eager: bool) -> bool:
        if not self.waiting or len(self.under_way) >= IN_FLIGHT:
            return False
        if not self.under_way:
            return True
        if is_eager and self.waiting[0] <= self._sent_to:
            return self.waiting[0] < self.under_way[0].value
        return epoch == self._epoch and not (self._drains and not is_eager)

    def send(self, epoch: int) -> Batch:
        if epoch != self._epoch:
            self._epoch, self.first_values[epoch] = epoch, self.waiting[0]
        if not self.under_way:
            self._drains = False
        value = self.waiting.pop(0)
        self._sent_to = max(self._sent_to, value)
        batch = Batch(value, epoch, value - self.first_values[epoch])
        insort(self.under_way, batch)
        return batch

    def again(self, batch: Batch) -> None:
        """It failed, or nobody knows."""
        self.under_way.remove(batch)
        insort(self.waiting, batch.value)
        self._drains = True

    def moved(self) -> None:
        """Another broker leads."""
        self._drains = True

    def stored(self, batch: Batch, offset: int) -> None:
        self.under_way.remove(batch)
        self.acknowledged[batch.value] = offset
        for value in [value for value in self.waiting if value < batch.value]:
            self.waiting.remove(value)
            self.acknowledged[value] = -1

    def out_of_sequence(self, batch: Batch) -> None:
        """An eager producer is told so. Raises Broken where everything before it is acknowledged.

        If a later batch is acknowledged, this one is stored, and brokers do not remember so many: it is
        given up in the end, and must be there.
        """
        if any(value > batch.value for value in self.acknowledged):
            self.under_way.remove(batch)
            self.acknowledged[batch.value] = -1
        elif self.is_next(batch):
            raise Broken("the producer is told OUT_OF_ORDER_SEQUENCE_NUMBER")
        else:
            self.again(batch)

    def is_next(self, batch: Batch) -> bool:
        """Everything before it is acknowledged."""
        return all(value in self.acknowledged for value in range(1, batch.value))


class IdempotentProducer:
    """One producer id; `streams` by partition."""

    def __init__(self, *, is_eager: bool) -> None:
        self.streams: dict[PartitionKey, Stream] = {}
        self.epoch = 0
        self.is_eager = is_eager
        self._wants_epoch = False

    def may_send(self, key: PartitionKey) -> bool:
        return not self._wants_epoch and self.streams[key].may_send(self.epoch, is_eager=self.is_eager)

    def send(self, key: PartitionKey) -> Batch:
        return self.streams[key].send(self.epoch)

    def lost(self, key: PartitionKey, batch: Batch) -> None:
        """Its connection ended before it was answered."""
        self.streams[key].again(batch)
        self._begin_epoch_if_drained()

    def heard(self, key: PartitionKey, batch: Batch, error_code: int, offset: int) -> None:
        """An answer has come. Raises Broken for one that no producer can go on with."""
        stream = self.streams[key]
        if not error_code:
            stream.stored(batch, offset)
        elif error_code in SENT_AGAIN:
            stream.again(batch)
        elif error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and self.is_eager:
            stream.out_of_sequence(batch)
        elif error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and not stream.is_next(batch):
            stream.again(batch)
            self._wants_epoch = True
        else:
            raise Broken(f"the producer is told {ErrorCode(error_code).name}")
        self._begin_epoch_if_drained()

    def gave_up(self, key: PartitionKey, batch: Batch) -> None:
        """Nobody can say any more that it was stored: its time is over."""
        stream = self.streams[key]
        stream.under_way.remove(batch)
        stream.acknowledged[batch.value] = -1
        self._begin_epoch_if_drained()

    def _begin_epoch_if_drained(self) -> None:
        if self._wants_epoch and not any(stream.under_way for stream in self.streams.values()):
            self._wants_epoch = False
            self.epoch += 1
