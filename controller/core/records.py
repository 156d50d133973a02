"""This room lists what a controller turn can make true; `state.apply` is what each of them means.

Records are stored by `controller.store` in the turn's transaction and kept, as JSON, in the journal.
"""

from enum import StrEnum
from typing import TypeAlias
from uuid import UUID

import msgspec

from muster.messages.link.rows import AlikePartitions, BrokerRow, PartitionKey, TopicRow


class Record(msgspec.Struct, frozen=True, tag_field="record", tag=True):
    """Something that became true."""


class TurnStamped(Record, frozen=True):
    """First record of each turn: metadata_version rises from `version − 1`, on which it was decided."""

    version: int


class BrokerChanged(Record, frozen=True):
    """A broker registered, became live, or was fenced (`row.live`)."""

    row: BrokerRow


class TopicCreated(Record, frozen=True):
    """A new topic; its partitions follow, each as a PartitionCreated."""

    row: TopicRow


class TopicChanged(Record, frozen=True):
    """A topic has more partitions than before; the new ones follow."""

    row: TopicRow


class TopicDeleted(Record, frozen=True):
    """A topic and its partitions are no more; another topic may have its name, never its id."""

    topic_id: UUID
    name: str
    partition_count: int


class PartitionsCreated(Record, frozen=True, gc=False):
    """New partitions; until now none of them had a leader. `version` is that of the turn."""

    alike: AlikePartitions
    version: int


class PartitionsChanged(Record, frozen=True, gc=False):
    """Another leader, epoch, ISR or replicas; `version` is that of the turn.

    Written only where each row still has its base version, in the order of `alike.partitions`.
    """

    alike: AlikePartitions
    version: int
    base_versions: tuple[int, ...]


class Phase(StrEnum):
    """Where a reassignment stands (002 E)."""

    INIT = "Init"
    """Asked for; its partition is as before until there is room for it."""
    IN_PROGRESS = "InProgress"
    """The new replicas copy beside the old ones."""
    DONE = "Done"
    CANCELLED = "Cancelled"
    FAILED = "Failed"


class Reassignment(msgspec.Struct, frozen=True):
    """One partition on its way from `origin` to `target`; at most one of a partition is active."""

    id: UUID
    topic_id: UUID
    topic: str
    partition: int
    origin: tuple[int, ...]
    target: tuple[int, ...]
    phase: Phase
    principal: str = ""
    reason: str = ""
    """Why it ended before its target."""

    @property
    def key(self) -> PartitionKey:
        return self.topic_id, self.partition

    @property
    def is_active(self) -> bool:
        return self.phase in (Phase.INIT, Phase.IN_PROGRESS)


class ReassignmentChanged(Record, frozen=True):
    """A reassignment was asked for, began or ended; the partition's row changes by a record of its own."""

    row: Reassignment


class PossibleLoss(Record, frozen=True):
    """`leader` was elected though it may lack committed records; kept in the journal for people."""

    topic_id: UUID
    partition: int
    leader: int
    reason: str


class ProducerIdsGiven(Record, frozen=True):
    """The ids `first` to `first + count − 1` belong to one broker and are never given again."""

    first: int
    count: int


class SetBackProven(Record, frozen=True):
    """A broker was told what this database does not hold: it was set back, and counts anew. See `why`."""

    broker_id: int
    stated_version: int
    why: str


class WorkOffered(Record, frozen=True):
    """A worker is to propose leaders: `kind` is a task of 002, `key` what it is about."""

    kind: str
    key: str
    based_on: int


class WorkAdopted(Record, frozen=True):
    """The finished work item was taken over as far as it still fitted."""

    item_id: int | str


ClusterRecord: TypeAlias = (
    TurnStamped
    | BrokerChanged
    | TopicCreated
    | TopicChanged
    | TopicDeleted
    | PartitionsCreated
    | PartitionsChanged
    | ReassignmentChanged
    | PossibleLoss
    | ProducerIdsGiven
    | SetBackProven
    | WorkOffered
    | WorkAdopted
)
