"""This room holds what can happen to a group, and what a decision says to its members.

A connection is named by an opaque string that the door made; it never repeats. A native member's own
message is the event, wrapped only to say on which connection it came. A Kafka client's request is an event
that names who waits for its answer; versions of its wire are the door's.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, NewType
from uuid import UUID

from msgspec import Struct

from coordinator.core.proposal import Proposal
from groups.core.requests import GroupRequest
from muster.kernel.error_codes import ErrorCode
from muster.kernel.scopes import Scope
from muster.messages.member import (
    LeaveRequest,
    PingResponse,
    RegisterConsumerRequest,
    StartFetcherResponse,
    StopFetcherResponse,
    ToMember,
)
from muster.messages.partitions import Partition

ConnectionId = NewType("ConnectionId", str)
if TYPE_CHECKING:
    Waiter = NewType("Waiter", int)
    """One answer that somebody waits for; unique in the node, and answered once."""
else:
    # One is named for each request, of which thousands come together: as `Instant`.
    Waiter = int


class Heard(Struct, frozen=True):
    """A member's frame. `client_host` is the peer's address, for people."""

    connection: ConnectionId
    message: (
        RegisterConsumerRequest | PingResponse | StopFetcherResponse | StartFetcherResponse | LeaveRequest
    )
    client_host: str = ""


@dataclass(frozen=True, slots=True)
class ConnectionClosed:
    """The socket is gone; nothing more will be heard on it."""

    connection: ConnectionId


@dataclass(frozen=True, slots=True)
class ItemFinished:
    """A rebalance handler finished its work item; also those that a load finds finished."""

    item_id: str
    proposal: Proposal


@dataclass(frozen=True, slots=True)
class ItemFailed:
    """A rebalance handler broke; another one is asked after the backoff."""

    item_id: str
    text: str


@dataclass(frozen=True, slots=True)
class TopicsChanged:
    """Topics or partitions that the group may be interested in came, grew or went (000 chapter 6)."""


@dataclass(frozen=True, slots=True)
class TokenNarrowed:
    """The token on a native member's connection is good for these topics only, by now."""

    connection: ConnectionId
    topics: Scope


@dataclass(frozen=True, slots=True)
class TopicsDeleted:
    """These topics are no more; whatever bears their names later has other ids (conformance 136)."""

    topic_ids: frozenset[UUID]


@dataclass(frozen=True, slots=True)
class PartitionsRemoved:
    """These are no more, or others came under their numbers: positions that nobody committed are of no use.

    What is committed may already be of those that came: rows alone can tell (OffsetsOrphaned).
    """

    partitions: frozenset[tuple[UUID, int]]


@dataclass(frozen=True, slots=True)
class OffsetsOrphaned:
    """Offsets that were read, of partitions that were removed since they were committed.

    What was committed since they were read is not among them, even if it is the same number.
    """

    offsets: tuple[tuple[Partition, int], ...]


class AgedOffset(NamedTuple):
    """A committed offset as a sweep read it. `stamp_passed` is None unless its commit named its own end."""

    partition: Partition
    offset: int
    age_ms: int
    stamp_passed: bool | None = None


@dataclass(frozen=True, slots=True)
class Swept:
    """The sweep read how old a group's offsets are, and for how long it has been without members.

    `version` is the group's as it was read with them; by another one this says nothing.
    """

    version: int
    retention_ms: int
    empty_ms: int
    offsets: tuple[AgedOffset, ...] = ()


class Join(Struct, frozen=True, kw_only=True, gc=False):
    """JoinGroup. `fresh_member_id` is a new id, for whoever states none or comes back as a static member.

    `must_know_id`: a member without an id is given one and must join again with it (version 4 and newer).
    `answers_skip`: it can be told that a leader need not assign (version 9). Durations in milliseconds.
    """

    connection: ConnectionId
    waiter: Waiter
    fresh_member_id: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    member_id: str = ""
    group_instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    protocol_type: str = ""
    protocols: tuple[tuple[str, bytes], ...] = ()
    must_know_id: bool = False
    answers_skip: bool = False
    reason: str = ""


class Sync(Struct, frozen=True, kw_only=True, gc=False):
    """SyncGroup. `protocol_type` and `protocol_name` are None where the request's version has none."""

    connection: ConnectionId
    waiter: Waiter
    member_id: str
    generation: int
    group_instance_id: str | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: Mapping[str, bytes] = {}


