"""This room holds a classic group while one turn changes it, and makes the turn's Decision of it."""

import heapq

from coordinator.core.draft import GroupDecision, look_again_at
from coordinator.core.events import ClassicAnswer, ConnectionId, Say
from coordinator.core.memory import ClassicMemory, ClassicSession, GroupState, Parked
from coordinator.core.settings import GroupSettings
from groups.core.classic import ClassicMember
from groups.core.layered import Layered
from groups.core.phases import Phase
from groups.core.records import GroupRecord
from groups.core.rows import RowsBuilder
from muster.kernel.instants import Instant, after

STALE_HEARD_MAX = 64
"""Entries of `heard_at` beyond twice the members, of members that are gone, before they are dropped."""


class ClassicDraft:
    """One classic group during one turn; rows change by `record`, memory by the methods below.

    `ended`: the session of a member, or of an id that had not joined, ended in this turn.
    """

    def __init__(self, state: GroupState, now: Instant, settings: GroupSettings) -> None:
        memory = state.classic
        self.now = now
        self.settings = settings
        self.before = state
        self.rows = RowsBuilder(state.rows)
        self.records: list[GroupRecord] = []
        self.replies: list[Say] = []
        self.sessions: Layered[str, ClassicSession] = Layered.fork(memory.sessions)
        self.pending: Layered[str, None] = Layered.fork(memory.pending)
        self.joins: Layered[str, Parked] = Layered.fork(memory.joins)
        self.syncs: Layered[str, Parked] = Layered.fork(memory.syncs)
        self.owing: Layered[str, None] = Layered.fork(memory.owing)
        self.supported = dict(memory.supported)
        self.instances: Layered[str, str] = Layered.fork(memory.instances)
        self.join_phase = memory.join_phase
        self.sync_ends_at = memory.sync_ends_at
        self.ended = False
        self._timers: list[tuple[Instant, str]] | None = None

    # -- rows -------------------------------------------------------------------------------

    @property
    def phase(self) -> Phase:
        return self.rows.phase

    def record(self, record: GroupRecord) -> None:
        """Something becomes true."""
        self.rows.apply(record)
        self.records.append(record)

    def member(self, member_id: str) -> ClassicMember:
        """A member, which must be one."""
        return self.rows.classic.members[member_id]

    # -- memory -----------------------------------------------------------------------------

    def set_session(self, member_id: str, duration_ms: int, *, fresh: bool = False) -> None:
        """The session of a member, or of an id that has not joined yet, starts now."""
        ends_at = after(self.now, duration_ms)
        before = self.sessions.get(member_id)
        armed_at = None if before is None else before.armed_at
        if armed_at is None or ends_at < armed_at:
            heapq.heappush(self._write_timers(), (ends_at, member_id))
            armed_at = ends_at
        self.sessions[member_id] = ClassicSession(ends_at, armed_at, fresh)

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

    # -- the end ----------------------------------------------------------------------------

    def say(self, connection: ConnectionId, answer: ClassicAnswer) -> None:
        """Answer who waits."""
        self.replies.append(Say(connection, answer))

    def finish(self) -> GroupDecision:
        """Everything that was decided."""
        memory = self.before.classic
        members = self.rows.classic.members
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
                timers=memory.timers if self._timers is None else tuple(self._timers),
                heard_at=heard_at,
            ),
        )
        return GroupDecision(
            records=tuple(self.records),
            replies=tuple(self.replies),
            look_again_at=look_again_at(state),
            state=state,
        )

    def _write_timers(self) -> list[tuple[Instant, str]]:
        if self._timers is None:
            self._timers = list(self.before.classic.timers)
        return self._timers
