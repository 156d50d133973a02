"""This room lists what a controller turn can make true; `state.apply` is what each of them means.

Records are stored by `controller.store` in the turn's transaction and kept, as JSON, in the journal.
"""

from enum import StrEnum
from typing import TypeAlias
from uuid import UUID

import msgspec

from controller.core.loss_rows import Loss
from controller.core.plan_rows import Plan, PlanStep, StepState
from muster.messages.link.log_ends import NOT_NOTED
from muster.messages.link.quotas import QuotaRow
from muster.messages.link.rows import AlikePartitions, BrokerConfigs, BrokerRow, PartitionKey, TopicRow
from muster.messages.link.to_broker import ReassignmentResult, WishAnswer


class Record(msgspec.Struct, frozen=True, tag_field="record", tag=True):
    """Something that became true."""


class TurnStamped(Record, frozen=True):
    """First record of each turn: metadata_version rises from `version − 1`, on which it was decided."""

    version: int


class BrokerChanged(Record, frozen=True):
    """A broker registered, became live, or was fenced (`row.live`)."""

    row: BrokerRow


class BrokerCordoned(Record, frozen=True):
    """An operator wants no new replicas on a broker, or wants them again; kept in the journal for people.

    The row changes by a record of its own.
    """

    broker_id: int
    cordoned: bool
    principal: str = ""


class BrokerUnregistered(Record, frozen=True):
    """A broker is no part of the cluster any more, and its secret opens nothing."""

    broker_id: int
    broker_epoch: int


class TopicCreated(Record, frozen=True):
    """A new topic; its partitions follow, each as a PartitionCreated."""

    row: TopicRow


class TopicChanged(Record, frozen=True):
    """A topic has more partitions than before, which follow, or other configs."""

    row: TopicRow


class TopicDeleted(Record, frozen=True):
    """A topic and its partitions are no more; another topic may have its name, never its id.

    `versions` are those that the partitions had, by number: from there people read the journal backwards.
    """

    topic_id: UUID
    name: str
    partition_count: int
    versions: tuple[int, ...] = ()


class PartitionsRemoved(Record, frozen=True):
    """The `count` partitions of a topic from `first` on are no more; others may have their numbers.

    `versions`: see TopicDeleted.
    """

    topic_id: UUID
    name: str
    first: int
    count: int
    versions: tuple[int, ...] = ()


class BrokerConfigsChanged(Record, frozen=True):
    """Other configs of a broker or of the cluster; one that sets nothing any more stays, for its version."""

    row: BrokerConfigs


class ConfigChanged(Record, frozen=True):
    """What one key was and is, None where nothing is set; kept in the journal for people.

    `resource` is a topic's name, `broker 1` or `cluster`. The row changes by a record of its own.
    """

    resource: str
    key: str
    before: str | None
    after: str | None
    principal: str = ""


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
    throttle: int = 0
    """Bytes a second; 0: any."""
    plan_id: UUID | None = None
    plan_step: int = 0
    """The step of a stored plan that asked for it; None: somebody asked for it alone."""

    @property
    def key(self) -> PartitionKey:
        return self.topic_id, self.partition

    @property
    def is_active(self) -> bool:
        return self.phase in (Phase.INIT, Phase.IN_PROGRESS)


class ReassignmentChanged(Record, frozen=True):
    """A reassignment was asked for, began or ended; the partition's row changes by a record of its own."""

    row: Reassignment


class MovesFailed(Record, frozen=True, gc=False):
    """What moved these partitions has nothing left to move: they are gone. One record, however many."""

    topic_id: UUID
    partitions: tuple[int, ...]
    reason: str


class PlanChanged(Record, frozen=True):
    """A plan was proposed, computed, approved, run, paused, throttled, or is over."""

    row: Plan


class PlanStepsAdded(Record, frozen=True, gc=False):
    """Steps that a worker computed, in the order of their numbers; they wait."""

    plan_id: UUID
    steps: tuple[PlanStep, ...]


