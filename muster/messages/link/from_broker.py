"""This room holds what a broker says on its link to the controller's node; BrokerHello is the first frame."""

from typing import Annotated
from uuid import UUID

import msgspec

from muster.messages.limits import FRAMEFUL, HELLOFUL
from muster.messages.link.brokers import CordonBroker, UnregisterBroker
from muster.messages.link.condition import Condition
from muster.messages.link.configs import AlterConfigs
from muster.messages.link.log_ends import LogEnds
from muster.messages.link.losses import AcknowledgeLosses, LossReport
from muster.messages.link.plans import (
    ApprovePlan,
    CancelPlan,
    PausePlan,
    ProposePlan,
    RunPlan,
    ThrottlePlan,
)
from muster.messages.link.quotas import AlterClientQuotas, DescribeClientQuotas
from muster.messages.link.rows import PartitionKey


class BrokerHello(msgspec.Struct, frozen=True, tag="BrokerHello", tag_field="type", kw_only=True):
    """First frame of a link. The secret travels in the Authorization header, never in a frame.

    `incarnation` is made anew by each broker process. `lost_tail` is true when the log may have lost its
    tail: another boot id without a clean-shutdown mark, or a new or empty folder (replication.md section 1).
    `metadata_version` is what this process has applied, 0 before its first snapshot; `broker_epoch` is the
    one this process was given, 0 before. `unusable_logs`: see UnusableLogs; here all of them, or the first
    MAX_UNUSABLE_PER_HELLO, and the rest behind it. `damaged_logs` lack records that they once held, though
    the machine did not crash: a lost tail of these partitions alone; with more than MAX_ROWS_PER_FRAME of
    them `lost_tail` is true.
    `highest_metadata_version` is what any process of this folder has applied, as far as the folder knows.
    """

    broker_id: int
    incarnation: str
    endpoints: Annotated[dict[str, str], FRAMEFUL]
    rack: str = ""
    cluster_id: str = ""
    broker_epoch: int = 0
    lost_tail: bool = False
    metadata_version: int = 0
    unusable_logs: Annotated[tuple[PartitionKey, ...], HELLOFUL] = ()
    damaged_logs: Annotated[tuple[PartitionKey, ...], FRAMEFUL] = ()
    highest_leader_epoch: int = 0
    highest_broker_epoch: int = 0
    highest_metadata_version: int = 0
    protocol: int = 0
    """What this broker understands, see `muster.messages.link.protocol`."""
    leaving: bool = False
    """It has said Leaving on an earlier link, or would have."""
    static_configs: Annotated[dict[str, str], FRAMEFUL] = {}
    """What its environment says of configs, by the one name of each; what is as by default is left out."""


