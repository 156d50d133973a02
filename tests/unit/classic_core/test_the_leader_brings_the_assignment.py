"""SyncGroup in each phase, and who never asks (conformance 51 to 63)."""

from typing import Any

import pytest

from coordinator.core.events import Leaver, SyncAnswer
from groups.core.phases import Phase
from groups.core.state import GroupRows
from muster.kernel.error_codes import ErrorCode
from tests.unit.classic_core.group import SESSION_MS, ClassicGroup


def error_of(answer: SyncAnswer | None) -> ErrorCode:
    assert answer is not None and answer.assignment == b""
    return answer.error


def test_a_group_without_members_has_nothing_to_give() -> None:  # 51
    group = ClassicGroup()
    assert error_of(group.sync("app-1", generation=0)) is ErrorCode.UNKNOWN_MEMBER_ID
    assert group.rows == GroupRows("billing")
    (ann,) = group.stable("a")
    group.leave(ann)
    assert error_of(group.sync(ann)) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_sync_is_checked_in_order() -> None:  # 52
    group = ClassicGroup()
    ann, _ = group.completed("a", "b")
    wrong: dict[str, Any] = {"generation": 9, "kind": "connect"}
    assert error_of(group.sync("app-9", **wrong)) is ErrorCode.UNKNOWN_MEMBER_ID
    assert error_of(group.sync(ann, instance="pod-0", **wrong)) is ErrorCode.UNKNOWN_MEMBER_ID
    assert error_of(group.sync(ann, **wrong)) is ErrorCode.ILLEGAL_GENERATION
    assert error_of(group.sync(ann, kind="connect")) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert error_of(group.sync(ann, protocol="sticky")) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert group.is_in(Phase.COMPLETING_REBALANCE)


def test_a_rebalance_is_told_to_who_asks_for_the_old_assignment() -> None:  # 54
    group = ClassicGroup()
    ann, ben = group.stable("a", "b")
    group.join(ann)
    assert error_of(group.sync(ben)) is ErrorCode.REBALANCE_IN_PROGRESS


@pytest.mark.parametrize("named", [None, "consumer"])
def test_followers_wait_for_the_leader(named: str | None) -> None:  # 55, 56
    group = ClassicGroup()
    ann, ben, cleo = group.completed("a", "b", "c")
    early, late = group.syncing(ben, kind=named, protocol=named and "range"), group.syncing(cleo)
    group.turn(early)
    assert group.sync_answer(early) is None and ben not in group.state.classic.owing
    group.wait(4_000)
    mine = group.sync(ann, {ann: b"0", ben: b"1", cleo: b"2"})
    hers = group.sync_answer(early)
    assert mine is not None and hers is not None
    assert (mine.assignment, hers.assignment) == (b"0", b"1")
    assert (hers.protocol_type, hers.protocol_name) == ("consumer", "range")
    assert group.is_in(Phase.STABLE)
    assert group.state.classic.sessions[ben].ends_at == group.now + 10_000
    group.turn(late)
    answer = group.sync_answer(late)
    assert answer is not None and answer.assignment == b"2"


def test_an_assignment_is_for_members_and_for_all_of_them() -> None:  # 57
    group = ClassicGroup()
    ann, ben = group.completed("a", "b")
    group.sync(ann, {ann: b"0", "app-9": b"9"})
    assert {one.member_id: one.assignment for one in group.classic.members.values()} == {ann: b"0", ben: b""}


def test_who_had_partitions_and_is_left_out_has_none() -> None:  # 57
    group = ClassicGroup()
    ann, ben = group.stable("a", "b")
    group.turn(group.joining(ann), group.joining(ben))
    group.sync(ann, {ann: b"all"})
    answer = group.sync(ben)
    assert answer is not None and answer.assignment == b""


def test_a_stable_group_gives_the_assignment_again() -> None:  # 60
    group = ClassicGroup()
    ann, ben = group.stable("a", "b")
    for member_id in (ann, ben):
        answer = group.sync(member_id, {ann: b"other"}, kind="consumer", protocol="range")
        assert answer is not None and answer.assignment == member_id.encode()
    assert group.decision.records == ()


def test_a_second_sync_takes_the_place_of_the_first() -> None:  # 61
    group = ClassicGroup()
    ann, ben = group.completed("a", "b")
    first, second = group.syncing(ben), group.syncing(ben)
    group.turn(first)
    group.turn(second)
    assert error_of(group.sync_answer(first)) is ErrorCode.REBALANCE_IN_PROGRESS
    group.sync(ann, {ben: b"1"})
    answer = group.sync_answer(second)
    assert answer is not None and answer.assignment == b"1"


def test_who_asks_after_the_leader_is_told_alone_and_begins_a_session() -> None:  # 60, 63, 92
    group = ClassicGroup()
    ann, ben, cid = group.completed("a", "b", "c", rebalance_ms=20_000)
    group.sync(ann, {ann: b"1", ben: b"2", cid: b"3"})
    group.wait(4_000)
    answer = group.sync(ben)
    assert answer is not None and answer.assignment == b"2" and len(group.decision.replies) == 1
    memory = group.state.classic
    assert memory.sessions[ben].ends_at == group.now + SESSION_MS
    assert memory.sessions[ann].ends_at == group.now - 4_000 + SESSION_MS
    assert set(memory.owing) == {cid} and memory.sync_ends_at is not None
    group.sync(cid)
    assert group.state.classic.sync_ends_at is None and not group.state.classic.syncs


@pytest.mark.parametrize("leader_syncs", [True, False])
def test_who_never_asks_is_removed(leader_syncs: bool) -> None:  # 63, 92
    group = ClassicGroup()
    ann, ben = group.completed("a", "b", rebalance_ms=5_000)
    pod = group.join(instance="pod-0", rebalance_ms=5_000)
    assert pod is None
    group.turn(group.joining(ann), group.joining(ben))
    asks, waits = (ann, ben) if leader_syncs else (ben, ann)
    asked = group.syncing(asks)
    group.turn(asked)
    group.wait(5_000)
    assert group.members == [asks] and group.is_in(Phase.PREPARING_REBALANCE)
    answer = group.sync_answer(asked)
    assert answer is not None
    assert answer.error is (ErrorCode.NONE if leader_syncs else ErrorCode.REBALANCE_IN_PROGRESS)
    assert waits not in group.state.classic.sessions


def test_when_all_have_asked_the_sync_timer_is_off() -> None:  # 63
    group = ClassicGroup()
    ids = group.stable("a", "b", rebalance_ms=5_000)
    assert group.state.classic.sync_ends_at is None
    for _ in range(3):
        assert [group.beat(one) for one in ids] == [ErrorCode.NONE] * 2
        group.wait(5_000)
    assert group.is_in(Phase.STABLE) and group.rows.generation == 1


def test_a_leader_that_cannot_assign_leaves_with_a_reason_that_is_shown() -> None:  # 001
    group = ClassicGroup()
    ann, ben = group.completed("a", "b")
    waiting = group.syncing(ben)
    group.turn(waiting)
    group.leave(Leaver(ann, reason="no such rack"))
    assert error_of(group.sync_answer(waiting)) is ErrorCode.REBALANCE_IN_PROGRESS
    assert group.rows.error == "the leader left before it assigned: no such rack"
    group.join(ben)
    group.sync(ben, {ben: b"all"})
    assert (group.rows.phase, group.rows.error) == (Phase.STABLE, "")