class PlanStepsChanged(Record, frozen=True, gc=False):
    """Steps of one plan that were asked, skipped, or whose moves ended, for the same reason."""

    plan_id: UUID
    state: StepState
    numbers: tuple[int, ...]
    why: str = ""


class ClientQuotaChanged(Record, frozen=True):
    """A quota of clients was set, changed, or taken away: then the row has no rate."""

    row: QuotaRow


class PossibleLoss(Record, frozen=True):
    """`leader` was elected though it may lack committed records, of which `isr` held all.

    From then on it is asked what was lost. Journals of before say no epoch, and nobody is asked.
    """

    topic_id: UUID
    partition: int
    leader: int
    reason: str
    leader_epoch: int = 0
    isr: tuple[int, ...] = ()

    def loss(self, topic: str, version: int = 0) -> Loss:
        """As it is stored; nobody has told of it yet."""
        return Loss(
            self.topic_id,
            topic,
            self.partition,
            self.leader_epoch,
            self.leader,
            self.isr,
            self.reason,
            version=version,
        )


class LossChanged(Record, frozen=True):
    """A replica told what an election lost, or somebody has seen it."""

    row: Loss


class ShownEnd(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """How far the log of one replica went: the leader epoch of its last batch, and its end.

    `led_epoch` is the one in which its broker led last, where that decided; −2: it did not, −1: in none.
    """

    last_epoch: int
    end_offset: int
    led_epoch: int = NOT_NOTED


class ShownLogs(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """How far the logs of a partition went, by broker; one end, where it was the same of all."""

    partition: int
    ends: tuple[ShownEnd, ...]


class LogsCompared(Record, frozen=True, gc=False):
    """`leader` was elected for how far its logs go, as the database was set back, of all who showed theirs.

    Kept in the journal for people; the rows change by records of their own. What a hundred thousand of them
    have alike is said once; journals of before have a record for each.
    """

    topic_id: UUID
    topic: str
    leader: int
    brokers: tuple[int, ...]
    logs: tuple[ShownLogs, ...]


class ProducerIdsGiven(Record, frozen=True):
    """The ids `first` to `first + count − 1` belong to one broker and are never given again."""

    first: int
    count: int


class SetBackProven(Record, frozen=True):
    """A broker was told what this database does not hold: it was set back, and counts anew. See `why`.

    `lacking`: how far what it was told, a version or its epoch, lies above what is held.
    """

    broker_id: int
    stated_version: int
    why: str
    lacking: int = 0


class WorkOffered(Record, frozen=True):
    """A worker is to propose leaders, or a plan: `kind` is a task of 002 or PLAN, `key` what it is about."""

    kind: str
    key: str
    based_on: int


class WorkAdopted(Record, frozen=True):
    """The finished work item was taken over as far as it still fitted."""

    item_id: int | str


class RequestAnswered(Record, frozen=True):
    """Somebody's request has its answer; what else it made true is told by other records."""

    request_id: str
    principal: str
    reason: str
    answer: WishAnswer


class RequestBegun(Record, frozen=True):
    """A request for reassignments goes on in the next turn: `results` of what of it this turn did.

    It stands in the request's row, so that the next owner goes on behind it.
    """

    request_id: str
    results: tuple[ReassignmentResult, ...]


ClusterRecord: TypeAlias = (
    TurnStamped
    | BrokerChanged
    | BrokerCordoned
    | BrokerUnregistered
    | TopicCreated
    | TopicChanged
    | TopicDeleted
    | PartitionsRemoved
    | BrokerConfigsChanged
    | ConfigChanged
    | PartitionsCreated
    | PartitionsChanged
    | ReassignmentChanged
    | MovesFailed
    | PlanChanged
    | PlanStepsAdded
    | PlanStepsChanged
    | ClientQuotaChanged
    | PossibleLoss
    | LossChanged
    | LogsCompared
    | ProducerIdsGiven
    | SetBackProven
    | WorkOffered
    | WorkAdopted
    | RequestAnswered
    | RequestBegun
)
