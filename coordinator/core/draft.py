"""This room holds a group while one turn changes it, and makes the turn's Decision of it at the end.

Commands are collected by member and worded at the end, from the rows as they then are: whoever is
told twice in a turn hears its ownership once, whole, with the turn's key.
"""

import heapq
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from zlib import crc32

from msgspec.structs import replace

from coordinator.core.events import ConnectionId, DeletionAnswer, HangUp, ItemFinished, Say, Saying
from coordinator.core.memory import NEVER_SEEN, START, Attempt, GroupState, Memory, Session
from coordinator.core.offsets import refusal
from coordinator.core.settings import GroupSettings, Surroundings
from groups.core import records
from groups.core.layered import Layered
from groups.core.phases import phase_of
from groups.core.records import GroupRecord
from groups.core.rows import RowsBuilder
from groups.core.state import Key, Member
from muster.kernel.decision import Decision
from muster.kernel.error_codes import ErrorCode
from muster.kernel.instants import Instant, after
from muster.kernel.invariants import InvariantViolation
from muster.messages.member import (
    OffsetInfo,
    PingRequest,
    ToMember,
)
from muster.messages.partitions import Partition, Position, each_position, positions_by_topic

PINGED_TOGETHER_MAX = 100
"""Members of one group that may be pinged in the same instant because they came together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDecision(Decision[GroupRecord, Saying]):
    """A Decision and the state after it; without records nothing is written, only memory changed."""

    state: GroupState


@dataclass(frozen=True, slots=True)
class Welcome:
    """An accepted Register; its answer is written when the turn's key is known."""

    connection: ConnectionId
    correlation_id: int
    known: bool


