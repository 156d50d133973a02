"""This room holds what is known of one group: its durable rows, and what only its owner remembers.

Rows change by `apply` alone, for live handling and for loading alike; memory is lost at each load.
Mappings in a state are replaced, never written in place: a state that was handed out stays as it was.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from coordinator.core.events import ConnectionId, ItemFinished
from coordinator.core.phases import Phase
from muster.kernel.instants import Instant
from muster.messages.member import TopicCount
from muster.messages.partitions import Partition

START = Instant(0)


class Key(NamedTuple):
    """What orders frames: generation and version of the turn that decided them."""

    generation: int
    version: int


class Tenure(NamedTuple):
    """One ownership row: since which generation, and whether its owner was heard to fetch."""

    since_generation: int
    running: bool


@dataclass(frozen=True, slots=True)
class Member:
    """One member row."""

    member_id: str
    token_hash: str
    topic_count: tuple[TopicCount, ...]
    session_timeout_ms: int
    auto_commit: bool = True
    auto_offset_reset: str = "latest"
    client_id: str = ""
    client_host: str = ""

    @property
    def topics(self) -> frozenset[str]:
        """The topics it names; patterns are not among them."""
        return frozenset(entry.topic for entry in self.topic_count if not entry.is_pattern)


Owned = Mapping[str, Mapping[Partition, Tenure]]


@dataclass(frozen=True, slots=True)
class GroupRows:
    """The durable truth about one group. A group that does not exist has version 0 and no member.

    `owned` has an entry only for members that own something. `handler_asked`: a work item of this
    group was offered and not yet adopted.
    """

    group_id: str
    generation: int = 0
    version: int = 0
    phase: Phase = Phase.EMPTY
    error: str = ""
    ephemeral: bool = False
    rebalance_mode: str = "incremental"
    assignor: str = "sticky"
    handler_asked: bool = False
    members: Mapping[str, Member] = field(default_factory=dict)
    owned: Owned = field(default_factory=dict)
    offsets: Mapping[Partition, int] = field(default_factory=dict)

    @property
    def key(self) -> Key:
        return Key(self.generation, self.version)


@dataclass(frozen=True, slots=True)
class Session:
    """What the owner remembers of one member: its connection, its clocks, its silence (section 5).

    `ping_number` is the last one sent on this connection. `missed_stops` and `missed_starts` count the
    commands that stayed unanswered since one of their kind was answered: whoever answers StartFetcher and
    never StopFetcher would otherwise fail every rebalance for ever. `armed_at` is the earliest instant for
    which the timers hold an entry of this member.
    """

    ends_at: Instant
    connection: ConnectionId | None = None
    slot_at: Instant | None = None
    ping_number: int = 0
    ping_unanswered: bool = False
    ping_retries: int = 0
    ping_sent_at: Instant = START
    stop_due_at: Instant | None = None
    repair_due_at: Instant | None = None
    missed_stops: int = 0
    missed_starts: int = 0
    expelled: bool = False
    armed_at: Instant | None = None


@dataclass(frozen=True, slots=True)
class Attempt:
    """An open rebalance attempt: whom it concerns, who has not answered, what its close will write.

    `members` are those of the handler's snapshot that were there at the opening; `losers` were told
    to stop. `lost` and `gained` are the difference between the rows and the target.
    """

    key: Key
    members: frozenset[str]
    losers: frozenset[str]
    waiting: frozenset[str]
    lost: Mapping[str, frozenset[Partition]]
    gained: Mapping[str, frozenset[Partition]]

    def concerns(self, member_id: str) -> bool:
        return member_id in self.members or member_id in self.losers


@dataclass(frozen=True, slots=True)
class Memory:
    """What is lost at each load.

    `timers` is a heap of (instant, member id); an entry counts only if the member's session says
    that it is armed for this instant. `wanted` is the cause of the rebalance that is due, empty if none
    is, and not acted on before `wanted_from`. `failures` counts attempts that failed since the last that
    closed. `assigned` counts the ownership rows that are not yet running.
    """

    sessions: Mapping[str, Session] = field(default_factory=dict)
    bound: Mapping[ConnectionId, str] = field(default_factory=dict)
    dirty: Mapping[Partition, int] = field(default_factory=dict)
    timers: tuple[tuple[Instant, str], ...] = ()
    attempt: Attempt | None = None
    finished: ItemFinished | None = None
    wanted: str = ""
    wanted_from: Instant = START
    failures: int = 0
    assigned: int = 0


@dataclass(frozen=True, slots=True)
class GroupState:
    """One group, as its owner knows it."""

    rows: GroupRows
    memory: Memory = field(default_factory=Memory)
