"""This room watches generations, members and requests for what must never be (S1 to S5, S11 to S15, L4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from coordinator.core.decide import decide
from coordinator.core.draft import GroupDecision
from coordinator.core.events import (
    ClassicRequest,
    GroupEvent,
    Join,
    JoinAnswer,
    LeaveAnswer,
    Say,
    Sync,
    SyncAnswer,
    Waiter,
)
from coordinator.core.memory import ClassicMemory, GroupState
from groups.core import records
from groups.core.classic import ClassicMember
from groups.core.phases import Phase
from groups.core.requests import GroupRequest, Verdict
from groups.core.state import GroupRows
from muster.kernel.error_codes import ErrorCode
from muster.kernel.instants import Instant
from tests.simulation.native.rows import GROUP
from tests.simulation.native.turn_checks import CLOCKS_APART, TurnChecks
from tests.simulation.native.world import SESSION_MS

if TYPE_CHECKING:
    from tests.simulation.classic.client import Client
    from tests.simulation.classic.cluster import Cluster
    from tests.simulation.native.node import Node

LEAVES_A_TRACE = frozenset({ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED, ErrorCode.GROUP_MAX_SIZE_REACHED})
"""A Join that hears one of these may have changed something."""

LIVES = (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS)


class Checks(TurnChecks):
    """What was written of each generation, beside what clients hear of it."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cast(Any, cluster))
        self.kafka = cluster
        self.leaders: dict[int, str] = {}
        self.assigned: dict[int, Mapping[str, bytes]] = {}
        self.replaced: dict[str, str] = {}
        self.loaded_at = 0.0
        self.decided_at: dict[Waiter, float] = {}
        self._silent_ms: dict[tuple[Node, str], float] = {}
        """For how long a member had been silent when a node decided that its session is over."""

    # -- turns that are decided -------------------------------------------------------------

    def decided(self, node: Node, decision: GroupDecision) -> None:
        """Sessions begin when an answer is decided, however long it is under way; so they end, too.

        Of whoever beats while that is being written the rows still say that it lives.
        """
        for one in decision.replies:
            if isinstance(one, Say) and isinstance(one.message, JoinAnswer | SyncAnswer):
                self.decided_at[one.message.waiter] = self.world.now
        for opened in decision.records:
            if isinstance(opened, records.GenerationOpened):
                self._check_size(opened.generation, decision)
        gone = set(map(_expired, decision.records))
        for client in self.kafka.alive():
            if client.member_id in gone:
                self._silent_ms[node, client.member_id] = self._silence_of(client)

    def _check_size(self, generation: int, decision: GroupDecision) -> None:
        """Static members that did not join keep their places beside those who did."""
        joined = sum(
            isinstance(one, Say)
            and isinstance(one.message, JoinAnswer)
            and one.message.error is ErrorCode.NONE
            and one.message.generation == generation
            for one in decision.replies
        )
        self.world.forbid(joined > self.world.settings.group_max_size, "more have joined than may")

    def _silence_of(self, client: Client) -> float:
        return self.world.now - max(client.proved_at, self.loaded_at)

    def left_a_trace(
        self,
        node: Node,
        state: GroupState,
        events: Sequence[GroupEvent],
        now: Instant,
        decision: GroupDecision,
    ) -> None:
        """A turn of nothing but refused requests changes what time alone would have changed (S14)."""
        answers = {
            one.message.waiter: one.message.error
            for one in decision.replies
            if isinstance(one, Say) and isinstance(one.message, JoinAnswer | SyncAnswer)
        }
        done = {
            one.request_id
            for one in decision.records
            if isinstance(one, records.RequestDecided) and one.answer.verdict is Verdict.DONE
        }

        def refused(event: GroupEvent) -> bool:
            if isinstance(event, GroupRequest):
                return event.id not in done
            error = answers.get(event.waiter, ErrorCode.NONE) if isinstance(event, Join | Sync) else None
            return error is not None and error not in LEAVES_A_TRACE

        if not events or not all(map(refused, events)):
            return
        alone = decide(state, (), now, node.world.settings, node.groups._view.surroundings())
        written = tuple(one for one in decision.records if not isinstance(one, records.RequestDecided))
        self.world.forbid(written != alone.records, "a refused request left a trace in the rows")
        self.world.forbid(
            _remembered(decision.state.classic) != _remembered(alone.state.classic),
            "a refused request left a trace in the owner's memory",
        )

    # -- turns that are written -------------------------------------------------------------

    def written(self, flushed: object) -> None:
        """The world tells of offsets, which the ledger looks at."""

    def committed(self, node: Node, turn: Sequence[Any], before: GroupRows, rows: GroupRows) -> None:
        super().committed(node, turn, before, rows)
        generation = before.generation
        for record in turn:
            match record:
                case records.GenerationOpened() | records.GenerationSkipped():
                    generation = record.generation
                case records.ProtocolChosen(leader=leader) if leader and record.protocol_name is not None:
                    self.world.forbid(generation in self.leaders, f"generation {generation} has two leaders")
                    self.leaders[generation] = leader
                case records.ClassicAssigned():
                    self.world.forbid(
                        generation in self.assigned, f"generation {generation} is assigned twice"
                    )
                    self.assigned[generation] = record.assignments
                case records.ClassicMemberAdded() | records.InstanceReplaced():
                    if isinstance(record, records.InstanceReplaced):
                        self.replaced[record.member.member_id] = record.old_member_id
                    self._check_admission(record.member, before)
                case records.MemberRemoved():
                    self._removed(node, record)
                    self._check_missed(record.member_id, before, rows)
        self._check_rows(before, rows)

    def _check_rows(self, before: GroupRows, rows: GroupRows) -> None:
        classic = rows.classic
        if classic is None:
            return
        members = classic.members
        self.world.forbid(classic.leader is not None and classic.leader not in members, "a stranger leads")
        self.world.forbid(rows.phase is Phase.EMPTY and members, "an Empty group has members")
        instances = [one.group_instance_id for one in members.values() if one.group_instance_id is not None]
        self.world.forbid(len(instances) != len(set(instances)), "two members are one instance")

    def _check_missed(self, member_id: str, before: GroupRows, rows: GroupRows) -> None:
        """Native members are missed by a handler, in no phase of its own."""
        was_ours = before.classic is not None and member_id in before.classic.members
        is_shared = rows.phase in (Phase.COMPLETING_REBALANCE, Phase.STABLE)
        stays = was_ours and is_shared and rows.generation == before.generation
        self.world.forbid(stays, f"{member_id} went, and nobody shares anew")

    def _check_admission(self, member: ClassicMember, before: GroupRows) -> None:
        name = member.group_instance_id or member.client_id
        self.world.forbid(name in before.quarantined, f"{name} came in though it is kept out")

    def _removed(self, node: Node, record: records.MemberRemoved) -> None:
        decided = self._silent_ms.pop((node, record.member_id), None)
        for client in self.kafka.alive():
            if client.member_id == _expired(record):
                silent_ms = self._silence_of(client) if decided is None else decided
                self.world.forbid(
                    silent_ms < SESSION_MS * CLOCKS_APART, f"{client.name} expired after {silent_ms:.0f} ms"
                )

    # -- what clients hear ------------------------------------------------------------------

    def answered(self, event: ClassicRequest, message: Any) -> None:
        """An answer leaves a node."""
        self.world.forbid(
            isinstance(message, SyncAnswer) and message.error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
            "a Sync hears of loading, at which Java's consumers fail",
        )
        if isinstance(message, LeaveAnswer) and message.error is ErrorCode.NONE:
            asked = [(one.member_id, one.group_instance_id) for one in cast(Any, event).members]
            told = [(one.member_id, one.group_instance_id) for one in message.members]
            self.world.forbid(asked != told, "who leaves is told of others, or in another order")

    def beaten(self, node: Node, member_id: str, generation: int, error: ErrorCode) -> None:
        """The owner says that a member lives, or is none: so it is stored (S4), also while it loads (L4)."""
        if node is not self.kafka.owner or node.groups.in_turn(GROUP):
            return
        rows = self.world.rows.rows
        members = rows.classic.members if rows.classic else {}
        known = member_id in members
        self.world.forbid(
            known and error is ErrorCode.UNKNOWN_MEMBER_ID, f"{member_id} hears that it is no member"
        )
        if GROUP in node.groups.states and error in LIVES:
            self.world.forbid(
                not known or generation != rows.generation,
                f"{member_id} of generation {generation} hears that it lives",
            )

    def joined(self, client: Client, answer: JoinAnswer) -> None:
        """A client hears of its generation."""
        self.lives(client, self.decided_at[answer.waiter])
        self.world.forbid(
            answer.generation < client.generation, f"{client.name} hears of an older generation"
        )
        leader = self._first_id(answer.leader)
        expected = self._first_id(self.leaders.get(answer.generation, ""))
        self.world.forbid(leader != expected, f"{client.name} hears that {leader} leads, not {expected}")
        if answer.members:
            self.world.forbid(
                self._first_id(answer.member_id) != expected, "members are listed for a follower"
            )

    def synced(self, client: Client, answer: SyncAnswer) -> None:
        """A client hears what it is to read."""
        self.lives(client, self.decided_at[answer.waiter])
        assigned = self.assigned.get(client.generation)
        self.world.forbid(assigned is None, f"{client.name} has an assignment that nobody wrote")
        names = [client.member_id]
        while names[-1] in self.replaced:
            names.append(self.replaced[names[-1]])
        given = next((assigned[name] for name in names if assigned and name in assigned), b"")
        self.world.forbid(answer.assignment != given, f"{client.name} has what another was given")

    def lives(self, client: Client, sent_at: float) -> None:
        """A heartbeat, or a commit, was answered; the coordinator heard it no earlier than it was sent."""
        client.proved_at = max(client.proved_at, sent_at)

    def loaded(self) -> None:
        """A node has read the rows anew: every session is full again (L4)."""
        self.loaded_at = self.world.now

    def _first_id(self, member_id: str) -> str:
        while member_id in self.replaced:
            member_id = self.replaced[member_id]
        return member_id

    # -- what clients do --------------------------------------------------------------------

    def look(self) -> None:
        """No two of a generation read one partition (S1), and nobody reads on who has joined anew (S2)."""
        held: dict[tuple[int, int], Client] = {}
        rows = self.world.rows.rows
        members = rows.classic.members if rows.classic else {}
        for client in self.kafka.alive():
            if not client.shares:
                continue
            self.world.forbid(
                client.instance is None
                and client.generation != rows.generation
                and client.member_id in members
                and rows.phase in (Phase.COMPLETING_REBALANCE, Phase.STABLE),
                f"{client.name} joined generation {rows.generation} and reads on as of {client.generation}",
            )
            for share in client.shares:
                other = held.setdefault((client.generation, share), client)
                self.world.forbid(
                    other is not client
                    and other.member_id != client.member_id
                    and other.instance != client.instance,
                    f"{other.name} and {client.name} of one generation read partition {share}",
                )


def _expired(record: object) -> str | None:
    """The member whose session is over, if that is what is told."""
    if isinstance(record, records.MemberRemoved) and record.why == "session over":
        return record.member_id
    return None


def _remembered(memory: ClassicMemory) -> tuple[Mapping[str, Any], ...]:
    return tuple(map(dict, (memory.pending, memory.joins, memory.syncs, memory.owing, memory.sessions)))