@dataclass(frozen=True, slots=True)
class Leaver:
    """One entry of a LeaveGroup."""

    member_id: str
    group_instance_id: str | None = None
    reason: str = ""


class Leave(Struct, frozen=True, kw_only=True):
    """LeaveGroup, of one member or of several."""

    connection: ConnectionId
    waiter: Waiter
    members: tuple[Leaver, ...]


@dataclass(frozen=True, slots=True)
class OutsideOffsets:
    """Somebody who is no member has offsets for a group without members, which must be made ready for them.

    One that does not exist begins (conformance 110); of a native one nobody goes on where it was before.
    """


@dataclass(frozen=True, slots=True)
class OffsetsTakenBack:
    """A Kafka client committed a negative offset for these: nothing is committed for them from now on.

    It counts if whoever asked may commit still when the turn is decided (conformance 104 to 110, 114).
    """

    partitions: tuple[Partition, ...]
    member_id: str
    group_instance_id: str | None
    generation: int


@dataclass(frozen=True, slots=True)
class GroupDeletion:
    """A tool asks that the group be deleted with all that it committed (conformance 138, 139)."""

    connection: ConnectionId
    waiter: Waiter


@dataclass(frozen=True, slots=True)
class OffsetDeletion:
    """A tool asks that what the group committed for these partitions be deleted (conformance 126 to 129)."""

    connection: ConnectionId
    waiter: Waiter
    partitions: tuple[Partition, ...]


ClassicRequest = Join | Sync | Leave
ToolRequest = GroupDeletion | OffsetDeletion
GroupEvent = (
    Heard
    | ConnectionClosed
    | ItemFinished
    | ItemFailed
    | TopicsChanged
    | TokenNarrowed
    | TopicsDeleted
    | PartitionsRemoved
    | OffsetsOrphaned
    | Swept
    | ClassicRequest
    | ToolRequest
    | GroupRequest
    | OutsideOffsets
    | OffsetsTakenBack
)


class JoinedMember(NamedTuple):
    """A member as the leader hears of it, with its metadata for the chosen protocol."""

    member_id: str
    group_instance_id: str | None
    metadata: bytes


class JoinAnswer(Struct, frozen=True, gc=False):
    """Answers a Join; `members` are the leader's to assign to. An error has generation −1 and no leader."""

    waiter: Waiter
    error: ErrorCode = ErrorCode.NONE
    member_id: str = ""
    generation: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    members: tuple[JoinedMember, ...] = ()
    skip_assignment: bool = False


class SyncAnswer(Struct, frozen=True, gc=False):
    """Answers a Sync with the member's assignment."""

    waiter: Waiter
    error: ErrorCode = ErrorCode.NONE
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


class Departure(NamedTuple):
    """What became of one entry of a Leave."""

    member_id: str
    group_instance_id: str | None
    error: ErrorCode


@dataclass(frozen=True, slots=True)
class LeaveAnswer:
    """Answers a Leave: one departure for each entry, in the order of the request."""

    waiter: Waiter
    error: ErrorCode = ErrorCode.NONE
    members: tuple[Departure, ...] = ()


@dataclass(frozen=True, slots=True)
class DeletionAnswer:
    """Answers a tool's request; `refused` are the partitions whose offsets stay."""

    waiter: Waiter
    error: ErrorCode = ErrorCode.NONE
    refused: Mapping[Partition, ErrorCode] = field(default_factory=dict)


ClassicAnswer = JoinAnswer | SyncAnswer | LeaveAnswer | DeletionAnswer


class Say(Struct, frozen=True, gc=False):
    """Send this message on this connection; an answer names its waiter."""

    connection: ConnectionId
    message: ToMember | ClassicAnswer


@dataclass(frozen=True, slots=True)
class SayLater:
    """The same, worded when it is said: of thousands in one turn each is made in its own slice.

    `word` is pure and holds the state after the turn, which nothing changes: it words the same at any time.
    """

    connection: ConnectionId
    word: Callable[[], ToMember]

    @property
    def message(self) -> ToMember:
        return self.word()


@dataclass(frozen=True, slots=True)
class HangUp:
    """Close this connection; `text` may be shown to the peer."""

    connection: ConnectionId
    error_code: ErrorCode
    text: str


Saying = Say | SayLater | HangUp
