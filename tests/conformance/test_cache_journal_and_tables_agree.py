"""Whatever happens to a group, its owner's cache, the fold of its journal and a fresh load are equal.

Commits, which take no turn and which no journal tells, and operators' requests are among it.
"""

import random
from collections.abc import Callable, Iterator
from itertools import count
from uuid import UUID

import pytest
from django.core.management import call_command

from coordinator.core import offsets
from coordinator.core.classic.offsets import judge
from coordinator.core.decide import decide, load
from coordinator.core.draft import GroupDecision
from coordinator.core.events import (
    ConnectionId,
    GroupDeletion,
    GroupEvent,
    Heard,
    Join,
    Leave,
    Leaver,
    Swept,
    Sync,
    TopicsDeleted,
    Waiter,
)
from coordinator.core.settings import GroupSettings, Surroundings
from groups.core.consumer_protocol import assignment, subscription
from groups.core.phases import Phase
from groups.core.records import GroupDeleted, RequestDecided
from groups.core.requests import (
    KIND,
    Asked,
    DeleteGroup,
    DeleteOffsets,
    Findings,
    Found,
    GroupRequest,
    LiftQuarantine,
    Rebalance,
    RemoveMember,
    ResetOffsets,
    Scope,
    SetStrategy,
    Verdict,
)
from groups.core.state import OffsetNote
from muster.kernel.instants import Instant
from muster.messages.member import LeaveRequest
from runtime.work_table import WorkRow
from tests.conformance.databases import Breakable
from tests.conformance.stored_groups import Group
from tests.unit.coordinator.shards import MemoryGroups, registering
from tests.unit.coordinator_core.group import orders

SETTINGS = GroupSettings(group_initial_rebalance_delay_ms=0)
SEATS = [ConnectionId(name) for name in ("ann", "ben", "cleo", "dan")]
STEPS = 60


