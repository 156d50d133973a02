"""This room holds what only a group's owner remembers, beside the group's rows; it is lost at each load.

Mappings in a state are replaced, never written in place: a state that was handed out stays as it was. What
changes at every ping is a Struct: to replace a field of a frozen dataclass costs thirty times as much.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from msgspec import Struct
from msgspec import field as made_by

from coordinator.core.events import ConnectionId, ItemFinished, Waiter
from groups.core.state import GroupRows, Key
from muster.kernel.instants import Instant
from muster.messages.partitions import Partition

START = Instant(0)


class Session(Struct, frozen=True, gc=False):
    """What the owner remembers of one member: its connection, its clocks, its silence (section 5).

    `ping_number` is the last one sent on this connection. `missed_stops` and `missed_starts` count the
    commands that stayed unanswered since one of their kind was answered: whoever answers StartFetcher and
    never StopFetcher would otherwise fail every rebalance for ever. `armed_at` is the earliest instant for
    which the timers hold an entry of this member. `subscribed_at` is the group's version since which it
    subscribes to what it does.
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
    subscribed_at: int = 0


class Attempt(Struct, frozen=True):
    """An open rebalance attempt: whom it concerns, who has not answered, what its close will write.

    `members` are those of the handler's snapshot that were there at the opening; `losers` were told
    to stop. `lost` and `gained` are the difference between the rows and the target, `standbys` what those
    stand by for in the target who stand by for something else in the rows.
    """

    key: Key
    members: frozenset[str]
    losers: frozenset[str]
    waiting: frozenset[str]
    lost: Mapping[str, frozenset[Partition]]
    gained: Mapping[str, frozenset[Partition]]
    standbys: Mapping[str, frozenset[Partition]] = {}

    def concerns(self, member_id: str) -> bool:
        return member_id in self.members or member_id in self.losers


NEVER_SEEN: Final = 1 << 62
"""No version of a group's rows tells a handler of it."""


class Memory(Struct, frozen=True):
    """What is lost at each load.

    `timers` is a heap of (instant, member id); an entry counts only if the member's session says
    that it is armed for this instant. `wanted` is the cause of the rebalance that is due, empty if none
    is, and not acted on before `wanted_from`; a handler that read the group at `wanted_at` or later has done
    what is wanted. `failures` counts attempts that failed since the last that closed. `assigned` counts the
    ownership rows that are not yet running. `members_changed_at` is the group's version since which nobody
    came, went or subscribed to something else. `nobody_goes_on`: since the last member went a generation was
    skipped, so that whoever was away begins at what is committed.
    """

    sessions: Mapping[str, Session] = {}
    bound: Mapping[ConnectionId, str] = {}
    dirty: Mapping[Partition, int] = {}
    timers: tuple[tuple[Instant, str], ...] = ()
    attempt: Attempt | None = None
    finished: ItemFinished | None = None
    wanted: str = ""
    wanted_from: Instant = START
    wanted_at: int = 0
    failures: int = 0
    assigned: int = 0
    members_changed_at: int = 0
    nobody_goes_on: bool = False


class Parked(Struct, frozen=True, gc=False):
    """A Join or a Sync whose answer is held back."""

    connection: ConnectionId
    waiter: Waiter


class ClassicSession(Struct, frozen=True, gc=False):
    """The clock of one classic member, or of an id that was given and has not joined yet (conformance 37).

    `armed_at` is the instant for which the timers hold an entry; None: none will fire until an answer goes
    out. `fresh`: its first Join is parked, and ends with this session (conformance 100).
    """

    ends_at: Instant
    armed_at: Instant | None = None
    fresh: bool = False


@dataclass(frozen=True, slots=True)
class JoinPhase:
    """What ends a PreparingRebalance by time, if not all have joined before.

    `remaining_ms` is None in a rebalance. In the initial delay of a group that was Empty it is how much
    longer the delay may become; `added`: somebody came since it was set last (conformance 94, 95).
    """

    ends_at: Instant
    remaining_ms: int | None = None
    added: bool = False


@dataclass(frozen=True, slots=True)
class ClassicMemory:
    """What is lost at each load of a classic group.

    `joins` and `syncs` are the parked requests by member id: a member has joined if its Join is parked.
    `pending` are ids that were given and are no members yet; they have a session, too. `owing` has not sent
    its Sync since the last join phase. `supported` counts the members that know a protocol, `instances`
    names static members by their instance, `metadata_bytes` is what all members state of themselves together.
    `timers` is a heap of (instant, member id); an entry counts only if the session says that it is armed for
    this instant.

    `heard_at` is the one mapping that is written in place, beside the lane, and only ever later: when a
    member's heartbeat or commit was heard. Its session ends a session timeout after that, and not before
    `ends_at`.
    """

    sessions: Mapping[str, ClassicSession] = field(default_factory=dict)
    pending: Mapping[str, None] = field(default_factory=dict)
    joins: Mapping[str, Parked] = field(default_factory=dict)
    syncs: Mapping[str, Parked] = field(default_factory=dict)
    owing: Mapping[str, None] = field(default_factory=dict)
    join_phase: JoinPhase | None = None
    sync_ends_at: Instant | None = None
    supported: Mapping[str, int] = field(default_factory=dict)
    instances: Mapping[str, str] = field(default_factory=dict)
    metadata_bytes: int = 0
    timers: tuple[tuple[Instant, str], ...] = ()
    heard_at: dict[str, Instant] = field(default_factory=dict)


class GroupState(Struct, frozen=True):
    """One group, as its owner knows it: `memory` in the native world, `classic` in the classic one.

    `quarantine_ends`: when the names that the rows say are quarantined may come again.
    """

    rows: GroupRows
    memory: Memory = made_by(default_factory=Memory)
    classic: ClassicMemory = made_by(default_factory=ClassicMemory)
    quarantine_ends: Mapping[str, Instant] = {}


def take_over_what_was_heard(before: ClassicMemory, after: ClassicMemory) -> None:
    """Members were heard while the turn was written; it may have sorted out those that are gone."""
    if after.heard_at is not before.heard_at:
        for member_id, at in before.heard_at.items():
            if member_id in after.sessions and at > after.heard_at.get(member_id, START):
                after.heard_at[member_id] = at
