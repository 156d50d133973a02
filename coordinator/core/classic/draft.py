"""This room holds a classic group while one turn changes it, and makes the turn's Decision of it."""

import heapq
from collections.abc import Iterable, Mapping

from msgspec import structs

from coordinator.core.classic import restated
from coordinator.core.draft import GroupDecision, look_again_at
from coordinator.core.events import ClassicAnswer, ConnectionId, JoinAnswer, Say, SyncAnswer
from coordinator.core.memory import ClassicMemory, ClassicSession, GroupState, Parked
from coordinator.core.settings import GroupSettings
from groups.core import records
from groups.core.classic import CLASSIC, ClassicMember
from groups.core.layered import Layered
from groups.core.phases import Phase
from groups.core.rows import RowsBuilder
from muster.kernel.error_codes import ErrorCode
from muster.kernel.instants import Instant, after

STALE_HEARD_MAX = 64
"""Entries of `heard_at` beyond twice the members, of members that are gone, before they are dropped."""


class ClassicDraft:
    """One classic group during one turn; rows and memory change by the methods below.

    `session_ended`: the session of a member, or of an id that had not joined, ended in this turn.
    `over`: the group does not outlive it.
    """

    def __init__(self, state: GroupState, now: Instant, settings: GroupSettings) -> None:
        memory = state.classic
        self.now = now
        self.settings = settings
        self.before = state
        self.rows = RowsBuilder(state.rows)
        self.records: list[records.GroupRecord] = []
        self.replies: list[Say] = []
        self.sessions: Layered[str, ClassicSession] = Layered.fork(memory.sessions)
        self.pending: Layered[str, None] = Layered.fork(memory.pending)
        self.joins: Layered[str, Parked] = Layered.fork(memory.joins)
        self.syncs: Layered[str, Parked] = Layered.fork(memory.syncs)
        self.owing: Layered[str, None] = Layered.fork(memory.owing)
        self.supported = dict(memory.supported)
        self.metadata_bytes = memory.metadata_bytes
        self.instances: Layered[str, str] = Layered.fork(memory.instances)
        self.join_phase = memory.join_phase
        self.sync_ends_at = memory.sync_ends_at
        self.session_ended = False
        self.over = False
        self.quarantine_ends: Mapping[str, Instant] = state.quarantine_ends
        self._timers: list[tuple[Instant, str]] | None = None

    # -- rows -------------------------------------------------------------------------------

    @property
    def phase(self) -> Phase:
        return self.rows.phase

    def record(self, record: records.GroupRecord) -> None:
        """Something becomes true."""
        self.rows.apply(record)
        self.records.append(record)

    def enter(self, phase: Phase, cause: str = "") -> None:
        """The group enters another phase."""
        self.record(records.PhaseEntered(phase, cause))

    def enter_world(self) -> None:
        """The group is a classic one from now on, if it was not."""
        if self.rows.protocol != CLASSIC:
            self.record(records.ProtocolEntered(CLASSIC))
            if self.rows.before.version:
                # Nothing may happen here that raises it, and offsets change: who was away must notice.
                self.record(records.GenerationSkipped(self.rows.generation + 1))
            if self.rows.error:
                self.record(records.ErrorShown(""))

    def member(self, member_id: str) -> ClassicMember:
        """A member, which must be one."""
        return self.rows.classic.members[member_id]

    def add(self, member: ClassicMember) -> None:
        """Somebody becomes a member; its session is the caller's to start."""
        self.record(records.ClassicMemberAdded(member))
        self._count(member, 1)

    def change(self, member: ClassicMember, reason: str) -> str:
        """A member states this now, in its own words why. Returns in ours what is new; nothing is written if
        nothing is.
        """
        before = self.member(member.member_id)
        if member == _stated(before):
            return ""
        # By cooperative assignors each member joins with something else in each rebalance.
        what = restated.words(before, member, briefly=self.phase is Phase.PREPARING_REBALANCE)
        self._count(before, -1)
        self.record(records.ClassicMemberChanged(member, reason, what))
        self._count(member, 1)
        return what

    def replace_instance(self, old_member_id: str, member: ClassicMember) -> None:
        """A static member has another id from now on; who waits under the old one is fenced."""
        self._count(self.member(old_member_id), -1)
        self._forget(old_member_id, ErrorCode.FENCED_INSTANCE_ID)
        self.record(records.InstanceReplaced(old_member_id, member))
        self._count(member, 1)

    def remove(self, member_id: str, why: str, error: ErrorCode = ErrorCode.UNKNOWN_MEMBER_ID) -> None:
        """A member is none any more; `error` is what it hears if it waits for an answer."""
        self._count(self.member(member_id), -1)
        self._forget(member_id, error)
        self.record(records.MemberRemoved(member_id, why))

    def _count(self, member: ClassicMember, by: int) -> None:
        self.metadata_bytes += by * member.metadata_bytes
        for name in {name for name, _ in member.protocols}:
            self.supported[name] = self.supported.get(name, 0) + by
            if not self.supported[name]:
                del self.supported[name]
        if member.group_instance_id is not None:
            if by > 0:
                self.instances[member.group_instance_id] = member.member_id
            else:
                del self.instances[member.group_instance_id]

    def _forget(self, member_id: str, error: ErrorCode) -> None:
        if (parked := self.joins.pop(member_id, None)) is not None:
            stated = member_id if error is ErrorCode.FENCED_INSTANCE_ID else ""
            self.say(parked.connection, JoinAnswer(parked.waiter, error, stated))
        if (parked := self.syncs.pop(member_id, None)) is not None:
            self.say(parked.connection, SyncAnswer(parked.waiter, error))
        self.owing.pop(member_id, None)
        self.sessions.pop(member_id, None)

    # -- clocks -----------------------------------------------------------------------------

    def set_session(self, member_id: str, duration_ms: int, *, fresh: bool = False) -> None:
        """The session of a member, or of an id that has not joined yet, starts now."""
        ends_at = after(self.now, duration_ms)
        before = self.sessions.get(member_id)
        armed_at = None if before is None else before.armed_at
        if armed_at is None or ends_at < armed_at:
            heapq.heappush(self._write_timers(), (ends_at, member_id))
            armed_at = ends_at
        self.sessions[member_id] = ClassicSession(ends_at, armed_at, fresh)

    def restart(self, member_ids: Iterable[str], extra_ms: int = 0) -> None:
        """The sessions of these members start anew, `extra_ms` longer; none of them is new any more.

        As `set_session` of each: at the end of a rebalance it is everybody's.
        """
        members, sessions = self.rows.classic.members, self.sessions
        begins_at = after(self.now, extra_ms)
        anew: dict[str, ClassicSession] = {}
        for member_id in member_ids:
            ends_at = after(begins_at, members[member_id].session_timeout_ms)
            before = sessions.get(member_id)
            armed_at = None if before is None else before.armed_at
            if armed_at is None or ends_at < armed_at:
                heapq.heappush(self._write_timers(), (ends_at, member_id))
                armed_at = ends_at
            anew[member_id] = ClassicSession(ends_at, armed_at)
        sessions.take_over(anew)

    def arm(self, member_id: str, at: Instant | None) -> None:
        """Look after this session at `at`; None: not before an answer goes out to its member."""
        if at is not None:
            heapq.heappush(self._write_timers(), (at, member_id))
        self.sessions[member_id] = structs.replace(self.sessions[member_id], armed_at=at)

    def pop_due(self) -> str | None:
        """Whose session is to be looked at by `now`; None when there is no more."""
        while True:
            timers = self.before.classic.timers if self._timers is None else self._timers
            if not timers or timers[0][0] > self.now:
                return None
            due, member_id = heapq.heappop(self._write_timers())
            session = self.sessions.get(member_id)
            if session is not None and session.armed_at == due:
                return member_id

    def longest_rebalance_ms(self) -> int:
        """The longest rebalance timeout of the members; 0 if there is none."""
        return max((one.rebalance_timeout_ms for one in self.rows.classic.members.values()), default=0)

    # -- answers, and the end ---------------------------------------------------------------

    def end(self) -> None:
        """The group, which has no members, shall not outlive this turn."""
        self.over = True

    def say(self, connection: ConnectionId, answer: ClassicAnswer) -> None:
        """Answer who waits."""
        self.replies.append(Say(connection, answer))

    def finish(self) -> GroupDecision:
        """Everything that was decided."""
        memory = self.before.classic
        members = self.rows.classic.members
        if self.over and not members:
            self.record(records.GroupDeleted())
        heard_at = memory.heard_at
        if len(heard_at) > 2 * len(members) + STALE_HEARD_MAX:
            heard_at = {member_id: at for member_id, at in heard_at.items() if member_id in members}
        state = GroupState(
            self.rows.freeze() if self.records else self.before.rows,
            self.before.memory,
            ClassicMemory(
                sessions=self.sessions,
                pending=self.pending,
                joins=self.joins,
                syncs=self.syncs,
                owing=self.owing,
                join_phase=self.join_phase,
                sync_ends_at=self.sync_ends_at,
                supported=self.supported,
                instances=self.instances,
                metadata_bytes=self.metadata_bytes,
                timers=self._timers_after(),
                heard_at=heard_at,
            ),
            self.quarantine_ends,
        )
        return GroupDecision(
            records=tuple(self.records),
            replies=tuple(self.replies),
            look_again_at=None if self.over else look_again_at(state),
            state=state,
        )

    def _timers_after(self) -> tuple[tuple[Instant, str], ...]:
        if next(iter(self.sessions), None) is None:
            return ()
        return self.before.classic.timers if self._timers is None else tuple(self._timers)

    def _write_timers(self) -> list[tuple[Instant, str]]:
        if self._timers is None:
            self._timers = list(self.before.classic.timers)
        return self._timers


def _stated(member: ClassicMember) -> ClassicMember:
    """The member as records name it: without its assignment."""
    return structs.replace(member, assignment=b"") if member.assignment else member
