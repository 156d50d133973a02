"""What waits is judged and written in portions: in its order, before any turn, and to the last of it."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from coordinator.classic_commits import ClassicCommit, Committed, Stated
from coordinator.commits import Commit, Commits
from coordinator.core.events import ConnectionId
from coordinator.core.memory import ClassicSession, GroupState
from coordinator.core.offsets import Judgement
from coordinator.service import ShardService
from groups.core.state import GroupRows
from muster.kernel.error_codes import ErrorCode
from muster.kernel.instants import Instant
from muster.kernel.shards import shard_of
from muster.messages.partitions import Partition
from tests.unit.coordinator.shards import Asked, Caller, Shards, eventually, kafka_readers
from tests.unit.coordinator.test_kafka_clients_commit_in_the_batch import KEY
from tests.unit.coordinator_core.group import orders

PORTION = 40
LARGE = 30
"""Of two of them the first portion is over, and takes both in."""

OUTSIDE = GroupRows(KEY, version=1, protocol="classic")


class Clients:
    """Those who commit to one group, each on a connection of its own; what becomes of it, in order."""

    def __init__(self, shards: Shards) -> None:
        self.shards = shards
        self.events: list[tuple[str, str]] = []
        self.answers: dict[str, ErrorCode] = {}
        self._stop_behind = ""

    @property
    def service(self) -> ShardService:
        return self.shards.services[shard_of(KEY)]

    def commit(self, name: str, offsets: Mapping[Partition, int], *, member: str = "") -> None:
        """They become members by `member`, of generation 1."""
        said = ClassicCommit(
            key=KEY,
            connection=Caller(name).id,
            member_id=member,
            group_instance_id=None,
            generation=1 if member else -1,
            stated=Stated.of({one: Committed(offset) for one, offset in offsets.items()}),
            answer=lambda judgement: self._hear(name, judgement),
        )

        def judge(state: GroupState) -> Judgement:
            self.events.append(("judged", name))
            return said.judge(state)

        asked = Asked(KEY, said.connection, judge, said.answer, said.partitions)
        assert self.service.commit(asked)

    def _hear(self, name: str, judgement: Judgement) -> None:
        self.events.append(("answered", name))
        self.answers[name] = judgement.error
        if name == self._stop_behind:
            self._hold()

    async def hold_the_database(self, member: str = "") -> None:
        """Whatever is committed from now on waits for the next batch."""
        self._hold()
        self.commit("first", {orders(0): 1}, member=member)
        await self._is_held()

    async def go_on_until(self, name: str) -> None:
        """Write until this one is answered, and hold the database again: with what comes behind it."""
        self._stop_behind = name
        self.shards.store.gate.set()
        await eventually(lambda: name in self.answers)
        await self._is_held()

    def _hold(self) -> None:
        self.shards.store.gate.clear()
        self.shards.store.at_the_gate.clear()

    async def _is_held(self) -> None:
        await eventually(self.shards.store.at_the_gate.is_set)


async def serving(shards: Shards) -> tuple[ShardService, Clients]:
    service = await shards.serve(KEY)
    service._commits.portion = PORTION
    return service, Clients(shards)


def large(offset: int, of: int = LARGE) -> dict[Partition, int]:
    """Each commit states the same partitions."""
    return {orders(number): offset for number in range(of)}


async def test_a_portion_is_written_and_answered_before_the_next_is_judged() -> None:
    async with Shards([OUTSIDE]) as shards:
        _, clients = await serving(shards)
        await clients.hold_the_database()
        clients.events.clear()
        for number in range(5):
            clients.commit(f"c-{number}", large(number))
        shards.store.gate.set()
        await eventually(lambda: len(clients.answers) == 6)
        portions = (("c-0", "c-1"), ("c-2", "c-3"), ("c-4",))
        assert clients.events == [("answered", "first")] + [
            (what, name) for portion in portions for what in ("judged", "answered") for name in portion
        ]


async def test_a_later_commit_is_not_overwritten_by_an_older_one_of_another_connection() -> None:
    async with Shards([OUTSIDE]) as shards:
        _, clients = await serving(shards)
        await clients.hold_the_database()
        for number in range(4):
            clients.commit(f"other-{number}", large(1))
        clients.commit("older and large", large(100))
        clients.commit("newer and small", {orders(0): 200})
        shards.store.gate.set()
        await eventually(lambda: len(clients.answers) == 7)
        assert set(clients.answers.values()) == {ErrorCode.NONE}
        assert shards.rows(KEY).offsets[orders(0)] == 200
        assert shards.rows(KEY).offsets[orders(1)] == 100


async def test_what_comes_while_portions_are_written_has_the_next_batch() -> None:
    async with Shards([OUTSIDE]) as shards:
        _, clients = await serving(shards)
        await clients.hold_the_database()
        for number in range(5):
            clients.commit(f"c-{number}", large(number))
        await clients.go_on_until("c-1")
        clients.commit("late", {orders(0): 7})
        shards.store.gate.set()
        await eventually(lambda: len(clients.answers) == 7)
        assert shards.rows(KEY).offsets[orders(0)] == 7


async def test_a_mistake_of_ours_leaves_nobody_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Shards([OUTSIDE]) as shards:
        _, clients = await serving(shards)
        await clients.hold_the_database()
        judge = Commits._judge

        def failing(commits: Commits, commit: Commit, *more: Any) -> None:
            if len(clients.answers) == 3:
                raise RuntimeError("the test says so")
            judge(commits, commit, *more)

        monkeypatch.setattr(Commits, "_judge", failing)
        for number in range(5):
            clients.commit(f"c-{number}", large(number))
        shards.store.gate.set()
        await eventually(lambda: len(clients.answers) == 6)
        told = {name: clients.answers[name] for name in ("c-1", "c-2", "c-3", "c-4")}
        unknown = ErrorCode.UNKNOWN_SERVER_ERROR
        assert told == {"c-1": ErrorCode.NONE, "c-2": unknown, "c-3": unknown, "c-4": unknown}
        clients.commit("late", {orders(0): 7})
        await eventually(lambda: "late" in clients.answers)
        assert shards.rows(KEY).offsets[orders(0)] == 7


async def test_what_waits_when_the_lease_is_given_away_is_written_to_the_last_portion() -> None:
    async with Shards([OUTSIDE]) as shards:
        service, clients = await serving(shards)
        lane = shards.held[shard_of(KEY)]
        await clients.hold_the_database()
        for number in range(20):
            clients.commit(f"c-{number}", {orders(number * 11 + one): number for one in range(11)})
        await clients.go_on_until("c-0")
        resigning = asyncio.create_task(lane.resign())
        await asyncio.sleep(0)
        clients.commit("too late", {orders(0): 9})
        assert clients.answers.pop("too late") is ErrorCode.NOT_COORDINATOR
        shards.store.gate.set()
        assert await resigning
        await service.give_up("ws://two")
        assert list(clients.answers.values()) == [ErrorCode.NONE] * 21
        assert len(shards.rows(KEY).offsets) == 220


async def test_what_is_refused_because_the_lane_closes_is_what_no_batch_has_begun_with() -> None:
    async with Shards([OUTSIDE]) as shards:
        service, clients = await serving(shards)
        await clients.hold_the_database()
        for number in range(5):
            clients.commit(f"c-{number}", large(number))
        await clients.go_on_until("c-1")
        clients.commit("late", {orders(0): 7})
        service._commits.turn_away()
        assert clients.answers["late"] is ErrorCode.NOT_COORDINATOR
        shards.store.gate.set()
        await eventually(lambda: len(clients.answers) == 7)
        assert [clients.answers[f"c-{number}"] for number in range(5)] == [ErrorCode.NONE] * 5
        assert shards.rows(KEY).offsets[orders(0)] == 4


async def test_nobody_is_expelled_behind_a_large_commit_of_its_own_or_of_others() -> None:
    """As in one go: no turn, which would find that its session is over, comes before the last portion."""
    async with Shards([kafka_readers(KEY, ann=[0], ben=[1])]) as shards:
        service, clients = await serving(shards)
        lane = shards.held[shard_of(KEY)]
        await clients.hold_the_database("ben")
        for number in range(5):
            clients.commit(f"c-{number}", large(number), member="ben")
        clients.commit("ann", large(100), member="ann")
        await clients.go_on_until("c-1")
        # Her session is over while the first portions are written, and the lane is to look after it.
        state = service._groups.states[KEY]
        state.classic.heard_at.clear()
        session = ClassicSession(Instant(1), armed_at=Instant(1))
        sessions = {**state.classic.sessions, "ann": session}
        memory = replace(state.classic, sessions=sessions, timers=((Instant(1), "ann"),))
        service._groups.states[KEY] = structs.replace(state, classic=memory)
        lane.hand_in(service._groups, KEY)
        assert "ann" not in clients.answers
        shards.store.gate.set()
        await eventually(lambda: "ann" in clients.answers)
        await shards.settled(KEY)
        assert clients.answers["ann"] is ErrorCode.NONE
        classic_rows = shards.rows(KEY).classic
        assert classic_rows is not None and "ann" in classic_rows.members


async def test_what_waited_for_its_group_comes_before_what_came_since() -> None:
    async with Shards([OUTSIDE]) as shards:
        service = await shards.serve(KEY)
        groups = service._groups
        answers: list[ErrorCode] = []
        commits = Commits(
            groups,
            shards.store,
            lambda key, events: None,
            lambda connection: None,
            lambda heard: None,
            lambda to, utter, judgement, partitions: utter(judgement),
        )

        def add(connection: str, offset: int) -> None:
            commits.add(
                ClassicCommit(
                    key=KEY,
                    connection=ConnectionId(connection),
                    member_id="",
                    group_instance_id=None,
                    generation=-1,
                    stated=Stated.of({orders(0): Committed(offset)}),
                    answer=lambda judgement: answers.append(judgement.error),
                )
            )

        state = groups.states.pop(KEY)
        add("older", 1)
        assert not commits.gather(), "the group is to be loaded"
        commits.committed({})
        groups.states[KEY] = state
        add("newer", 2)
        add("newest", 3)
        commits.portion = 1
        commits.turned(KEY)
        written = []
        while True:
            rows = commits.gather()
            written.append(rows[KEY, orders(0)])
            commits.committed(rows)
            if not commits.has_more:
                break
        assert written == [1, 2, 3]
        assert answers == [ErrorCode.NONE] * 3
