"""This room holds an OffsetCommit of a Kafka client on its way to the batch."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from msgspec import structs

from coordinator.backlog import BYTES_OF_A_PARTITION, WEIGHT_OF_ONE
from coordinator.commits import Commit
from coordinator.core.classic.offsets import judge
from coordinator.core.events import ConnectionId, OffsetsTakenBack
from coordinator.core.memory import GroupState
from coordinator.core.offsets import Judgement
from groups.core.state import OffsetNote
from muster.kernel.error_codes import ErrorCode
from muster.messages.partitions import Partition
from runtime import database_clock

NO_EPOCH = -1
LAST_DAY_MS = 253_402_214_400_000
"""The last day of the year 9999. A row that the database cannot hold would refuse a batch of many groups."""


class Committed(NamedTuple):
    """What is to be committed for one partition; `retention_ms` -1: it lives as long as all others."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    retention_ms: int = -1


class Stated(NamedTuple):
    """What one commit states: an offset for each partition, and the notes of those that have one.

    `taken_back` had a negative one: nothing is committed for them from then on.
    """

    offsets: Mapping[Partition, int]
    notes: Mapping[Partition, OffsetNote]
    taken_back: tuple[Partition, ...] = ()

    @property
    def partitions(self) -> Collection[Partition]:
        """All that are spoken of; mostly nothing is taken back, and thousands are not copied."""
        return (*self.offsets, *self.taken_back) if self.taken_back else self.offsets.keys()

    @classmethod
    def of(cls, positions: Mapping[Partition, tuple[int, int, str, int]]) -> "Stated":
        """`positions` as Committed has them."""
        offsets: dict[Partition, int] = {}
        notes: dict[Partition, OffsetNote] = {}
        taken_back: list[Partition] = []
        for partition, (offset, leader_epoch, metadata, retention_ms) in positions.items():
            if offset < 0:
                taken_back.append(partition)
                continue
            offsets[partition] = offset
            if leader_epoch > NO_EPOCH or metadata or retention_ms >= 0:
                note = OffsetNote(max(leader_epoch, NO_EPOCH), metadata, _expiry(retention_ms))
                notes[partition] = note
        return cls(offsets, notes, tuple(taken_back))


class ClassicCommit(Commit):
    """Offsets of a Kafka client; `answer` hears what became of them.

    `connection` is the client's seat in the group: what is said there keeps its order.
    """

    __slots__ = ("_answer", "_generation", "_group_instance_id", "_member_id", "_stated", "_taken_back")

    def __init__(
        self,
        *,
        key: str,
        connection: ConnectionId,
        member_id: str,
        group_instance_id: str | None,
        generation: int,
        stated: Stated,
        answer: Callable[[Judgement], None],
    ) -> None:
        # Not by the class above: a call for each of forty thousand a second.
        self.key = key
        self.connection = connection
        self.partitions = len(stated.offsets) + len(stated.taken_back)
        self._member_id = member_id
        self._group_instance_id = group_instance_id
        self._generation = generation
        self._stated = stated
        self._taken_back = stated.taken_back
        self._answer = answer

    @property
    def weight(self) -> int:
        notes = self._stated.notes
        texts = sum([len(note.metadata) for note in notes.values()]) if notes else 0
        return self.partitions + WEIGHT_OF_ONE + texts // BYTES_OF_A_PARTITION

    def judge(self, state: GroupState) -> Judgement:
        offsets, notes, _ = self._stated
        who = self._member_id, self._group_instance_id, self._generation
        judgement = judge(state, *who, offsets, notes)
        if not self._stated.taken_back or judgement.error is not ErrorCode.NONE or judgement.not_ready:
            return judgement
        if self._taken_back:
            # A turn of its own, and once: what is judged behind it finds nothing committed there.
            first, self._taken_back = OffsetsTakenBack(self._taken_back, *who), ()
            return structs.replace(judgement, first=first)
        if any(one in state.rows.offsets for one in self._stated.taken_back):
            # The turn was refused, and others with it were not: whoever is told so may ask again.
            return Judgement(error=ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return judgement

    def answer(self, judgement: Judgement) -> None:
        self._answer(judgement)


class SaidAgain(NamedTuple):
    """What is the same in the commits that a member makes one after the other: all but the offsets."""

    key: str
    member_id: str
    group_instance_id: str | None
    generation: int
    partitions: Sequence[Partition]
    notes: Mapping[Partition, OffsetNote]


class CommitAgain(Commit):
    """A commit like one before, with other offsets, one for each of its partitions."""

    __slots__ = ("_offsets", "_same")

    _same: SaidAgain
    _offsets: Sequence[int]

    def judge(self, state: GroupState) -> Judgement:
        _, member_id, group_instance_id, generation, partitions, notes = self._same
        stated = self._offsets
        if len(stated) == 1:
            # By far the most, and a third of what the general way costs.
            offsets = {partitions[0]: stated[0]}
        else:
            offsets = dict(zip(partitions, stated, strict=True))
        return judge(state, member_id, group_instance_id, generation, offsets, notes)


def _expiry(retention_ms: int) -> int | None:
    """An explicit stamp (conformance 115): commit time, by the clock by which it is judged, and retention."""
    if retention_ms < 0:
        return None
    return min(round(database_clock.now().timestamp() * 1000) + retention_ms, LAST_DAY_MS)