class HighWatermark(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """How far a partition that this broker leads is committed, and how large its log is; −1: not said."""

    topic_id: UUID
    partition: int
    high_watermark: int
    size_bytes: int = -1


class Arriving(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """How many bytes of a partition are here, where a reassignment adds a replica that is not in sync yet."""

    topic_id: UUID
    partition: int
    held_bytes: int


class BrokerPing(msgspec.Struct, frozen=True, tag="BrokerPing", tag_field="type", kw_only=True):
    """Keeps the session; states the one metadata_version this broker has applied.

    `high_watermarks` names leaders whose high watermark changed since the last ping, at most
    MAX_ROWS_PER_FRAME of them. `condition`: None: as it was. `arriving`: every replica that comes to this
    broker, with each ping, so that silence is told from standing still; at most MAX_ROWS_PER_FRAME. `losses`
    is told again with each ping, until the controller says that it was heard.
    """

    number: int
    metadata_version: int
    high_watermarks: Annotated[tuple[HighWatermark, ...], FRAMEFUL] = ()
    condition: Condition | None = None
    arriving: Annotated[tuple[Arriving, ...], FRAMEFUL] = ()
    losses: Annotated[tuple[LossReport, ...], FRAMEFUL] = ()


class IsrProposal(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A leader's wish for another ISR, made on the row of `base_version`.

    `broker_epochs` states for each member that is new in `isr` the broker epoch of its last fetch.
    """

    topic_id: UUID
    partition: int
    base_version: int
    isr: Annotated[tuple[int, ...], FRAMEFUL]
    broker_epochs: Annotated[dict[int, int], FRAMEFUL] = {}


class AlterPartition(msgspec.Struct, frozen=True, tag="AlterPartition", tag_field="type", kw_only=True):
    """Proposals of several partitions, each judged by itself (replication.md section 2)."""

    proposals: Annotated[tuple[IsrProposal, ...], FRAMEFUL]


class UnusableLogs(msgspec.Struct, frozen=True, tag="UnusableLogs", tag_field="type", kw_only=True):
    """Logs that this process can neither read nor write any more, and others that it can again.

    Each names what changed since the hello and the frames behind it, at most MAX_ROWS_PER_FRAME logs. A log
    that could not be opened, or whose disk failed: the broker counts as dead for these partitions and for no
    other. One that lost records meanwhile is never `usable` again: another incarnation says `lost_tail`.
    """

    failed: Annotated[tuple[PartitionKey, ...], FRAMEFUL] = ()
    usable: Annotated[tuple[PartitionKey, ...], FRAMEFUL] = ()


class Leaving(msgspec.Struct, frozen=True, tag="Leaving", tag_field="type", kw_only=True):
    """This broker was told to stop: others may lead what it leads. It serves on until MayLeave, or a timeout.

    Never taken back by the same process (replication.md section 2).
    """


class LookForCaller(msgspec.Struct, frozen=True, tag="LookForCaller", tag_field="type", kw_only=True):
    """A client at `peer` states a name, or a token's public part, that was not told: it may be newer."""

    number: int
    name: str
    peer: str


class NewTopic(msgspec.Struct, frozen=True, kw_only=True):
    """One topic to create; −1: the default. `assignments` (partition to brokers) excludes both counts."""

    name: str
    partition_count: int = -1
    replication_factor: int = -1
    assignments: dict[int, tuple[int, ...]] = {}
    configs: dict[str, str | None] = {}


class CreateTopics(msgspec.Struct, frozen=True, tag="CreateTopics", tag_field="type", kw_only=True):
    """CreateTopics, with the principal that whoever forwards it knows (design chapter 8a.6)."""

    correlation_id: int = 0
    topics: tuple[NewTopic, ...]
    timeout_ms: int
    validate_only: bool = False
    principal: str = ""


class NamedTopic(msgspec.Struct, frozen=True, kw_only=True):
    """A topic by its name or by its id; one of them is empty.

    `expected_version`, `expected_id`: those of the row that was looked at; others are a refusal. None: any.
    """

    name: str = ""
    topic_id: UUID | None = None
    expected_version: int | None = None
    expected_id: UUID | None = None


class DeleteTopics(msgspec.Struct, frozen=True, tag="DeleteTopics", tag_field="type", kw_only=True):
    """DeleteTopics; see CreateTopics."""

    correlation_id: int = 0
    topics: tuple[NamedTopic, ...]
    principal: str = ""


class GrownTopic(msgspec.Struct, frozen=True, kw_only=True):
    """A topic that is to have `partition_count` partitions; `assignments`: the brokers of each new one.

    `expected_version`: see NamedTopic.
    """

    name: str
    partition_count: int
    assignments: tuple[tuple[int, ...], ...] | None = None
    expected_version: int | None = None


class CreatePartitions(msgspec.Struct, frozen=True, tag="CreatePartitions", tag_field="type", kw_only=True):
    """CreatePartitions; see CreateTopics."""

    correlation_id: int = 0
    topics: tuple[GrownTopic, ...]
    timeout_ms: int
    validate_only: bool = False
    principal: str = ""


class RemovePartitions(msgspec.Struct, frozen=True, tag="RemovePartitions", tag_field="type", kw_only=True):
    """A topic is to have `partition_count` partitions: the highest ones go, with their records (002 H).

    Not `force`: refused while a group has not read all that is in them. `expected_version`: see NamedTopic.
    `told_groups`: the groups, by name or prefix, that whoever asks may be told of.
    """

    correlation_id: int = 0
    topic: str
    partition_count: int
    force: bool = False
    expected_version: int | None = None
    validate_only: bool = False
    principal: str = ""
    told_groups: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET


class WantedReplicas(msgspec.Struct, frozen=True, kw_only=True):
    """Where a partition is to be; None: it stays where it was before the reassignment under way.

    `expected_version`: of the partition's row that was looked at; `expected_move`: the reassignment that was.
    Others are a refusal; None: any.
    """

    topic: str
    partition: int
    replicas: tuple[int, ...] | None = None
    expected_version: int | None = None
    expected_move: UUID | None = None


class AlterReassignments(
    msgspec.Struct, frozen=True, tag="AlterReassignments", tag_field="type", kw_only=True
):
    """AlterPartitionReassignments; see CreateTopics. `throttle`: bytes a second; 0: any."""

    correlation_id: int = 0
    partitions: tuple[WantedReplicas, ...]
    may_change_factor: bool = True
    principal: str = ""
    throttle: int = 0


class ListReassignments(msgspec.Struct, frozen=True, tag="ListReassignments", tag_field="type", kw_only=True):
    """ListPartitionReassignments; None: all."""

    correlation_id: int = 0
    partitions: tuple[tuple[str, int], ...] | None = None


class ElectLeaders(msgspec.Struct, frozen=True, tag="ElectLeaders", tag_field="type", kw_only=True):
    """A client's ElectLeaders, forwarded once; partitions None: all. Not `unclean`: the preferred leaders.

    `whole_topics`: of these whoever asked named no partitions, and meant those that `partitions` names.
    """

    correlation_id: int
    partitions: tuple[tuple[str, int], ...] | None = None
    unclean: bool = False
    principal: str = ""
    whole_topics: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET


class AllocateProducerIds(
    msgspec.Struct, frozen=True, tag="AllocateProducerIds", tag_field="type", kw_only=True
):
    """The broker has used up its block of producer ids."""

    correlation_id: int = 0


Wish = (
    CreateTopics
    | DeleteTopics
    | CreatePartitions
    | RemovePartitions
    | AlterReassignments
    | ListReassignments
    | ElectLeaders
    | AllocateProducerIds
    | AlterConfigs
    | ProposePlan
    | ApprovePlan
    | RunPlan
    | PausePlan
    | CancelPlan
    | ThrottlePlan
    | AlterClientQuotas
    | DescribeClientQuotas
    | CordonBroker
    | UnregisterBroker
    | AcknowledgeLosses
)
"""What anybody asks of the controller; `correlation_id` is the link's, 0 elsewhere."""

FromBroker = (
    BrokerHello | BrokerPing | AlterPartition | UnusableLogs | LogEnds | Leaving | LookForCaller | Wish
)
