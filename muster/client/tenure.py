"""This room is one tenure: one partition, fetched by this member without a break, from start to end."""

from collections import deque
from uuid import UUID

from muster.client.broker_questions import Leader, Wanted
from muster.kafkawire import batches
from muster.kafkawire.records import ConsumedRecord, read_records

UNKNOWN = -1


class Tenure:
    """Positions and buffered batches of one partition; once `ended`, nothing of it is handed out any more.

    `fetched_to` is the next offset to ask a broker for, `delivered_to` the next one to hand to the
    application, `finished_to` the next one that the application has not finished: it finishes a
    record by asking for the next, or by committing it; `committed_to` is what `commit` last heard to be
    durable, `began_at` where it began. All are −1 until auto_offset_reset has found where to begin.
    `number` rises with each tenure of one consumer.
    """

    def __init__(
        self, topic: str, topic_id: UUID, partition: int, generation: int, offset: int, number: int = 0
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.partition = partition
        self.generation = generation
        self.number = number
        self.began_at = self.fetched_to = self.delivered_to = self.finished_to = offset
        self.committed_to = UNKNOWN
        self.leader: Leader | None = None
        self.ended = False
        self.buffered_bytes = 0
        self.corrupt_answers = 0
        self._batches: deque[memoryview] = deque()

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"

    @property
    def key(self) -> tuple[UUID, int]:
        """What names the partition among tenures."""
        return self.topic_id, self.partition

    def begin_at(self, offset: int) -> None:
        """auto_offset_reset found `offset`; whatever was buffered is of no use."""
        self.began_at = self.fetched_to = self.delivered_to = self.finished_to = offset
        self.drop_buffer()

    def wanted(self) -> Wanted:
        """What to ask the leader for."""
        leader_epoch = self.leader.leader_epoch if self.leader else UNKNOWN
        return Wanted(self.topic, self.topic_id, self.partition, leader_epoch, self.fetched_to)

    def accept(self, records: bytes) -> bool:
        """Buffer the whole batches of a Fetch answer; True if something came. Raises CorruptBatch."""
        view = memoryview(records)
        before = self.fetched_to
        for start, header in batches.headers(view):
            if header.next_offset > self.fetched_to:
                self._batches.append(view[start : start + header.size_bytes])
                self.buffered_bytes += header.size_bytes
                self.fetched_to = header.next_offset
        return self.fetched_to > before

    def next_batch(self) -> list[ConsumedRecord]:
        """The records of the next buffered batch, maybe none.

        Raises CorruptBatch and UnsupportedCompression; the batch then stays where it is, so that whoever goes
        on after that does not pass over it.
        """
        if not self._batches:
            return []
        records = list(read_records(self._batches[0], self.delivered_to))
        self.buffered_bytes -= len(self._batches.popleft())
        return records

    @property
    def has_uncommitted(self) -> bool:
        """True if records were handed out that `commit` has not heard to be durable."""
        return self.delivered_to > max(self.began_at, self.committed_to)

    @property
    def has_batches(self) -> bool:
        """True if something is buffered."""
        return bool(self._batches)

    def drop_buffer(self) -> None:
        """Forget what is buffered and fetch again from what was delivered."""
        self._batches.clear()
        self.buffered_bytes = 0
        self.fetched_to = self.delivered_to

    def end(self) -> None:
        """Nothing of this tenure is handed out from now on; an answer on its way to it is ignored."""
        self.ended = True
        self._batches.clear()
        self.buffered_bytes = 0
