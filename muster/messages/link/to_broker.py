"""This room holds what the controller's node says to a broker.

HelloAccepted and a snapshot in numbered chunks, or HelloRefused; from then on each controller turn reaches
the broker as one `Changes` frame, in order (replication.md section 3, design chapter 7).
"""

from uuid import UUID

import msgspec

from muster.kernel.error_codes import ErrorCode
from muster.messages.link.brokers import BrokerResult
from muster.messages.link.callers import Callers
from muster.messages.link.configs import ConfigResults
from muster.messages.link.losses import LossAsked, LossResults
from muster.messages.link.plans import PlanAnswer
from muster.messages.link.quotas import ClientQuotas, QuotaResults, QuotaRow
from muster.messages.link.rows import (
    AlikePartitions,
    BrokerConfigs,
    BrokerRow,
    NodeRow,
    PartitionRow,
    TopicRow,
    UnusableAt,
)


class HelloAccepted(msgspec.Struct, frozen=True, tag="HelloAccepted", tag_field="type", kw_only=True):
    """The link is bound; a snapshot follows. A ping is due at least each third of the session timeout.

    `min_insync_replicas` is the cluster's, for topics that set none: elections and the high watermark must
    keep the same floor (replication.md section 1).
    """

    cluster_id: str
    broker_epoch: int
    session_timeout_ms: int
    replication_key: str = ""
    """By this brokers know each other on their replication listeners; the same for all of a cluster."""
    min_insync_replicas: int = 1
    static_configs: dict[str, str] = {}
    """What this cluster's nodes were told in their environment, for configs that they obey as well."""
    protocol: int = 0
    """What this node understands, see `muster.messages.link.protocol`."""


class HelloRefused(msgspec.Struct, frozen=True, tag="HelloRefused", tag_field="type", kw_only=True):
    """The link is not bound and is closed. NOT_CONTROLLER names the node that is, "" if nobody knows."""

    error: ErrorCode
    text: str = ""
    controller_address: str = ""


class SnapshotChunk(msgspec.Struct, frozen=True, tag="SnapshotChunk", tag_field="type", kw_only=True):
    """Part `number` (from 0) of everything that is true at `metadata_version`.

    At most MAX_ROWS_PER_FRAME rows of each kind are in one. What the chunks up to the `last` one do not name
    is gone.
    """

    metadata_version: int
    number: int
    last: bool
    brokers: tuple[BrokerRow, ...] = ()
    topics: tuple[TopicRow, ...] = ()
    partitions: tuple[PartitionRow, ...] = ()
    configs: tuple[BrokerConfigs, ...] = ()
    quotas: tuple[QuotaRow, ...] = ()
    losses: tuple[LossAsked, ...] = ()
    """Elections of which not every replica has told what they lost."""
    unusable: tuple[UnusableAt, ...] = ()
    """Every log that a broker cannot use, as far as this owner has heard; clients are told."""


class Changes(msgspec.Struct, frozen=True, tag="Changes", tag_field="type", kw_only=True):
    """All that one controller turn changed, for one broker.

    `leader_and_isr` and `stop_replica` (002 C) concern replicas of this broker, `partitions` are rows that
    it needs only for its answers to clients. `stop_replica` names rows that no longer assign this broker.
    The version of each row is `metadata_version`. The turn is applied when the frame with `complete` was.
    A turn that changed no row, but which logs can be used, states the version that was told before.
    """

    metadata_version: int
    controller_epoch: int = 0
    complete: bool = True
    leader_and_isr: tuple[AlikePartitions, ...] = ()
    stop_replica: tuple[AlikePartitions, ...] = ()
    partitions: tuple[AlikePartitions, ...] = ()
    brokers: tuple[BrokerRow, ...] = ()
    topics: tuple[TopicRow, ...] = ()
    """New or changed; partitions from its `partition_count` on are no more, which is heeded first."""
    deleted_topics: tuple[UUID, ...] = ()
    """They and their partitions are no more; heeded before `topics`, which may have one of their names."""
    configs: tuple[BrokerConfigs, ...] = ()
    quotas: tuple[QuotaRow, ...] = ()
    """New, changed, or, without a rate, taken away."""
    gone_brokers: tuple[int, ...] = ()
    """They are no part of the cluster any more; heeded before `brokers`, which may have one of their ids."""
    losses: tuple[LossAsked, ...] = ()
    """Elections that may have lost records, new or told of by one more replica; heeded before all rows."""
    unusable: tuple[UnusableAt, ...] = ()
    """Logs of brokers that cannot be used any more, or can again; heeded whatever the version is."""


