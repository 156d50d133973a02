"""This room is one tenure: one partition, fetched by this member without a break, from start to end."""

from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import Final, NamedTuple
from uuid import UUID

from muster.client.broker_questions import Leader, Wanted
from muster.client.errors import UnreadableBatch
from muster.client.history import NO_EPOCH, History, Parting
from muster.client.record import Record, TopicPartition
from muster.kafkawire import batches
from muster.kafkawire.errors import KafkaWireError
from muster.kafkawire.records import DEFAULT_LIMIT_BYTES, ConsumedRecord, read_records
from muster.messages.partitions import Partition

UNKNOWN = -1
RECORDS_AT_ONCE: Final = 5_000
"""A batch of many small records is opened piece by piece: as objects they are some hundred times larger."""


class Stream(NamedTuple):
    """One of the streams that a member reads (000 chapter 11): of a topic, or of all that patterns match.

    `topic` is empty for patterns; `thread` is the consumer thread id that the coordinator deals to.
    """

    topic: str
    thread: str


class Tenure:
    """Positions and buffered batches of one partition; once `ended`, nothing of it is handed out any more.

    `fetched_to` is the next offset to ask a broker for, `delivered_to` the next one to hand to the
    application, `finished_to` the next one that the application has not finished: it finishes a
    record by asking for the next, or by committing it; `committed_to` is what `commit` last heard to be
    durable, `began_at` where it began. All are −1 until auto_offset_reset has found where to begin.
    `number` rises with each tenure of one consumer. `unreadable` is set when what lies behind
    `fetched_to` was corrupt in answer after answer; nothing is fetched then until the application skips it.

    `ready` are opened records; it stays the same deque until the tenure ends, so whoever hands them out
    sees at once that it was emptied. `seeks` counts the application's moves, `sought` is true
    until a commit covers the last one. `holder` is whoever hands its records out.
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
        self.high_watermark = UNKNOWN
        self.leader: Leader | None = None
        self.history = History()
        self.read_under = NO_EPOCH
        """The leader epoch of the last answer that was good."""
        self.stream = Stream("", "")
        self.holder: object | None = None
        self.ended = self.paused = self.held_back = self.sought = False
        self.seeks = 0
        self.reset_to: int | None = None
        """Where a seek to an end of the log goes; None: as auto_offset_reset says."""
        self.ready: deque[Record] = deque()
        self.buffered_bytes = 0
        self.opened_bytes = 0
        """Of the batches that were opened since `ready` was empty."""
        self.corrupt_answers = 0
        self.unreadable: UnreadableBatch | None = None
        self._batches: deque[memoryview] = deque()
        self._opened: Iterator[ConsumedRecord] | None = None
        self._opened_to = offset

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"

    @property
    def key(self) -> tuple[UUID, int]:
        """What names the partition among tenures."""
        return self.topic_id, self.partition

    @property
    def place(self) -> TopicPartition:
        """What names the partition for the application."""
        return TopicPartition(self.topic, self.partition)

    @property
    def resting(self) -> bool:
        """True while nothing is to be handed out: the application paused it, or its listener is not done."""
        return self.paused or self.held_back

    def begin_at(self, offset: int) -> None:
        """auto_offset_reset found `offset`; whatever was buffered is of no use."""
        self.began_at = self.delivered_to = self.finished_to = offset
        self.history.forget()
        self.read_under = NO_EPOCH
        self.drop_buffer()

    def wanted(self) -> Wanted:
        """What to ask the leader for."""
        leader_epoch = self.leader.leader_epoch if self.leader else UNKNOWN
        last_epoch = self.history.last_epoch
        if last_epoch == NO_EPOCH and self.read_under < leader_epoch:
            # No batch yet, but the leader before held this offset.
            last_epoch = self.read_under
        return Wanted(
            self.topic, self.topic_id, self.partition, leader_epoch, self.fetched_to, last_epoch=last_epoch
        )

    def accept(self, records: bytes) -> bool:
        """Buffer the whole batches of a Fetch answer; True if something came. Raises CorruptBatch."""
        view = memoryview(records)
        before = self.fetched_to
        for start, header in batches.headers(view):
            if header.next_offset > self.fetched_to:
                self.history.note(self.fetched_to, header.leader_epoch)
                self._batches.append(view[start : start + header.size_bytes])
                self.buffered_bytes += header.size_bytes
                self.fetched_to = header.next_offset
        return self.fetched_to > before

    def open_some(self, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> int:
        """Make the next records of the first buffered batch `ready`; how many: none if nothing is buffered.

        Raises CorruptBatch and UnsupportedCompression; the batch then stays where it is, so that whoever goes
        on after that does not pass over it.
        """
        if not self._batches:
            return 0
        if not self.ready:
            self.opened_bytes = 0
        if self._opened is None:
            self._opened = read_records(self._batches[0], self._opened_to, limit_bytes, self._note_opened)
        topic, number, generation, tenure = self.topic, self.partition, self.generation, self.number
        new = tuple.__new__
        try:
            # What `Record(...)` does as well, at twice the price, for every record.
            records = [
                new(Record, (topic, number, offset, generation, tenure, at, key, value, headers))
                for offset, at, key, value, headers in islice(self._opened, RECORDS_AT_ONCE)
            ]
        except KafkaWireError:
            self._opened = None
            raise
        if len(records) < RECORDS_AT_ONCE:
            self._opened = None
            self.buffered_bytes -= len(self._batches.popleft())
        if records:
            self._opened_to = records[-1].offset + 1
            self.ready.extend(records)
        return len(records)

    def _note_opened(self, size_bytes: int) -> None:
        self.opened_bytes += size_bytes

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
        """True if the application is somewhere that `commit` has not heard to be durable."""
        return self.sought or self.delivered_to > max(self.began_at, self.committed_to)

    @property
    def has_batches(self) -> bool:
        """True if something is buffered that is not open yet."""
        return bool(self._batches)

    @property
    def has_news(self) -> bool:
        """True if there is something to hand out, or to tell."""
        return bool(self.ready) or bool(self._batches) or self.unreadable is not None

    def committed(self, offset: int, seeks: int) -> None:
        """A commit of `offset` is durable that was asked for after so many seeks."""
        if seeks == self.seeks:
            self.committed_to, self.sought = offset, False

    def drop_buffer(self) -> None:
        """Forget what is buffered and fetch again from what was delivered."""
        self._forget()
        self.fetched_to = self._opened_to = self.delivered_to
        self.history.cut(self.fetched_to)

    def part(self, told: Parting) -> int | None:
        """The leader's log is another than the one that was read. Drop what is buffered of that.

        Where to go on, if the application has had records of it; None: it goes on as it is.
        """
        parts_at = self.history.parts_at(told)
        if parts_at < self.delivered_to:
            return parts_at
        if parts_at < self.fetched_to:
            self.drop_buffer()
        else:
            # Only the epoch was other than thought, as where its leader had no batch of its own.
            self.history.forget(told.epoch)
        return None

    def go_back(self) -> None:
        """What was handed out and not finished is handed out again."""
        self.delivered_to = self.finished_to
        self.drop_buffer()

    def seek(self, offset: int, reset_to: int | None = None) -> None:
        """Go on at `offset`; everything before it counts as finished, handed out or not.

        UNKNOWN: where ListOffsets says that `reset_to` is.
        """
        self.seeks += 1
        self.sought, self.reset_to, self.committed_to = True, reset_to, UNKNOWN
        self.corrupt_answers, self.unreadable = 0, None
        self.begin_at(offset)

    def end(self) -> None:
        """Nothing of this tenure is handed out from now on; an answer on its way to it is ignored."""
        self.ended = True
        self._forget()

    def resume(self, generation: int) -> None:
        """Nobody else had the partition since the end: go on where the application is."""
        self.ended, self.generation, self.leader, self.holder = False, generation, None, None
        # Another one: whoever handed out the old one may still look at it.
        self.ready = deque()
        self.drop_buffer()

    def _forget(self) -> None:
        self.ready.clear()
        self._batches.clear()
        self._opened = None
        self.buffered_bytes = 0
