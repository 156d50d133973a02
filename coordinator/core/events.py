"""This room holds what can happen to a group, and what a decision says to its members.

A connection is named by an opaque string that the door made; it never repeats. A member's own
message is the event, wrapped only to say on which connection it came.
"""

from dataclasses import dataclass
from typing import NewType

from coordinator.core.proposal import Proposal
from muster.kernel.error_codes import ErrorCode
from muster.messages.member import (
    LeaveRequest,
    PingResponse,
    RegisterConsumerRequest,
    StartFetcherResponse,
    StopFetcherResponse,
    ToMember,
)

ConnectionId = NewType("ConnectionId", str)


@dataclass(frozen=True, slots=True)
class Heard:
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
class Resumed:
    """The owner's time goes on after it stood still for so long: pings that were due meanwhile are due now.

    Members' own clocks went on, so their sessions there need an answer soon; nothing here has expired.
    """

    by_ms: int


GroupEvent = Heard | ConnectionClosed | ItemFinished | ItemFailed | TopicsChanged | Resumed


@dataclass(frozen=True, slots=True)
class Say:
    """Send this message on this connection."""

    connection: ConnectionId
    message: ToMember


@dataclass(frozen=True, slots=True)
class HangUp:
    """Close this connection; `text` may be shown to the peer."""

    connection: ConnectionId
    error_code: ErrorCode
    text: str


Saying = Say | HangUp