class Walk:
    """One group, of which anything may be asked; its turns are written as they are decided."""

    def __init__(self, group: Group, seed: int) -> None:
        self.group = group
        self.chance = random.Random(seed)
        self.now = Instant(1_000_000)
        self.waiters = count(1)
        self.ids: list[str] = []
        self.worlds: set[str] = set()
        self.phases: set[Phase] = set()
        self.verdicts: set[Verdict] = set()
        self.commits = 0
        self._load()

    def _load(self) -> None:
        self._conclude(load(self.group.rows, self.now, SETTINGS, Surroundings()))

    def step(self) -> None:
        """A turn of a few events; now and then another owner loads the group instead."""
        self.now = Instant(self.now + self.chance.choice((0, 10, 3_000, 70_000)))
        if self.chance.random() < 0.1:
            self._load()
            return
        if self.chance.random() < 0.15:
            self._commit()
            return
        events = [self._event() for _ in range(self.chance.randint(0, 3))]
        self._conclude(decide(self.state, events, self.now, SETTINGS, Surroundings()))

    def _conclude(self, decision: GroupDecision) -> None:
        self.state = decision.state
        if not decision.records:
            return
        rows = self.group.take(*decision.records)
        if isinstance(decision.records[-1], GroupDeleted):
            self.group.rows = self.group.folded = self.group.stored()
            self._load()
            return
        self._compare()
        self.worlds.add(rows.protocol)
        self.phases.add(rows.phase)
        for record in decision.records:
            if isinstance(record, RequestDecided):
                self.verdicts.add(record.answer.verdict)

    def _compare(self) -> None:
        rows = self.state.rows
        assert rows == self.group.rows == self.group.folded
        if rows.version:
            assert self.group.stored() == self.group.stored_in_bulk() == rows

    def _commit(self) -> None:
        """A batch of one commit: what is judged is written, and then remembered."""
        rows = self.state.rows
        if rows.protocol == "native" or not rows.version:
            return
        classic = rows.classic
        member = self.chance.choice(["", "stranger", *(classic.members if classic else ())])
        generation = rows.generation if member else -1
        positions = {
            orders(number): self.chance.randrange(1_000) for number in self.chance.sample(range(6), 2)
        }
        noted = [one for one in positions if self.chance.random() < 0.5]
        notes = {one: OffsetNote(self.chance.randint(0, 9), f"as far as {one}") for one in noted}
        judgement = judge(self.state, member, None, generation, positions, notes)
        if not judgement.accepted:
            return
        self.commits += 1
        self.group.commit(judgement.accepted, judgement.notes)
        self.state = offsets.committed(self.state, judgement.accepted, judgement.notes)
        self._compare()

    def _event(self) -> GroupEvent:
        seat, waiter = self.chance.choice(SEATS), Waiter(next(self.waiters))
        rows = self.state.rows
        members = list(rows.classic.members) if rows.classic else []
        kind = self.chance.choice("jjjjjjsssssslrroadtqqq")
        if kind == "j":
            return self._join(seat, waiter, members)
        if kind == "s":
            leader = rows.classic.leader if rows.classic else None
            asks = self.chance.choice([leader or "nobody", *members])
            shares = {one: assignment({"orders": [place]}) for place, one in enumerate(members)}
            return Sync(
                connection=seat, waiter=waiter, member_id=asks, generation=rows.generation, assignments=shares
            )
        if kind == "l":
            gone = tuple(map(Leaver, self.chance.sample(members, min(len(members), 2))))
            return Leave(connection=seat, waiter=waiter, members=gone)
        if kind == "r":
            return Heard(seat, registering(self.group.name, seat))
        if kind == "o":
            return Heard(seat, LeaveRequest(consumer_id=seat, correlation_id=2))
        if kind == "a":
            return Swept(rows.version, retention_ms=1_000, empty_ms=self.chance.choice((0, 2_000)))
        if kind == "d":
            return GroupDeletion(seat, waiter)
        if kind == "q":
            return self._request(members)
        return TopicsDeleted(frozenset({orders(0).topic_id}))

    def _request(self, members: list[str]) -> GroupRequest:
        """One that is stored, as its door would have."""
        name = str(UUID(int=self.chance.getrandbits(128)))
        self.group.ask(WorkRow(name, KIND, "coordinator/0", self.group.name, None))
        partition = orders(self.chance.randrange(6))
        found = Found(partition.topic, partition.topic_id, partition.number, 0, 5_000)
        wish = self.chance.choice(
            (
                RemoveMember(self.chance.choice([*members, "ann"]), self.chance.choice((0, 2_000, 90_000))),
                LiftQuarantine("ann"),
                Rebalance(),
                SetStrategy("range"),
                DeleteGroup(),
                DeleteOffsets((Scope("orders"),)),
                ResetOffsets("offset", value=77),
            )
        )
        asked = Asked(wish, dry_run=self.chance.random() < 0.2)
        return GroupRequest(name, "olga", "it is stuck", asked, Findings((found,)))

    def _join(self, seat: ConnectionId, waiter: Waiter, members: list[str]) -> Join:
        fresh = f"{seat}-{waiter}"
        known = self.chance.choice(["", *members])
        return Join(
            connection=seat,
            waiter=waiter,
            fresh_member_id=fresh,
            session_timeout_ms=self.chance.choice((6_000, 10_000)),
            rebalance_timeout_ms=20_000,
            member_id=known,
            group_instance_id=None if known else self.chance.choice((None, None, "i-1", "i-2")),
            client_id=seat,
            protocol_type="consumer",
            protocols=tuple((name, subscription(["orders"])) for name in self.chance.sample(["a", "b"], 2)),
        )


@pytest.fixture
def walked(breakable: Breakable, request: pytest.FixtureRequest) -> Iterator[Callable[[int], Walk]]:
    """A walk of its own seed and group, in the database of this test."""
    in_memory = request.node.callspec.params["breakable"] == "memory"
    if not in_memory:
        call_command("initialise_cluster", verbosity=0)
    link = breakable.database.connect("aaaaaaaaaaaaaaaa", "tests")

    def walk(seed: int) -> Walk:
        done = Walk(Group(link, MemoryGroups() if in_memory else None, f"readers-{seed}"), seed)
        for _ in range(STEPS):
            done.step()
        return done

    yield walk
    link.close()


def test_whatever_happens_all_three_are_equal_at_every_step(
    walked: Callable[[int], Walk], request: pytest.FixtureRequest
) -> None:
    seeds = range(40) if "memory" in request.node.name else range(3)
    walks = [walked(seed) for seed in seeds]
    assert {world for walk in walks for world in walk.worlds} == {"native", "classic"}
    assert {phase for walk in walks for phase in walk.phases} == set(Phase)
    assert any(walk.commits for walk in walks)
    assert {Verdict.DONE, Verdict.REFUSED} <= {verdict for walk in walks for verdict in walk.verdicts}
