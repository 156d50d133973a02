"""This room is one tenure: one partition, fetched by this member without a break, from start to end."""

from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import Final
from uuid import UUID

from muster.client.broker_questions import Leader, Wanted
from muster.client.errors import UnreadableBatch
from muster.kafkawire import batches
from muster.kafkawire.errors import KafkaWireError
from muster.kafkawire.records import DEFAULT_LIMIT_BYTES, ConsumedRecord, read_records
from muster.messages.partitions import Partition

UNKNOWN = -1
RECORDS_AT_ONCE: Final = 5_000
"""A batch of many small records is opened piece by piece: as objects they are some hundred times larger."""


class Tenure:
    """Positions and buffered batches of one partition; once `ended`, nothing of it is handed out any more.

    `fetched_to` is the next offset to ask a broker for, `delivered_to` the next one to hand to the
    application, `finished_to` the next one that the application has not finished: it finishes a
    record by asking for the next, or by committing it; `committed_to` is what `commit` last heard to be
    durable, `began_at` where it began. All are −1 until auto_offset_reset has found where to begin.
    `number` rises with each tenure of one consumer. `unreadable` is set when what lies behind
    `fetched_to` was corrupt in answer after answer; nothing is fetched then until the application skips it.
    """

    def __init__(
        self, topic: str, topic_id: UUID, partition: int, generation: int, offset: int, number: int = 0
    ) -> None:
        self.of = Partition(topic, topic_id, partition)
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
        self.unreadable: UnreadableBatch | None = None
        self._batches: deque[memoryview] = deque()
        self._opened: Iterator[ConsumedRecord] | None = None

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

    def next_records(self, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> list[ConsumedRecord]:
        """The next records of the first buffered batch; none when it is exhausted, or nothing is buffered.

        Raises CorruptBatch and UnsupportedCompression; the batch then stays where it is, so that whoever goes
        on after that does not pass over it.
        """
        if not self._batches:
            return []
        if self._opened is None:
            self._opened = read_records(self._batches[0], self.delivered_to, limit_bytes)
        try:
            records = list(islice(self._opened, RECORDS_AT_ONCE))
        except KafkaWireError:
            self._opened = None
            raise
        if len(records) < RECORDS_AT_ONCE:
            self._opened = None
            self.buffered_bytes -= len(self._batches.popleft())
        return records

    def cannot_be_opened(self, problem: KafkaWireError) -> UnreadableBatch:
        """What to tell the application of the first batch that is buffered."""
        header = batches.read_header(self._batches[0])
        return self._unreadable(max(self.delivered_to, header.base_offset), header.next_offset, problem)

    def cannot_go_on(self, problem: KafkaWireError) -> None:
        """What the leader sends behind the buffered batches is none; how far it reaches nobody knows."""
        self.unreadable = self._unreadable(self.fetched_to, self.fetched_to + 1, problem)

    def _unreadable(self, offset: int, next_offset: int, problem: KafkaWireError) -> UnreadableBatch:
        return UnreadableBatch(self.topic, self.partition, offset, next_offset, str(problem))

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
        self._forget()
        self.fetched_to = self.delivered_to

    def skip_to(self, offset: int) -> None:
        """Everything before `offset` counts as finished, handed out or not."""
        self.delivered_to = self.finished_to = offset
        self.corrupt_answers, self.unreadable = 0, None
        self.drop_buffer()

    def end(self) -> None:
        """Nothing of this tenure is handed out from now on; an answer on its way to it is ignored."""
        self.ended = True
        self._forget()

    def resume(self, generation: int) -> None:
        """Nobody else had the partition since the end: go on where the application is."""
        self.ended, self.generation, self.leader = False, generation, None
        self.drop_buffer()

    def _forget(self) -> None:
        self._batches.clear()
        self._opened = None
        self.buffered_bytes = 0
