"""The core and a second, plain telling of the protocol answer the same, whatever is asked in what order."""

from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from coordinator.core.decide import load
from coordinator.core.draft import GroupDecision
from coordinator.core.events import (
    GroupEvent,
    Join,
    JoinAnswer,
    Leave,
    LeaveAnswer,
    Leaver,
    Sync,
    SyncAnswer,
)
from coordinator.core.settings import GroupSettings, Surroundings
from groups.core.phases import Phase
from groups.core.records import GenerationOpened, GroupRecord
from groups.core.requests import Asked, GroupRequest, RemoveMember
from groups.core.rows import apply
from groups.core.state import GroupRows
from muster.kernel.error_codes import ErrorCode
from muster.kernel.instants import Instant
from tests.unit.classic_core.group import ClassicGroup
from tests.unit.classic_core.reference import Choice, Reference, Said

CLIENT = "app"
PROTOCOLS = (
    {"range": b"r1"},
    {"range": b"r2"},
    {"range": b"r1", "sticky": b"s1"},
    {"sticky": b"s1", "range": b"r1"},
    {"sticky": b"s2"},
)
INSTANCES = (None, None, None, "pod-0", "pod-1")
SESSIONS_MS = (10_000, 40_000, 100_000)
REBALANCES_MS = (4_000, 9_000, 30_000)
WAITS_MS = (0, 500, 2_999, 3_000, 3_001, 4_000, 9_000, 9_999, 10_000, 45_000, 300_001)


def told(answer: Any) -> Said:
    """An answer as the reference words it."""
    match answer:
        case JoinAnswer(error=ErrorCode.NONE):
            listed = frozenset(tuple(one) for one in answer.members)
            return (
                *(answer.error, answer.member_id, answer.generation, answer.protocol_name),
                *(answer.leader, listed, answer.skip_assignment),
            )
        case JoinAnswer():
            assert (answer.generation, answer.leader, answer.members) == (-1, "", ())
            return answer.error, answer.member_id
        case SyncAnswer():
            return answer.error, answer.assignment
        case LeaveAnswer():
            return tuple(one.error for one in answer.members)
    raise AssertionError(answer)


class Watched(ClassicGroup):
    """Keeps its journal, and sees to what must hold of every turn."""

    def __init__(self, settings: GroupSettings) -> None:
        self.journal: list[tuple[GroupRecord, ...]] = []
        self.syncs: dict[int, Sync] = {}
        super().__init__(settings)

    def turn(self, *events: GroupEvent) -> GroupDecision:
        before = self.rows
        self.syncs.update((event.waiter, event) for event in events if isinstance(event, Sync))
        decision = super().turn(*events)
        self._written(before, decision)
        for saying in decision.replies:
            message = saying.message  # type: ignore[union-attr]
            if isinstance(message, SyncAnswer) and message.assignment:
                # Whose it is the reference knows: an instance that comes back has another id.
                generation = self.syncs[message.waiter].generation
                assert message.assignment.startswith(share(generation, "")), "of another generation"
        return decision

    def take_over(self, *, away_ms: int = 0) -> None:
        before = self.rows
        super().take_over(away_ms=away_ms)
        self._written(before, self.decision)

    def _written(self, before: GroupRows, decision: GroupDecision) -> None:
        if decision.records:
            self.journal.append(decision.records)
        opened = sum(isinstance(one, GenerationOpened) for one in decision.records)
        assert self.rows.generation == before.generation + opened and self.rows.version >= before.version


def share(generation: int, member_id: str) -> bytes:
    return f"{generation} {member_id}".encode()