class Draft:
    """One group during one turn; rows change by `record`, memory by the methods below."""

    def __init__(
        self, state: GroupState, now: Instant, settings: GroupSettings, surroundings: Surroundings
    ) -> None:
        memory = state.memory
        self.now = now
        self.settings = settings
        self.surroundings = surroundings
        self.before = state
        self.rows = RowsBuilder(state.rows)
        self.records: list[GroupRecord] = []
        self.attempt: Attempt | None = memory.attempt
        self.waiting: set[str] = set(memory.attempt.waiting) if memory.attempt else set()
        self.finished: ItemFinished | None = memory.finished
        self.wanted = memory.wanted
        self.wanted_from = memory.wanted_from
        self.wanted_at = memory.wanted_at
        self.failures = memory.failures
        self.members_changed_at = memory.members_changed_at
        self.nobody_goes_on = memory.nobody_goes_on
        self.sessions: Mapping[str, Session] = memory.sessions
        self.bound: Mapping[ConnectionId, str] = memory.bound
        self.dirty: Mapping[Partition, int] = memory.dirty
        self.timers: list[tuple[Instant, str]] | None = None
        self.starts: dict[str, None] = {}
        self.stops: Mapping[str, Iterable[Partition]] = {}
        self.pings: list[tuple[ConnectionId, PingRequest]] = []
        self.hang_ups: list[HangUp] = []
        self.answers: list[Say | Welcome] = []
        self.over = False
        self.quarantine_ends: Mapping[str, Instant] = state.quarantine_ends
        self._my_sessions: Layered[str, Session] | None = None
        self._my_bound: Layered[ConnectionId, str] | None = None
        self._my_dirty: Layered[Partition, int] | None = None

    # -- rows -------------------------------------------------------------------------------

    def record(self, record: GroupRecord) -> None:
        """Something becomes true."""
        if self._changes_members(record):
            # What a handler read before this turn is not what it would read after it.
            self.members_changed_at = version = self.key_of_turn.version
            if isinstance(record, records.MemberChanged):
                session = self.sessions[record.member_id]
                self._write_sessions()[record.member_id] = replace(session, subscribed_at=version)
        self.rows.apply(record)
        self.records.append(record)

    def _changes_members(self, record: GroupRecord) -> bool:
        if isinstance(record, records.MemberChanged):
            return record.topic_count != self.rows.members[record.member_id].topic_count
        return isinstance(record, records.MemberAdded | records.MemberRemoved)

    @property
    def open_attempt(self) -> Attempt:
        """The open attempt; there must be one."""
        if self.attempt is None:
            raise InvariantViolation("no attempt is open")
        return self.attempt

    @property
    def key_of_turn(self) -> Key:
        """Generation and version as they are after this turn, if it writes anything more at all."""
        return Key(self.rows.generation, self.rows.before.version + 1)

    def want(self, cause: str, *, not_before: Instant = START, in_rows: bool = False) -> None:
        """A rebalance is due; the first cause is kept, and the earlier of two instants.

        `in_rows`: this turn writes the cause into the group's rows, so whoever reads them later has seen it.
        """
        seen_at = self.key_of_turn.version if in_rows else NEVER_SEEN
        self.wanted_at = max(self.wanted_at, seen_at) if self.wanted else seen_at
        self.wanted_from = min(self.wanted_from, not_before) if self.wanted else not_before
        self.wanted = self.wanted or cause

    def flush(self) -> None:
        """What is dirty becomes durable with the rows of this turn."""
        if self.dirty:
            positions = {partition: Position(offset, 0) for partition, offset in self.dirty.items()}
            self.record(records.OffsetsFlushed(positions_by_topic(positions)))
            self.dirty = self._my_dirty = Layered({})

    def forget_dirty(self, partitions: Iterable[Partition]) -> None:
        """What is known of these in memory only shall not become durable any more."""
        stale = [partition for partition in partitions if partition in self.dirty]
        if stale and self._my_dirty is None:
            self.dirty = self._my_dirty = Layered.fork(self.dirty)
        for partition in stale:
            del self._my_dirty[partition]  # type: ignore[union-attr]

    def let_nobody_go_on(self) -> None:
        """Committed offsets were changed from outside: whoever was away begins at them.

        It would take up where it was, and commit over them, if at most one generation was opened meanwhile:
        the one that gave its partitions back (native-protocol.md section 3). So that there are two, one is
        skipped. Members that are there notice nothing of it.
        """
        self.record(records.GenerationSkipped(self.rows.generation + 1))
        self.nobody_goes_on = True

    def owners(self) -> Mapping[str, Collection[str]]:
        """Who owns anything of a topic, subscribed or not: until it gave it up it commits there."""
        owners: dict[str, set[str]] = {}
        for member_id, tenures in self.rows.owned.items():
            for partition in tenures:
                owners.setdefault(partition.topic, set()).add(member_id)
        return owners

    def end(self) -> None:
        """The group, which has no members, shall not outlive this turn."""
        self.over = True

    def note_offsets(self, member_id: str, offset_info: OffsetInfo) -> None:
        """Positions that came with a ping answer or a Stop response become dirty; last received wins."""
        tenures = self.rows.owned_by(member_id)
        generation = self.rows.generation
        for partition, position in each_position(offset_info):
            if position.offset < 0:
                continue
            if refusal(tenures.get(partition), position, generation) is ErrorCode.NONE:
                if self._my_dirty is None:
                    self.dirty = self._my_dirty = Layered.fork(self.dirty)
                self._my_dirty[partition] = position.offset

    # -- memory -----------------------------------------------------------------------------

    def set_session(self, member_id: str, session: Session) -> None:
        """Replace what is remembered of a member, and see to it that its next instant is not missed."""
        due = next_instant(session)
        if session.armed_at is None or due < session.armed_at:
            heapq.heappush(self._write_timers(), (due, member_id))
            session = replace(session, armed_at=due)
        self._write_sessions()[member_id] = session

    def pop_due(self) -> str | None:
        """A member with something due at `now`; None when there is no more."""
        while True:
            timers = self.before.memory.timers if self.timers is None else self.timers
            if not timers or timers[0][0] > self.now:
                return None
            due, member_id = heapq.heappop(self._write_timers())
            session = self.sessions.get(member_id)
            if session is not None and session.armed_at == due:
                self._write_sessions()[member_id] = replace(session, armed_at=None)
                return member_id

    def bind(self, connection: ConnectionId, member_id: str) -> None:
        """From now on the member speaks on this connection."""
        self._write_bound()[connection] = member_id

    def unbind(self, connection: ConnectionId) -> None:
        """What is still heard on this connection counts no more."""
        self._write_bound().pop(connection, None)

    def forget(self, member_id: str) -> None:
        """The member is gone."""
        self._write_sessions().pop(member_id, None)

    # -- sayings ----------------------------------------------------------------------------

    def answer(self, connection: ConnectionId, message: ToMember | DeletionAnswer) -> None:
        """Answer a request."""
        self.answers.append(Say(connection, message))

    def welcome(self, connection: ConnectionId, correlation_id: int, *, known: bool) -> None:
        """Answer a Register that was accepted."""
        self.answers.append(Welcome(connection, correlation_id, known))

    def tell_ownership(self, member_id: str) -> None:
        """Send the member its whole ownership, as it is at the end of the turn."""
        self.starts[member_id] = None

    def hang_up(self, connection: ConnectionId, error_code: ErrorCode, text: str) -> None:
        """Close a connection at the end of the turn."""
        self.hang_ups.append(HangUp(connection, error_code, text))

    # -- the end ----------------------------------------------------------------------------

    def finish(self, word: "Wording") -> GroupDecision:
        """Everything that was decided; `word` says it, with the key of the turn in every frame."""
        memory = self.before.memory
        assigned = memory.assigned + self.rows.assigned_change
        phase = phase_of(
            members=len(self.rows.members), attempt_open=self.attempt is not None, assigned=assigned
        )
        if phase is not self.rows.phase:
            self.record(records.PhaseEntered(phase))
        if (self.rows.ephemeral or self.over) and not self.rows.members:
            self.record(records.GroupDeleted())
        rows = self.rows.freeze() if self.records else self.before.rows
        if self.attempt is not None and len(self.waiting) != len(self.attempt.waiting):
            self.attempt = replace(self.attempt, waiting=frozenset(self.waiting))
        timers = memory.timers if self.timers is None else tuple(self.timers)
        state = GroupState(
            rows,
            Memory(
                sessions=self.sessions,
                bound=self.bound,
                dirty=self.dirty if rows.members else {},
                timers=timers,
                attempt=self.attempt,
                finished=self.finished,
                wanted=self.wanted,
                wanted_from=self.wanted_from,
                wanted_at=self.wanted_at,
                failures=self.failures,
                assigned=assigned,
                members_changed_at=self.members_changed_at,
                nobody_goes_on=self.nobody_goes_on and not rows.members,
            ),
            self.before.classic,
            self.quarantine_ends,
        )
        replies, commands = word(self, state)
        return GroupDecision(
            records=tuple(self.records),
            replies=replies,
            commands=commands,
            look_again_at=look_again_at(state),
            state=state,
        )

    def _write_sessions(self) -> Layered[str, Session]:
        if self._my_sessions is None:
            self.sessions = self._my_sessions = Layered.fork(self.sessions)
        return self._my_sessions

    def _write_bound(self) -> Layered[ConnectionId, str]:
        if self._my_bound is None:
            self.bound = self._my_bound = Layered.fork(self.bound)
        return self._my_bound

    def _write_timers(self) -> list[tuple[Instant, str]]:
        if self.timers is None:
            self.timers = list(self.before.memory.timers)
        return self.timers


