"""A classic group's rebalances, told from its records: cause, length, and what moved to whom."""

from collections.abc import Sequence
from typing import Any

from coordinator.core.draft import GroupDecision
from coordinator.core.events import GroupEvent, Leaver
from groups.core.consumer_protocol import assignment
from groups.core.rebalances import Fold, Rebalance, rebalances
from groups.core.records import GroupRecord
from tests.unit.classic_core.group import AT_ONCE, ClassicGroup


class Told(ClassicGroup):
    """Remembers its turns."""

    def __init__(self) -> None:
        self.turns: list[tuple[float, str, Sequence[GroupRecord]]] = []
        super().__init__(AT_ONCE)

    def turn(self, *events: GroupEvent) -> GroupDecision:
        decision = super().turn(*events)
        if decision.records:
            self.turns.append((self.now, "turn", decision.records))
        return decision

    @property
    def history(self) -> list[Rebalance]:
        return rebalances(self.turns)

    def assigned(self, **numbers: Sequence[int]) -> None:
        """The leader gives these partitions of `orders`, by client."""
        by_client = {one.client_id: one.member_id for one in self.classic.members.values()}
        shares = {by_client[client]: assignment({"orders": one}) for client, one in numbers.items()}
        self.sync(self.leader, shares)
        self.turn(*(self.syncing(one) for one in self.members if one != self.leader))


def moves(rebalance: Rebalance) -> dict[int, tuple[str | None, str | None]]:
    return {one.number: (move.before, move.after) for one, move in rebalance.moves.items()}


def test_cause_lengths_members_and_moves_are_told() -> None:
    group = Told()
    (ann,) = group.completed("a")
    group.assigned(a=[0, 1, 2])
    newcomer = group.joining(client="b")
    group.turn(newcomer)
    group.wait(400)
    group.join(ann)
    group.wait(100)
    group.assigned(a=[0, 1], b=[2])
    second, first = group.history
    assert (first.cause, first.generation, first.members, first.moved) == ("member joined", 1, 1, 3)
    assert (second.cause, second.detail) == ("member joined", newcomer.fresh_member_id)
    assert (second.generation, second.members, second.moved) == (2, 2, 1)
    assert (second.preparing_ms, second.completing_ms, second.failed) == (400, 100, False)
    assert moves(second) == {2: (ann, newcomer.fresh_member_id)}


def test_what_a_member_left_behind_goes_to_others() -> None:
    group = Told()
    ann, ben = group.completed("a", "b")
    group.assigned(a=[0], b=[1])
    group.leave(Leaver(ben, reason="scaled down"))
    group.join(ann)
    group.assigned(a=[0, 1])
    last = group.history[0]
    assert (last.cause, last.detail) == ("member left: scaled down", ben)
    assert moves(last) == {1: (ben, ann)}


def test_a_leader_that_joins_again_is_the_cause() -> None:
    group = Told()
    ann, ben = group.completed("a", "b")
    group.assigned(a=[0], b=[1])
    group.join(ann)
    group.join(ben, protocols={"range": b"other metadata"})
    group.assigned(a=[0], b=[1])
    group.leave(ben)
    last, before, _ = group.history
    assert before.cause == f"{ann} leads, and joined again" and before.moved == 0
    assert (last.cause, last.detail) == ("member left", ben)


def test_who_joins_again_says_why() -> None:
    group = Told()
    ann, ben = group.completed("a", "b")
    group.assigned(a=[0], b=[1])
    group.join(ben, protocols={"range": b"v2"}, reason="a rebalance that was scheduled")
    group.join(ann, reason="the others do")
    group.assigned(a=[0], b=[1])
    group.join(ann, reason="topics have grown")
    group.join(ben)
    group.assigned(a=[0], b=[1])
    last, before, _ = group.history
    assert (before.cause, before.detail) == (
        "member joined with other metadata (a rebalance that was scheduled)",
        ben,
    )
    assert last.cause == f"{ann} leads, and joined again: topics have grown"


def test_a_static_member_that_comes_back_moves_nothing() -> None:
    group = Told()
    first = group.joining(instance="pod-0", client="a")
    group.turn(first)
    group.assigned(a=[0, 1])
    back = group.joining(instance="pod-0", client="a")
    group.turn(back)
    group.join(back.fresh_member_id, instance="pod-0")
    group.assigned(a=[0, 1])
    assert [one.moved for one in group.history] == [0, 2]


def test_an_owner_that_took_the_group_over_tells_the_same() -> None:
    group = Told()
    ann, ben = group.completed("a", "b")
    group.assigned(a=[0], b=[1])
    fold, seen = Fold(group.rows), len(group.turns)
    group.leave(ann)
    group.join(ben)
    group.assigned(b=[0, 1])
    for turn in group.turns[seen:]:
        fold.take(*turn)
    assert fold.last is not None and fold.last == group.history[0]


def test_bytes_of_other_kinds_of_groups_are_not_looked_into() -> None:
    group = Told()
    how: dict[str, Any] = {"kind": "connect", "protocols": {"sessioned": b""}}
    group.completed("w", **how)
    group.assigned(w=[0, 1])
    assert group.history[0].moved == 0 and group.history[0].ended_ms is not None


def test_a_generation_that_nobody_was_assigned_has_failed() -> None:
    group = Told()
    ann, ben = group.completed("a", "b")
    group.assigned(a=[0], b=[1])
    group.turn(group.joining(client="c"))
    group.join(ann)
    group.wait(10)
    group.join(ben)
    group.wait(200)
    # The generation waits for its leader's Sync when somebody else comes.
    group.turn(group.joining(client="d"))
    last, aborted, first = group.history
    assert (aborted.generation, aborted.failed, aborted.moved) == (2, True, 0)
    assert (aborted.preparing_ms, aborted.completing_ms) == (10, 200)
    assert (first.failed, last.failed, last.ended_ms, last.generation) == (False, False, None, None)


def test_a_generation_that_nobody_joined_has_no_members() -> None:
    group = Told()
    group.completed("a")
    group.assigned(a=[0])
    newcomer = group.joining(client="b")
    group.turn(newcomer)
    group.leave(Leaver(newcomer.fresh_member_id))
    # Ann never joins again.
    group.wait(600_000)
    last, _ = group.history
    assert not group.members
    assert (last.cause, last.generation, last.members, last.failed) == ("member joined", 2, 0, False)