class IsrAnswer(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The row as it now is, and the base version of the proposal this answers; no row: no such partition."""

    topic_id: UUID
    partition: int
    base_version: int
    row: PartitionRow | None
    error: ErrorCode = ErrorCode.NONE


class AlterPartitionAnswer(
    msgspec.Struct, frozen=True, tag="AlterPartitionAnswer", tag_field="type", kw_only=True
):
    """Answers each proposal of one AlterPartition; an error is shown, the row alone is obeyed."""

    answers: tuple[IsrAnswer, ...]


class BrokerPingAnswer(msgspec.Struct, frozen=True, tag="BrokerPingAnswer", tag_field="type", kw_only=True):
    """The ping's number, and how long ago this node read who may come in at a Kafka door."""

    number: int
    callers_age_ms: int = 0


class CallerLookedFor(msgspec.Struct, frozen=True, tag="CallerLookedFor", tag_field="type", kw_only=True):
    """Answers LookForCaller of this number: Callers told before it on this link hold whoever was found."""

    number: int


class Nodes(msgspec.Struct, frozen=True, tag="Nodes", tag_field="type", kw_only=True):
    """The live nodes, and which of them coordinates which groups, whole: the latest wins.

    Said on each link when it is bound, and whenever it is another. A broker looks for its controller there,
    and tells clients. `owners` has for each shard of groups, by its number, its holder's node id; 0: nobody.
    """

    nodes: tuple[NodeRow, ...]
    owners: tuple[int, ...]


class CreatedTopic(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one topic of a CreateTopics."""

    name: str
    error: ErrorCode = ErrorCode.NONE
    text: str = ""
    topic_id: UUID | None = None
    partition_count: int = -1
    replication_factor: int = -1


class CreateTopicsAnswer(
    msgspec.Struct, frozen=True, tag="CreateTopicsAnswer", tag_field="type", kw_only=True
):
    """Answers CreateTopics when the new partitions have leaders, or when its timeout ended."""

    correlation_id: int
    topics: tuple[CreatedTopic, ...]


class TopicResult(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one topic of a DeleteTopics, CreatePartitions or RemovePartitions."""

    name: str = ""
    topic_id: UUID | None = None
    error: ErrorCode = ErrorCode.NONE
    text: str = ""


class TopicResults(msgspec.Struct, frozen=True, tag="TopicResults", tag_field="type", kw_only=True):
    """Answers DeleteTopics, CreatePartitions and RemovePartitions, in the order of the request."""

    correlation_id: int
    topics: tuple[TopicResult, ...]


class ReassignmentResult(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the wish for one partition."""

    topic: str
    partition: int
    error: ErrorCode = ErrorCode.NONE
    text: str = ""


class ReassignmentResults(
    msgspec.Struct, frozen=True, tag="ReassignmentResults", tag_field="type", kw_only=True
):
    """Answers AlterReassignments, in the order of the request."""

    correlation_id: int
    results: tuple[ReassignmentResult, ...]


class OngoingReassignment(msgspec.Struct, frozen=True, array_like=True):
    """One that is asked for or under way: replicas as they are while it is, and which of them come and go."""

    topic: str
    partition: int
    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


class OngoingReassignments(
    msgspec.Struct, frozen=True, tag="OngoingReassignments", tag_field="type", kw_only=True
):
    """Answers ListReassignments."""

    correlation_id: int
    ongoing: tuple[OngoingReassignment, ...]


class ElectionResult(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the election of one partition."""

    topic: str
    partition: int
    error: ErrorCode = ErrorCode.NONE
    text: str = ""


class ElectionResults(msgspec.Struct, frozen=True, tag="ElectionResults", tag_field="type", kw_only=True):
    """Answers ElectLeaders, in the order of the request; of all partitions those that needed one."""

    correlation_id: int
    results: tuple[ElectionResult, ...]


class ProducerIds(msgspec.Struct, frozen=True, tag="ProducerIds", tag_field="type", kw_only=True):
    """A block of producer ids that nobody else was given: `first` to `first + count − 1`."""

    correlation_id: int
    first: int
    count: int


class MayLeave(msgspec.Struct, frozen=True, tag="MayLeave", tag_field="type", kw_only=True):
    """Answers Leaving: what others can lead they lead, and every live broker has been told so."""


class NotController(msgspec.Struct, frozen=True, tag="NotController", tag_field="type", kw_only=True):
    """Last frame of a link whose node gives the controller's lease up; the next address, "" if unknown."""

    controller_address: str = ""


WishAnswer = (
    CreateTopicsAnswer
    | TopicResults
    | ReassignmentResults
    | OngoingReassignments
    | ElectionResults
    | ProducerIds
    | ConfigResults
    | PlanAnswer
    | QuotaResults
    | ClientQuotas
    | BrokerResult
    | LossResults
)
"""What the controller answers to a `from_broker.Wish`, of the kind that belongs to it."""

ToBroker = (
    HelloAccepted
    | HelloRefused
    | SnapshotChunk
    | Changes
    | AlterPartitionAnswer
    | BrokerPingAnswer
    | CallerLookedFor
    | Nodes
    | Callers
    | WishAnswer
    | MayLeave
    | NotController
)
