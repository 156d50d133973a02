"""This room is a classic group under test: short words for requests, rows folded from records beside it."""

from collections.abc import Mapping
from itertools import count
from typing import Any

from coordinator.core.classic.liveness import heartbeat
from coordinator.core.decide import decide, load
from coordinator.core.draft import GroupDecision
from coordinator.core.events import (
    ClassicAnswer,
    ConnectionId,
    GroupEvent,
    Join,
    JoinAnswer,
    Leave,
    LeaveAnswer,
    Leaver,
    Say,
    Sync,
    SyncAnswer,
    Waiter,
)
from coordinator.core.memory import GroupState
from coordinator.core.settings import GroupSettings, Surroundings
from groups.core.classic import ClassicRows, told_generation
from groups.core.phases import Phase
from groups.core.rows import apply
from groups.core.state import GroupRows
from muster.kernel.error_codes import ErrorCode
from muster.kernel.instants import Instant

SESSION_MS = 10_000
REBALANCE_MS = 60_000
DELAY_MS = 3_000
AT_ONCE = GroupSettings(group_initial_rebalance_delay_ms=0)


class ClassicGroup:
    """One group; nobody says anything by himself. `AT_ONCE` has no initial delay."""

    def __init__(self, settings: GroupSettings = AT_ONCE, rows: GroupRows | None = None) -> None:
        self.settings = settings
        self.rows = rows or GroupRows("billing")
        self.now = Instant(1_000_000)
        self.answers: dict[int, ClassicAnswer] = {}
        self._waiters = count(1)
        self._fresh = count(1)
        self.asked: set[int] = set()
        self.decision = self._loaded()

    # -- turns ------------------------------------------------------------------------------

    def turn(self, *events: GroupEvent) -> GroupDecision:
        """One turn; what is stored must be what is remembered, and nobody is answered twice."""
        before = self.state
        return self._take(before, decide(before, events, self.now, self.settings, Surroundings()))

    def wait(self, ms: int) -> GroupDecision:
        """Time passes, with a turn whenever one is asked for."""
        end = Instant(self.now + ms)
        while (due := self.decision.look_again_at) is not None and due <= end:
            self.now = max(self.now, due)
            self.turn()
        self.now = end
        return self.decision

    def take_over(self, *, away_ms: int = 0) -> None:
        """Another node loads the group; nobody is answered any more who waited."""
        self.now = Instant(self.now + away_ms)
        self._take(GroupState(self.rows), self._loaded())

    def _loaded(self) -> GroupDecision:
        decision = load(self.rows, self.now, self.settings, Surroundings())
        self.state = decision.state
        return decision

    def _take(self, before: GroupState, decision: GroupDecision) -> GroupDecision:
        if decision.records:
            self.rows = apply(before.rows, decision.records)
            assert self.rows == decision.state.rows
        else:
            assert decision.state.rows is before.rows
        self.decision, self.state = decision, decision.state
        for saying in decision.replies:
            assert isinstance(saying, Say)
            if isinstance(saying.message, JoinAnswer | SyncAnswer | LeaveAnswer):
                assert saying.message.waiter in self.asked, "nobody waits for this"
                assert saying.message.waiter not in self.answers, "answered twice"
                self.answers[saying.message.waiter] = saying.message
        return decision

    # -- requests as events -----------------------------------------------------------------

    def joining(
        self,
        member_id: str = "",
        *,
        instance: str | None = None,
        protocols: Mapping[str, bytes] | None = None,
        client: str | None = None,
        knows_ids: bool = False,
        skips: bool = True,
        kind: str = "consumer",
        session_ms: int = SESSION_MS,
        rebalance_ms: int | None = None,
        reason: str = "",
    ) -> Join:
        """A member joins again with what it stated last, but for what is said here."""
        before = self.rows.classic.members.get(member_id) if self.rows.classic else None
        if protocols is None:
            protocols = dict(before.protocols) if before else {"range": b"v1"}
        if client is None:
            client = before.client_id if before else "app"
        if rebalance_ms is None:
            rebalance_ms = before.rebalance_timeout_ms if before else REBALANCE_MS
        return Join(
            connection=ConnectionId("seat"),
            waiter=self._waiter(),
            fresh_member_id=f"{instance or client}-{next(self._fresh)}",
            member_id=member_id,
            group_instance_id=instance,
            client_id=client,
            protocol_type=kind,
            protocols=tuple(protocols.items()),
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            must_know_id=knows_ids,
            answers_skip=skips,
            reason=reason,
        )

    def syncing(
        self,
        member_id: str,
        assignments: Mapping[str, bytes] | None = None,
        *,
        generation: int | None = None,
        instance: str | None = None,
        kind: str | None = None,
        protocol: str | None = None,
    ) -> Sync:
        return Sync(
            connection=ConnectionId("seat"),
            waiter=self._waiter(),
            member_id=member_id,
            generation=self.told if generation is None else generation,
            group_instance_id=instance,
            protocol_type=kind,
            protocol_name=protocol,
            assignments=assignments or {},
        )

    def leaving(self, *members: Leaver | str) -> Leave:
        leavers = tuple(one if isinstance(one, Leaver) else Leaver(one) for one in members)
        return Leave(connection=ConnectionId("seat"), waiter=self._waiter(), members=leavers)

    def _waiter(self) -> Waiter:
        waiter = Waiter(next(self._waiters))
        self.asked.add(waiter)
        return waiter

    # -- requests, one turn each ------------------------------------------------------------

    def join(self, member_id: str = "", **how: Any) -> JoinAnswer | None:
        """None: the answer is held back, `answer(group.last)` tells it later."""
        event = self.joining(member_id, **how)
        self.last = event
        self.turn(event)
        return self.join_answer(event)

    def sync(
        self, member_id: str, assignments: Mapping[str, bytes] | None = None, **how: Any
    ) -> SyncAnswer | None:
        event = self.syncing(member_id, assignments, **how)
        self.turn(event)
        return self.sync_answer(event)

    def leave(self, *members: Leaver | str) -> list[ErrorCode]:
        event = self.leaving(*members)
        self.turn(event)
        answer = self.answers[event.waiter]
        assert isinstance(answer, LeaveAnswer)
        return [one.error for one in answer.members]

    def beat(self, member_id: str, generation: int | None = None, instance: str | None = None) -> ErrorCode:
        """A heartbeat, which is heard as the shell hears it."""
        stated = self.told if generation is None else generation
        error = heartbeat(self.state, member_id, instance, stated)
        if error in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS):
            self.state.classic.heard_at[member_id] = self.now
        return error

    def join_answer(self, event: Join) -> JoinAnswer | None:
        answer = self.answers.get(event.waiter)
        assert answer is None or isinstance(answer, JoinAnswer)
        return answer

    def sync_answer(self, event: Sync) -> SyncAnswer | None:
        answer = self.answers.get(event.waiter)
        assert answer is None or isinstance(answer, SyncAnswer)
        return answer

    # -- what is -----------------------------------------------------------------------------

    @property
    def told(self) -> int:
        """The generation that its members were told."""
        return told_generation(self.rows.generation)

    @property
    def classic(self) -> ClassicRows:
        assert self.rows.classic is not None
        return self.rows.classic

    def is_in(self, phase: Phase) -> bool:
        return self.rows.phase is phase

    @property
    def members(self) -> list[str]:
        return sorted(self.classic.members)

    @property
    def leader(self) -> str:
        assert self.classic.leader is not None
        return self.classic.leader

    def completed(self, *clients: str, **how: Any) -> list[str]:
        """New members, in CompletingRebalance together with those that were there; their ids."""
        events = [self.joining(client=client, **how) for client in clients]
        old = [self.joining(member_id) for member_id in self.members] if self.rows.classic else []
        self.turn(*events, *old)
        if self.rows.phase == "PreparingRebalance":
            self.wait(self.settings.group_initial_rebalance_delay_ms * 2)
        assert self.rows.phase == "CompletingRebalance"
        answers = [self.join_answer(event) for event in events]
        return [answer.member_id for answer in answers if answer is not None]

    def stable(self, *clients: str, **how: Any) -> list[str]:
        """New members in a group that is Stable; each has its own id as its assignment."""
        ids = self.completed(*clients, **how)
        shares = {member_id: member_id.encode() for member_id in self.members}
        followers = [self.syncing(one) for one in self.members if one != self.leader]
        self.turn(*followers, self.syncing(self.leader, shares))
        assert self.rows.phase == "Stable"
        return ids
