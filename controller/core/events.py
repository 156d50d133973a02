"""This room lists what a controller can be told, and the two ways in which it speaks.

A link is an opaque id that the door gives to each websocket of a broker and never gives again; the seat of
a request stands in its place where somebody asked by a row of the database.
"""

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import TypeAlias
from uuid import UUID

from controller.core.proposing import LeaderProposal, Task
from muster.kernel.instants import Instant
from muster.kernel.topology import Unread
from muster.messages.link.from_broker import BrokerHello, FromBroker
from muster.messages.link.to_broker import ReassignmentResult, ToBroker

LinkId: TypeAlias = Hashable


@dataclass(frozen=True, slots=True)
class RequestSeat:
    """A request's place in a turn: what is said to it is written into its row, by the same transaction.

    `id` is the row's. Nobody waits at it: what would be said later is said at once.
    """

    id: str
    principal: str
    reason: str


@dataclass(frozen=True, slots=True)
class TookOver:
    """First event of a new owner of the lease; the sessions of live brokers begin in full."""

    controller_epoch: int


@dataclass(frozen=True, slots=True)
class Hello:
    """A broker whose secret was checked opened a link."""

    link: LinkId
    frame: BrokerHello


@dataclass(frozen=True, slots=True)
class Heard:
    """Any later frame of a link but a ping, which takes no turn, or a wish that has a seat.

    `fresh` is an id that nobody else has. `unread`: what groups have not read of partitions that are to be
    removed, as it was found before the turn; None: nobody has looked. `begun`: what became of the first
    places of a request for reassignments in the turns of an owner before this one. `until`: the broker that
    forwarded a wish has told whoever asked by then that nobody answers; None: whoever asked waits.
    """

    link: LinkId
    frame: FromBroker
    fresh: UUID
    unread: tuple[Unread, ...] | None = None
    begun: tuple[ReassignmentResult, ...] = ()
    until: Instant | None = None


@dataclass(frozen=True, slots=True)
class LinkClosed:
    """A websocket ended, whoever ended it."""

    link: LinkId


@dataclass(frozen=True, slots=True)
class BrokerGone:
    """Nobody listens any more at the address of a broker whose link had closed."""

    broker_id: int
    broker_epoch: int


@dataclass(frozen=True, slots=True)
class ProposalsReady:
    """A worker finished a work item of this controller."""

    item_id: int | str
    task: Task
    key: str
    proposals: tuple[LeaderProposal, ...]


@dataclass(frozen=True, slots=True)
class PlanComputed:
    """A worker computed a plan. `parts` are steps, each a JSON array of PlanStep: a turn reads a few of them.

    `failure` not empty: it could not, and that is why.
    """

    item_id: int | str
    plan_id: UUID
    parts: tuple[str, ...] = ()
    cost: dict[str, object] = field(default_factory=dict)
    failure: str = ""


@dataclass(frozen=True, slots=True)
class TimePassed:
    """`look_again_at` has come."""


Event: TypeAlias = (
    TookOver | Hello | Heard | LinkClosed | BrokerGone | ProposalsReady | PlanComputed | TimePassed
)


@dataclass(frozen=True, slots=True)
class Say:
    """Send `frame` on `link`; a link that is gone loses it, and that is harmless."""

    link: LinkId
    frame: ToBroker


@dataclass(frozen=True, slots=True)
class HangUp:
    """Close `link` and read nothing more from it."""

    link: LinkId
    reason: str


Saying: TypeAlias = Say | HangUp
