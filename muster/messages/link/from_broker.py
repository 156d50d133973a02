"""This room holds what a broker says on its link to the controller's node; BrokerHello is the first frame."""

from uuid import UUID

import msgspec

from muster.messages.link.rows import PartitionKey


class BrokerHello(msgspec.Struct, frozen=True, tag="BrokerHello", tag_field="type", kw_only=True):
    """First frame of a link. The secret travels in the Authorization header, never in a frame.

    `incarnation` is made anew by each broker process. `lost_tail` is true when the log may have lost its
    tail: another boot id without a clean-shutdown mark, or a new or empty folder (replication.md section 1).
    `metadata_version` is what this process has applied, 0 before its first snapshot; `broker_epoch` is the
    one this process was given, 0 before. `unusable_logs`: see UnusableLogs; here all of them, the first
    MAX_UNUSABLE_PER_HELLO at least. `damaged_logs` lack records that
    they once held, though the machine did not crash: a lost tail of these partitions alone.
    `highest_metadata_version` is what any process of this folder has applied, as far as the folder knows.
    """

    broker_id: int
    incarnation: str
    endpoints: dict[str, str]
    rack: str = ""
    cluster_id: str = ""
    broker_epoch: int = 0
    lost_tail: bool = False
    metadata_version: int = 0
    unusable_logs: tuple[PartitionKey, ...] = ()
    damaged_logs: tuple[PartitionKey, ...] = ()
    highest_leader_epoch: int = 0
    highest_broker_epoch: int = 0
    highest_metadata_version: int = 0


class HighWatermark(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """How far a partition that this broker leads is committed."""

    topic_id: UUID
    partition: int
    high_watermark: int


class BrokerPing(msgspec.Struct, frozen=True, tag="BrokerPing", tag_field="type", kw_only=True):
    """Keeps the session; states the one metadata_version this broker has applied.

    `high_watermarks` names leaders whose high watermark changed since the last ping, at most
    MAX_ROWS_PER_FRAME of them.
    """

    number: int
    metadata_version: int
    high_watermarks: tuple[HighWatermark, ...] = ()


class IsrProposal(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A leader's wish for another ISR, made on the row of `base_version`.

    `broker_epochs` states for each member that is new in `isr` the broker epoch of its last fetch.
    """

    topic_id: UUID
    partition: int
    base_version: int
    isr: tuple[int, ...]
    broker_epochs: dict[int, int] = {}


class AlterPartition(msgspec.Struct, frozen=True, tag="AlterPartition", tag_field="type", kw_only=True):
    """Proposals of several partitions, each judged by itself (replication.md section 2)."""

    proposals: tuple[IsrProposal, ...]


class UnusableLogs(msgspec.Struct, frozen=True, tag="UnusableLogs", tag_field="type", kw_only=True):
    """Logs that this process can neither read nor write any more, and others that it can again.

    Each names what changed since the hello and the frames behind it, at most MAX_ROWS_PER_FRAME logs. A log
    that could not be opened, or whose disk failed: the broker counts as dead for these partitions and for no
    other. One that lost records meanwhile is never `usable` again: another incarnation says `lost_tail`.
    """

    failed: tuple[PartitionKey, ...] = ()
    usable: tuple[PartitionKey, ...] = ()


class NewTopic(msgspec.Struct, frozen=True, kw_only=True):
    """One topic to create; −1: the default. `assignments` (partition to brokers) excludes both counts."""

    name: str
    partition_count: int = -1
    replication_factor: int = -1
    assignments: dict[int, tuple[int, ...]] = {}
    configs: dict[str, str | None] = {}


class CreateTopics(msgspec.Struct, frozen=True, tag="CreateTopics", tag_field="type", kw_only=True):
    """A client's CreateTopics, forwarded once, with the principal the broker knows (design chapter 8a.6)."""

    correlation_id: int
    topics: tuple[NewTopic, ...]
    timeout_ms: int
    validate_only: bool = False
    principal: str = ""


class NamedTopic(msgspec.Struct, frozen=True, kw_only=True):
    """A topic by its name or by its id; one of them is empty."""

    name: str = ""
    topic_id: UUID | None = None


class DeleteTopics(msgspec.Struct, frozen=True, tag="DeleteTopics", tag_field="type", kw_only=True):
    """A client's DeleteTopics, forwarded once."""

    correlation_id: int
    topics: tuple[NamedTopic, ...]
    principal: str = ""


class GrownTopic(msgspec.Struct, frozen=True, kw_only=True):
    """A topic that is to have `partition_count` partitions; `assignments`: the brokers of each new one."""

    name: str
    partition_count: int
    assignments: tuple[tuple[int, ...], ...] | None = None


class CreatePartitions(msgspec.Struct, frozen=True, tag="CreatePartitions", tag_field="type", kw_only=True):
    """A client's CreatePartitions, forwarded once."""

    correlation_id: int
    topics: tuple[GrownTopic, ...]
    timeout_ms: int
    validate_only: bool = False
    principal: str = ""


class WantedReplicas(msgspec.Struct, frozen=True, kw_only=True):
    """Where a partition is to be; None: it stays where it was before the reassignment under way."""

    topic: str
    partition: int
    replicas: tuple[int, ...] | None = None


class AlterReassignments(
    msgspec.Struct, frozen=True, tag="AlterReassignments", tag_field="type", kw_only=True
):
    """A client's AlterPartitionReassignments, forwarded once."""

    correlation_id: int
    partitions: tuple[WantedReplicas, ...]
    may_change_factor: bool = True
    principal: str = ""


class ListReassignments(msgspec.Struct, frozen=True, tag="ListReassignments", tag_field="type", kw_only=True):
    """A client's ListPartitionReassignments; None: all."""

    correlation_id: int
    partitions: tuple[tuple[str, int], ...] | None = None


class AllocateProducerIds(
    msgspec.Struct, frozen=True, tag="AllocateProducerIds", tag_field="type", kw_only=True
):
    """The broker has used up its block of producer ids."""

    correlation_id: int


FromBroker = (
    BrokerHello
    | BrokerPing
    | AlterPartition
    | UnusableLogs
    | CreateTopics
    | DeleteTopics
    | CreatePartitions
    | AlterReassignments
    | ListReassignments
    | AllocateProducerIds
)
