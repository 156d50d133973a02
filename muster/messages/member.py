"""This room holds what consumer and coordinator say to each other over the websocket (000 chapters 7 and 11).

Field names are the seed's, plus `correlation_id`, `client_id`, `generation` and `version`. A key is
the pair (generation, version) of the turn that decided a frame; its response repeats it. Partitions
travel by topic, as short arrays, so that a frame stays small when somebody owns thousands of them.
Limits on lengths are part of the types: the codec refuses what exceeds them before anybody acts on it.
"""

from typing import Annotated, Literal
from uuid import UUID

from msgspec import Meta, Struct

from muster.kernel.security_protocols import PLAINTEXT

# No NUL, nothing longer than its column: a turn that could not be written would cost a whole group its cache.
_NO_NUL = r"\A[^\x00]*\Z"
Identifier = Annotated[str, Meta(min_length=1, max_length=249, pattern=_NO_NUL)]
Known = Annotated[str, Meta(min_length=1, max_length=249)]
"""A name that is only compared with what was stored under `Identifier`: its pattern was half of a decode."""
ClientId = Annotated[str, Meta(max_length=249, pattern=_NO_NUL)]
Text = Annotated[str, Meta(max_length=1024, pattern=_NO_NUL)]
Address = Annotated[str, Meta(max_length=512)]
Token = Annotated[str, Meta(min_length=32, max_length=128)]
Number = Annotated[int, Meta(ge=0, le=2**53 - 1)]
Offset = Annotated[int, Meta(ge=-1, le=2**63 - 1)]
PartitionNumber = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Code = Annotated[int, Meta(ge=-(2**15), le=2**15 - 1)]
"""What a member states, and nobody acts on: a number of any length would be kept without being counted."""
PATTERN_LENGTH_MAX = 256
TOPICS_MAX = 1_000
"""In a subscription; a pattern may match any number."""
OWNED_TOPICS_MAX = 100_000
PARTITIONS_OF_A_TOPIC_MAX = 100_000


class Frame(Struct, frozen=True, kw_only=True, tag_field="type", omit_defaults=True):
    """Anything that travels; the tag `type` says which message it is."""