class Protocol(RuleBasedStateMachine):
    """Clients of all kinds, strangers and operators, in any order and at any time."""

    group: Watched
    reference: Reference

    @initialize(
        delay=st.sampled_from([0, 3_000]),
        most=st.sampled_from([2, 5, 100]),
        first=st.lists(
            st.tuples(st.sampled_from(INSTANCES), st.sampled_from(PROTOCOLS), st.sampled_from(REBALANCES_MS)),
            max_size=6,
        ),
        stable=st.booleans(),
    )
    def begin(
        self,
        delay: int,
        most: int,
        first: list[tuple[str | None, dict[str, bytes], int]],
        stable: bool,
    ) -> None:
        settings = GroupSettings(group_initial_rebalance_delay_ms=delay, group_max_size=most)
        self.group = Watched(settings)
        self.reference = Reference(settings, self._choice, now=self.group.now)
        self.ids = [""]
        self.abandoned: set[int] = set()
        for instance, protocols, rebalance_ms in first:
            event = self.group.joining(
                instance=instance, protocols=protocols, rebalance_ms=rebalance_ms, session_ms=SESSIONS_MS[-1]
            )
            self.ids.append(event.fresh_member_id)
            self._turn(event)
        if stable:
            self._wait(3_000)
            self.everybody_joins()
            if self.group.is_in(Phase.COMPLETING_REBALANCE):
                self.everybody_syncs()

    def _choice(self) -> Choice:
        classic = self.group.classic
        return classic.protocol_name or "", classic.leader or ""

    def _turn(self, *events: GroupEvent) -> None:
        """The core first: the reference asks what it chose."""
        decision = self.group.turn(*events)
        self.reference.now = self.group.now
        for event in events:
            match event:
                case Join():
                    self.reference.join(event)
                case Sync():
                    self.reference.sync(event)
                case Leave():
                    self.reference.leave(event)
                case GroupRequest(asked=Asked(wish=RemoveMember() as wish)):
                    self.reference.take_out(wish.member, CLIENT, wish.quarantine_ms)
        if not events:
            self.reference.tick(self.group.now)
        self.reference.let_in()
        heard = {saying.message.waiter: told(saying.message) for saying in decision.replies}  # type: ignore[union-attr]
        expected, self.reference.said = dict(self.reference.said), []
        assert heard == expected

    def _wait(self, ms: int) -> None:
        end = Instant(self.group.now + ms)
        while (due := self.group.decision.look_again_at) is not None and due <= end:
            self.group.now = max(self.group.now, due)
            self._turn()
        self.group.now = end
        self._turn()

    @rule(ms=st.sampled_from(WAITS_MS))
    def time_passes(self, ms: int) -> None:
        self._wait(ms)

    @rule(
        place=st.integers(0, 30),
        instance=st.sampled_from(INSTANCES),
        protocols=st.sampled_from(PROTOCOLS),
        kind=st.sampled_from(["consumer"] * 9 + ["connect"]),
        knows=st.booleans(),
        skips=st.booleans(),
        session_ms=st.sampled_from(SESSIONS_MS),
        rebalance_ms=st.sampled_from(REBALANCES_MS),
    )
    def somebody_joins(self, place: int, instance: str | None, knows: bool, skips: bool, **how: Any) -> None:
        event = self.group.joining(
            self.ids[place % len(self.ids)], instance=instance, knows_ids=knows, skips=skips, **how
        )
        self.ids.append(event.fresh_member_id)
        del self.ids[1:-12]
        self._turn(event)

    @precondition(lambda self: self._members())
    @rule(place=st.integers(0, 30), unchanged=st.booleans(), protocols=st.sampled_from(PROTOCOLS))
    def a_member_joins_again(self, place: int, unchanged: bool, protocols: dict[str, bytes]) -> None:
        member_id = self._member(place)
        instance = self.group.classic.members[member_id].group_instance_id
        stated = None if unchanged else protocols
        self._turn(self.group.joining(member_id, instance=instance, protocols=stated))

    @precondition(lambda self: self._members())
    @rule()
    def everybody_joins(self) -> None:
        """The others first, as it happens."""
        for member_id in reversed(self._members()):
            if member_id in self.group.classic.members:
                self._turn(self.group.joining(member_id))

    @precondition(lambda self: self._members())
    @rule(place=st.integers(0, 30), leads=st.booleans())
    def a_member_syncs(self, place: int, leads: bool) -> None:
        member_id = self.group.classic.leader if leads else None
        self._sync(member_id or self._member(place))

    @precondition(lambda self: self.group.is_in(Phase.COMPLETING_REBALANCE))
    @rule()
    def everybody_syncs(self) -> None:
        for member_id in self._members():
            self._sync(member_id)

    def _sync(self, member_id: str, **how: Any) -> None:
        generation = self.group.rows.generation
        shares = {one: share(generation, one) for one in self._members()}
        self._turn(self.group.syncing(member_id, {**shares, "stranger": b"x"}, **how))

    @rule(
        place=st.integers(0, 30),
        generation=st.integers(-1, 3),
        instance=st.sampled_from(INSTANCES),
        kind=st.sampled_from([None, "consumer", "connect"]),
        protocol=st.sampled_from([None, "range", "sticky"]),
    )
    def somebody_syncs(self, place: int, generation: int, **how: Any) -> None:
        known = self.group.rows.generation
        self._sync(self.ids[place % len(self.ids)], generation=known + min(generation, 1), **how)

    @rule(place=st.integers(0, 30), late=st.sampled_from([0, 0, 0, 1]), instance=st.sampled_from(INSTANCES))
    def somebody_lives(self, place: int, late: int, instance: str | None) -> None:
        member_id, generation = self.ids[place % len(self.ids)], self.group.rows.generation - late
        heard = self.group.beat(member_id, generation, instance)
        assert heard == self.reference.beat(member_id, instance, generation)

    @rule()
    def all_live(self) -> None:
        for member_id in self._members():
            generation = self.group.rows.generation
            assert self.group.beat(member_id) == self.reference.beat(member_id, None, generation)

    @rule(
        leavers=st.lists(st.tuples(st.integers(0, 30), st.sampled_from(INSTANCES), st.booleans()), max_size=3)
    )
    def some_leave(self, leavers: list[tuple[int, str | None, bool]]) -> None:
        entries = [
            Leaver("" if unnamed else self.ids[place % len(self.ids)], instance)
            for place, instance, unnamed in leavers
        ]
        self._turn(self.group.leaving(*entries))

    @rule(
        place=st.integers(0, 30),
        stranger=st.sampled_from([None, None, None, "pod-0", CLIENT]),
        quarantine_ms=st.sampled_from([0, 0, 500, 9_000]),
    )
    def an_operator_removes_somebody(self, place: int, stranger: str | None, quarantine_ms: int) -> None:
        name = stranger or self.ids[place % len(self.ids)] or "nobody"
        self._turn(GroupRequest("r", "olga", "it is stuck", Asked(RemoveMember(name, quarantine_ms))))

    @rule(away_ms=st.sampled_from([0, 20_000]))
    def another_node_takes_over(self, away_ms: int) -> None:
        memory = self.group.state.classic
        for parked in (*memory.joins.values(), *memory.syncs.values()):
            self.abandoned.add(parked.waiter)
        self.group.take_over(away_ms=away_ms)
        self.reference.load(self.group.now)

    # -- what must hold ---------------------------------------------------------------------

    def _members(self) -> list[str]:
        return self.group.members if self.group.rows.classic is not None else []

    def _member(self, place: int) -> str:
        return self._members()[place % len(self._members())]

    @invariant()
    def both_know_the_same(self) -> None:
        rows, memory, other = self.group.rows, self.group.state.classic, self.reference
        members = rows.classic.members if rows.classic else {}
        assert (rows.phase, rows.generation, sorted(members)) == (
            *(other.phase, other.generation),
            sorted(other.members),
        )
        assert dict(self.group.state.quarantine_ends) == {
            name: at for name, (at, _) in other.kept_out.items()
        }
        assert rows.quarantined.keys() == other.kept_out.keys()
        assert list(memory.pending) == list(other.pending) or set(memory.pending) == set(other.pending)
        for name, one in other.members.items():
            mine = members[name]
            assert (mine.group_instance_id, mine.protocols) == (one.instance, one.protocols)
            assert (name in memory.joins, name in memory.syncs) == (
                one.join is not None,
                one.sync is not None,
            )
            if rows.phase is Phase.STABLE:
                assert mine.assignment == one.assignment
            if rows.phase in (Phase.STABLE, Phase.COMPLETING_REBALANCE):
                assert (name in memory.owing) == one.owes

    @invariant()
    def memory_fits_the_rows(self) -> None:
        rows, memory = self.group.rows, self.group.state.classic
        members = rows.classic.members if rows.classic else {}
        leader = rows.classic.leader if rows.classic else None
        assert leader is None or leader in members
        if rows.phase in (Phase.STABLE, Phase.COMPLETING_REBALANCE):
            assert leader is not None
        assert set(memory.sessions) == {*members, *memory.pending}
        assert memory.joins.keys() <= members.keys() and memory.syncs.keys() <= members.keys()
        assert not memory.joins or rows.phase is Phase.PREPARING_REBALANCE
        assert not memory.syncs or rows.phase is Phase.COMPLETING_REBALANCE
        assert (memory.join_phase is not None) == (rows.phase is Phase.PREPARING_REBALANCE)
        anew = load(rows, self.group.now, self.group.settings, Surroundings()).state.classic
        assert (dict(memory.supported), dict(memory.instances)) == (
            dict(anew.supported),
            dict(anew.instances),
        )

    @invariant()
    def the_journal_tells_the_rows(self) -> None:
        told_so_far = GroupRows("billing")
        for turn in self.group.journal:
            told_so_far = apply(told_so_far, turn)
        assert told_so_far == self.group.rows

    def teardown(self) -> None:
        if not hasattr(self, "group"):
            return
        self._wait(2_000_000)
        assert self.group.rows.phase is Phase.EMPTY
        unanswered = self.group.asked - self.group.answers.keys() - self.abandoned
        assert not unanswered, f"{unanswered} wait for ever"


Protocol.TestCase.settings = settings(
    max_examples=25,
    stateful_step_count=40,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
TestTheCoreAndTheReferenceAgree = Protocol.TestCase
