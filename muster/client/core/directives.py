"""This room names what a member's session asks of the shell around it; obeyed in their order."""

from collections.abc import Mapping
from dataclasses import dataclass

from muster.kernel.error_codes import ErrorCode
from muster.kernel.instants import Instant
from muster.messages.member import FromMember
from muster.messages.partitions import Partition


@dataclass(frozen=True, slots=True)
class Send:
    """Write this frame to the connection."""

    message: FromMember


@dataclass(frozen=True, slots=True)
class EndFetchers:
    """End these fetchers and wait until they have ended; no record of theirs is handed out any more.

    With `answer` set, call `MemberSession.fetchers_ended(answer, now)` when they have.
    """

    partitions: frozenset[Partition]
    answer: int | None = None


@dataclass(frozen=True, slots=True)
class StartFetchers:
    """Start a fetcher for each partition at its offset; −1: by auto_offset_reset.

    `kept`: nobody else fetched these since this member's fetchers ended by its clock. What the application
    got of them meanwhile needs not come again, and may be committed.
    """

    offsets: Mapping[Partition, int]
    kept: frozenset[Partition] = frozenset()


@dataclass(frozen=True, slots=True)
class StandBy:
    """Stand by for these and no others: read them along, commit nothing. Offsets as in StartFetchers."""

    offsets: Mapping[Partition, int]


@dataclass(frozen=True, slots=True)
class Disconnect:
    """Close the connection and drop its unread frames before anything else is opened."""

    text: str


@dataclass(frozen=True, slots=True)
class Rediscover:
    """Find the coordinator and connect, not before `not_before`; try `address` first where it is named."""

    not_before: Instant
    address: str = ""


@dataclass(frozen=True, slots=True)
class CommitAnswered:
    """The answer to the commit that was given this number."""

    correlation_id: int
    error_code: ErrorCode
    refused: Mapping[Partition, ErrorCode]


@dataclass(frozen=True, slots=True)
class CommitLost:
    """The connection went before these commits were answered: they may have happened or not."""

    correlation_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Refused:
    """The coordinator refuses this consumer for good; nothing more is tried."""

    error_code: ErrorCode
    text: str


@dataclass(frozen=True, slots=True)
class Left:
    """The session has ended as it was asked to.

    `unheard` is why its end, or its last commit, may not have come through; empty if it was answered.
    """

    unheard: str = ""


Directive = (
    Send
    | EndFetchers
    | StartFetchers
    | StandBy
    | Disconnect
    | Rediscover
    | CommitAnswered
    | CommitLost
    | Refused
    | Left
)