class TopicCount(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """One subscribed topic, or an RE2 pattern over names, and how many streams read it (000 topic_count)."""

    topic: Identifier
    threads: Annotated[int, Meta(ge=1, le=1_000)] = 1
    is_pattern: bool = False


class PartitionOffset(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A position: the next offset to consume, and the generation under which this partition is fetched.

    `offset` is −1 when there is none: nothing is known yet, or auto_commit is off and the
    entry only says that the partition is being fetched.
    """

    partition: PartitionNumber
    offset: Offset
    generation: Number


class TopicOffsets(Struct, frozen=True, forbid_unknown_fields=True):
    """The offset_info of the seed, for the partitions of one topic."""

    topic: Known
    topic_id: UUID
    partitions: Annotated[tuple[PartitionOffset, ...], Meta(max_length=PARTITIONS_OF_A_TOPIC_MAX)]


class TopicPartitions(Struct, frozen=True, forbid_unknown_fields=True):
    """Some partitions of one topic."""

    topic: Identifier
    topic_id: UUID
    partitions: Annotated[tuple[PartitionNumber, ...], Meta(max_length=PARTITIONS_OF_A_TOPIC_MAX)]


class AssignedPartition(Struct, frozen=True, array_like=True):
    """One owned partition and where to start: the committed offset, or −1 when there is none."""

    partition: PartitionNumber
    offset: Offset


class AssignedTopic(Struct, frozen=True):
    """The owned partitions of one topic (000 partition_struct)."""

    topic: Identifier
    topic_id: UUID
    partitions: tuple[AssignedPartition, ...]


class ThreadOwnership(Struct, frozen=True):
    """What one stream of the consumer owns (000 ownership_struct)."""

    consumer_thread_id: str
    assigned_parts: tuple[AssignedTopic, ...]


class NodeInfo(Struct, frozen=True):
    """A node: where members connect."""

    id: int
    address: Address


class BrokerInfo(Struct, frozen=True, omit_defaults=True):
    """A broker: where records are fetched (000 broker_struct), and how: `kernel.security_protocols`."""

    id: int
    host: Address
    port: int
    security: str = PLAINTEXT


TopicCounts = Annotated[tuple[TopicCount, ...], Meta(min_length=1, max_length=TOPICS_MAX)]
OffsetInfo = Annotated[tuple[TopicOffsets, ...], Meta(max_length=OWNED_TOPICS_MAX)]
AutoOffsetReset = Literal["earliest", "latest", "none"]


class ClusterMetadataRequest(
    Frame, frozen=True, kw_only=True, tag="ClusterMetadata", forbid_unknown_fields=True
):
    """Ask any node where the group's coordinator is."""

    correlation_id: Number
    group_id: Identifier
    client_id: ClientId = ""


class ClusterMetadataResponse(Frame, frozen=True, kw_only=True, tag="ClusterMetadataResponse"):
    """`coordinator_address` is empty, with COORDINATOR_NOT_AVAILABLE, while nobody owns the group's shard."""

    correlation_id: Number
    error_code: int = 0
    coordinator_id: int = -1
    coordinator_address: Address = ""
    nodes: tuple[NodeInfo, ...] = ()
    brokers_info: tuple[BrokerInfo, ...] = ()


class RegisterConsumerRequest(
    Frame, frozen=True, kw_only=True, tag="RegisterConsumer", forbid_unknown_fields=True
):
    """Join a group, or come back to it: the same consumer id and token are the same member.

    `token` is the member's own secret, 32 random bytes as text; the coordinator keeps its SHA-256.
    `generation` is the highest the member has seen, 0 at first. `rack` is where the member runs, as brokers
    name their racks. `stands_by`: it may be told of partitions that it does not own, to read them along.
    """

    correlation_id: Number
    group_id: Identifier
    consumer_id: Identifier
    token: Token
    topic_count: TopicCounts
    session_timeout_ms: Annotated[int, Meta(ge=0, le=2**31 - 1)]
    auto_commit: bool = True
    auto_offset_reset: AutoOffsetReset = "latest"
    ephemeral: bool = False
    generation: Number = 0
    client_id: ClientId = ""
    rack: ClientId = ""
    stands_by: bool = False


class RegisterConsumerResponse(Frame, frozen=True, kw_only=True, tag="RegisterConsumerResponse"):
    """`known`: the member was in the group already and its fetchers may run on. On error nothing else counts.

    With NOT_COORDINATOR, `coordinator_address` names the owner where it is known.
    """

    correlation_id: Number
    error_code: int = 0
    error_text: Text = ""
    known: bool = False
    generation: int = 0
    version: int = 0
    coordinator_address: Address = ""


class PingRequest(Frame, frozen=True, kw_only=True, tag="Ping"):
    """Ping `number` + 1 proves to the member that its answer to `number` was received."""

    consumer_id: Identifier
    number: Number
    num_retries: Number = 0
    generation: Number = 0
    nodes: tuple[NodeInfo, ...] = ()


class PingResponse(Frame, frozen=True, kw_only=True, tag="PingResponse", forbid_unknown_fields=True):
    """Everything that is being fetched; offsets are −1 with auto_commit off.

    `generation` is the highest the member has seen; each entry states its own. `standby_info` is what it
    stands by for.
    """

    consumer_id: Known
    number: Number
    generation: Number = 0
    error_code: Code = 0
    offset_info: OffsetInfo = ()
    standby_info: Annotated[tuple[TopicPartitions, ...], Meta(max_length=OWNED_TOPICS_MAX)] = ()


class StopFetcherRequest(Frame, frozen=True, kw_only=True, tag="StopFetcher"):
    """End these fetchers, wait until they have ended, then answer with the same key."""

    consumer_id: Identifier
    generation: Number
    version: Number
    partitions: tuple[TopicPartitions, ...]


class StopFetcherResponse(
    Frame, frozen=True, kw_only=True, tag="StopFetcherResponse", forbid_unknown_fields=True
):
    """The fetchers have ended; their positions."""

    consumer_id: Known
    generation: Number
    version: Number
    error_code: Code = 0
    offset_info: OffsetInfo = ()


class StartFetcherRequest(Frame, frozen=True, kw_only=True, tag="StartFetcher"):
    """The member's whole ownership: stop what is not named, start what is missing, leave the rest alone.

    `standby_info` is, whole as well, what the member stands by for, and what is committed there: it may read
    these, and commits nothing of them.
    """

    consumer_id: Identifier
    generation: Number
    version: Number
    num_threads: int = 0
    ownership_info: tuple[ThreadOwnership, ...] = ()
    standby_info: tuple[AssignedTopic, ...] = ()
    nodes: tuple[NodeInfo, ...] = ()
    brokers_info: tuple[BrokerInfo, ...] = ()


class StartFetcherResponse(
    Frame, frozen=True, kw_only=True, tag="StartFetcherResponse", forbid_unknown_fields=True
):
    """Obeyed, also when nothing changed."""

    consumer_id: Known
    generation: Number
    version: Number
    error_code: Code = 0


class CommitOffsetsRequest(Frame, frozen=True, kw_only=True, tag="CommitOffsets", forbid_unknown_fields=True):
    """Each offset states the generation under which it was fetched, never the newest."""

    correlation_id: Number
    consumer_id: Known
    offset_info: OffsetInfo
    client_id: ClientId = ""


class PartitionError(Struct, frozen=True, array_like=True):
    """Why one offset was refused."""

    partition: PartitionNumber
    error_code: int


class TopicErrors(Struct, frozen=True):
    """The refused offsets of one topic."""

    topic: Identifier
    topic_id: UUID
    partitions: tuple[PartitionError, ...]


class CommitOffsetsResponse(Frame, frozen=True, kw_only=True, tag="CommitOffsetsResponse"):
    """Sent after COMMIT. `error_code` is for the whole request; `refused` names single offsets."""

    correlation_id: Number
    error_code: int = 0
    refused: tuple[TopicErrors, ...] = ()


class LeaveRequest(Frame, frozen=True, kw_only=True, tag="Leave", forbid_unknown_fields=True):
    """The member has ended its fetchers and goes; `reason` is empty when the application closed it."""

    correlation_id: Number
    consumer_id: Identifier
    reason: Annotated[str, Meta(max_length=249, pattern=_NO_NUL)] = ""


class LeaveResponse(Frame, frozen=True, kw_only=True, tag="LeaveResponse"):
    """The member is gone; its partitions go to others."""

    correlation_id: Number
    error_code: int = 0


FromMember = (
    ClusterMetadataRequest
    | RegisterConsumerRequest
    | PingResponse
    | StopFetcherResponse
    | StartFetcherResponse
    | CommitOffsetsRequest
    | LeaveRequest
)
ToMember = (
    ClusterMetadataResponse
    | RegisterConsumerResponse
    | PingRequest
    | StopFetcherRequest
    | StartFetcherRequest
    | CommitOffsetsResponse
    | LeaveResponse
)