Wording = Callable[[Draft, GroupState], tuple[tuple[Saying, ...], tuple[Saying, ...]]]
"""Makes the frames of a turn, its answers and its commands, from the state after it."""


def look_again_at(state: GroupState) -> Instant | None:
    """The earliest instant at which something may be due without anybody saying anything."""
    memory, classic = state.memory, state.classic
    instants = [timers[0][0] for timers in (memory.timers, classic.timers) if timers]
    if classic.join_phase is not None:
        instants.append(classic.join_phase.ends_at)
    if classic.sync_ends_at is not None:
        instants.append(classic.sync_ends_at)
    may_ask = memory.attempt is None and not state.rows.handler_asked
    if memory.wanted and may_ask and state.rows.members:
        instants.append(memory.wanted_from)
    instants += state.quarantine_ends.values()
    return min(instants, default=None)


def first_slot(member: Member, members: int, now: Instant) -> Instant:
    """When a member that registered is pinged first, a third of its session later at most.

    Members that came together would be pinged together for ever: where there are many, names set them apart.
    """
    third = third_of(member)
    if members <= PINGED_TOGETHER_MAX:
        return after(now, third)
    return after(now, third - crc32(member.member_id.encode()) % (third // 2 + 1))


def third_of(member: Member) -> int:
    """A third of the member's session, the distance of two pings, in milliseconds."""
    return max(1, member.session_timeout_ms // 3)


def session_length_ms(member: Member, settings: GroupSettings) -> int:
    """How long after its last answer a member's session ends here (section 5).

    The member's own deadline is S; here 1 % is added for clock rates, and each allowed retry adds ⅔ S.
    """
    session = member.session_timeout_ms
    return session + session // 100 + 1 + settings.ping_max_retries * (2 * session // 3)


def next_instant(session: Session) -> Instant:
    """When something of this member is due by the clock alone."""
    due = session.ends_at
    for instant in (session.slot_at, session.stop_due_at, session.repair_due_at):
        if instant is not None and instant < due:
            due = instant
    return due
