"""This room holds the language of the broker link: JSON frames between a broker and the controller's node.

Rules of the link: replication.md section 3, design chapter 7. A broker opens with BrokerHello; the node
answers HelloAccepted and a snapshot in numbered chunks, or HelloRefused. From then on each controller turn
reaches the broker as one `Changes` frame, in order. Epochs and versions are plain integers here; the cores
on both sides compare each with its own kind only.
"""

from typing import Final, TypeVar
from uuid import UUID

import msgspec

from muster.kernel.error_codes import ErrorCode

Frame = TypeVar("Frame")

CLIENT_LISTENER: Final = "client"
REPLICATION_LISTENER: Final = "replication"

NO_LEADER: Final = -1

MAX_ROWS_PER_FRAME: Final = 1_000
"""Partitions in one chunk of a snapshot, in one AlterPartition, in one ping."""

MAX_ROWS_PER_CHANGES: Final = 20_000
"""Partitions in one Changes frame; a turn that changed more is told in several, the last one complete."""

MAX_FRAME_FROM_BROKER_BYTES: Final = 2 * 1024 * 1024
MAX_FRAME_TO_BROKER_BYTES: Final = 16 * 1024 * 1024


class PartitionRow(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One partition as the controller wrote it; a bare array on the wire, as a snapshot names every one.

    `version` is the metadata_version of the turn that last changed this row: the condition of every change
    of the ISR, and the order of all that is told about this partition. `isr` is empty and `leader_epoch` 0
    as long as the partition never had a leader.
    """

    topic_id: UUID
    partition: int
    assigned: tuple[int, ...]
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    version: int

    # gc=False, here and below: numbers and ids make no cycles, and a collection need not walk through them.

    @property
    def key(self) -> tuple[UUID, int]:
        return self.topic_id, self.partition


class AlikePartitions(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Partitions of one topic whose rows differ in nothing but number and version.

    The death of a broker changes ten thousand rows to a few outcomes: what is alike is said, stored and
    journalled once.
    """

    topic_id: UUID
    assigned: tuple[int, ...]
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    partitions: tuple[int, ...]

    def row(self, partition: int, version: int) -> PartitionRow:
        """The row of one of them."""
        return PartitionRow(
            self.topic_id, partition, self.assigned, self.leader, self.leader_epoch, self.isr, version
        )

    def rows(self, version: int) -> list[PartitionRow]:
        """The row of each, all of one version."""
        return [self.row(partition, version) for partition in self.partitions]


class TopicRow(msgspec.Struct, frozen=True):
    """One topic; `configs` holds what was set for it, by Kafka's names and as text."""

    topic_id: UUID
    name: str
    partition_count: int
    replication_factor: int
    configs: dict[str, str] = {}


class BrokerRow(msgspec.Struct, frozen=True):
    """One registered broker; `endpoints` maps a listener (`client`, `replication`) to host:port."""

    broker_id: int
    broker_epoch: int
    incarnation: str
    endpoints: dict[str, str]
    rack: str = ""
    live: bool = True


class NodeRow(msgspec.Struct, frozen=True):
    """One live node and its websocket address."""

    name: str
    address: str


# ---------------------------------------------------------------------------------- from the broker


class BrokerHello(msgspec.Struct, frozen=True, tag="BrokerHello", tag_field="type", kw_only=True):
    """First frame of a link. The secret travels in the Authorization header, never in a frame.

    `incarnation` is made anew by each broker process. `lost_tail` is true when the log may have lost its
    tail: another boot id without a clean-shutdown mark, or a new or empty folder (replication.md section 1).
    `metadata_version` is what this process has applied, 0 before its first snapshot; `broker_epoch` is the
    one this process was given, 0 before.
    """

    broker_id: int
    incarnation: str
    endpoints: dict[str, str]
    rack: str = ""
    cluster_id: str = ""
    broker_epoch: int = 0
    lost_tail: bool = False
    metadata_version: int = 0
    highest_leader_epoch: int = 0
    highest_broker_epoch: int = 0


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


class AllocateProducerIds(
    msgspec.Struct, frozen=True, tag="AllocateProducerIds", tag_field="type", kw_only=True
):
    """The broker has used up its block of producer ids."""

    correlation_id: int


FromBroker = BrokerHello | BrokerPing | AlterPartition | CreateTopics | AllocateProducerIds


# ---------------------------------------------------------------------------------- to the broker


class HelloAccepted(msgspec.Struct, frozen=True, tag="HelloAccepted", tag_field="type", kw_only=True):
    """The link is bound; a snapshot follows. A ping is due at least each third of the session timeout."""

    cluster_id: str
    broker_epoch: int
    session_timeout_ms: int


class HelloRefused(msgspec.Struct, frozen=True, tag="HelloRefused", tag_field="type", kw_only=True):
    """The link is not bound and is closed. NOT_CONTROLLER names the node that is, "" if nobody knows."""

    error: ErrorCode
    text: str = ""
    controller_address: str = ""


class SnapshotChunk(msgspec.Struct, frozen=True, tag="SnapshotChunk", tag_field="type", kw_only=True):
    """Part `number` (from 0) of everything that is true at `metadata_version`.

    Brokers and topics come in the first chunk, at most MAX_ROWS_PER_FRAME partitions in each. What the
    chunks up to the `last` one do not name is gone.
    """

    metadata_version: int
    number: int
    last: bool
    brokers: tuple[BrokerRow, ...] = ()
    topics: tuple[TopicRow, ...] = ()
    partitions: tuple[PartitionRow, ...] = ()


class Changes(msgspec.Struct, frozen=True, tag="Changes", tag_field="type", kw_only=True):
    """All that one controller turn changed, for one broker.

    `leader_and_isr` and `stop_replica` (002 C) concern replicas of this broker, `partitions` are rows that
    it needs only for its answers to clients. `stop_replica` names rows that no longer assign this broker.
    The version of each row is `metadata_version`. The turn is applied when the frame with `complete` was.
    """

    metadata_version: int
    controller_epoch: int = 0
    complete: bool = True
    leader_and_isr: tuple[AlikePartitions, ...] = ()
    stop_replica: tuple[AlikePartitions, ...] = ()
    partitions: tuple[AlikePartitions, ...] = ()
    brokers: tuple[BrokerRow, ...] = ()
    topics: tuple[TopicRow, ...] = ()


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
    """The ping's number, and the live nodes, whole: latest wins. A broker looks for its controller there."""

    number: int
    nodes: tuple[NodeRow, ...] = ()


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


class ProducerIds(msgspec.Struct, frozen=True, tag="ProducerIds", tag_field="type", kw_only=True):
    """A block of producer ids that nobody else was given: `first` to `first + count − 1`."""

    correlation_id: int
    first: int
    count: int


class NotController(msgspec.Struct, frozen=True, tag="NotController", tag_field="type", kw_only=True):
    """Last frame of a link whose node gives the controller's lease up; the next address, "" if unknown."""

    controller_address: str = ""


ToBroker = (
    HelloAccepted
    | HelloRefused
    | SnapshotChunk
    | Changes
    | AlterPartitionAnswer
    | BrokerPingAnswer
    | CreateTopicsAnswer
    | ProducerIds
    | NotController
)


class MalformedFrame(ValueError):
    """The peer broke the language of the link; the door closes the connection."""

    def __init__(self, error: ErrorCode, text: str) -> None:
        super().__init__(text)
        self.error = error


_encoder = msgspec.json.Encoder()
_from_broker: msgspec.json.Decoder[FromBroker] = msgspec.json.Decoder(FromBroker)
_to_broker: msgspec.json.Decoder[ToBroker] = msgspec.json.Decoder(ToBroker)


def encode(frame: FromBroker | ToBroker) -> bytes:
    """One JSON text frame."""
    return _encoder.encode(frame)


def decode_from_broker(data: bytes | str) -> FromBroker:
    """Read what a broker sent; raises MalformedFrame, also for more than MAX_FRAME_FROM_BROKER_BYTES."""
    return _decode(_from_broker, data, MAX_FRAME_FROM_BROKER_BYTES)


def decode_to_broker(data: bytes | str) -> ToBroker:
    """Read what the controller's node sent; raises MalformedFrame, also for oversize frames."""
    return _decode(_to_broker, data, MAX_FRAME_TO_BROKER_BYTES)


def _decode(decoder: "msgspec.json.Decoder[Frame]", data: bytes | str, limit_bytes: int) -> Frame:
    if len(data) > limit_bytes:
        raise MalformedFrame(ErrorCode.FRAME_TOO_LARGE, f"{len(data)} bytes are more than {limit_bytes}")
    try:
        return decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as reason:
        raise MalformedFrame(ErrorCode.MALFORMED_FRAME, str(reason)) from reason
