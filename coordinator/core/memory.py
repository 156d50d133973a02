"""This room holds what only a group's owner remembers, beside the group's rows; it is lost at each load.

Mappings in a state are replaced, never written in place: a state that was handed out stays as it was.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from coordinator.core.events import ConnectionId, ItemFinished
from groups.core.state import GroupRows, Key
from muster.kernel.instants import Instant
from muster.messages.partitions import Partition

START = Instant(0)


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
