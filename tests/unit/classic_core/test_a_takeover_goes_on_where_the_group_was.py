"""Loading a group in each phase (design chapter 6.3)."""

from coordinator.core.decide import preload
from coordinator.core.settings import Surroundings
from groups.core.phases import Phase
from muster.kernel.error_codes import ErrorCode
from tests.unit.classic_core.group import REBALANCE_MS, SESSION_MS, ClassicGroup


def test_a_stable_group_goes_on_with_full_sessions() -> None:
    group = ClassicGroup()
    ann, ben = group.stable("a", "b")
    group.take_over(away_ms=3_600_000)
    assert group.beat(ann) is group.beat(ben) is ErrorCode.NONE
    assert group.decision.records == ()
    answer = group.sync(ben)
    assert answer is not None and answer.assignment == ben.encode()
    ends = {one.ends_at for one in group.state.classic.sessions.values()}
    assert ends == {group.now + SESSION_MS, group.now + SESSION_MS + group.settings.lease_ttl_ms}


def test_in_a_rebalance_nobody_has_joined_and_the_timer_runs_anew() -> None:
    group = ClassicGroup()
    ann, ben = group.stable("a", "b")
    group.join(ann)
    group.take_over(away_ms=50_000)
    assert group.is_in(Phase.PREPARING_REBALANCE)
    assert group.beat(ben) is ErrorCode.REBALANCE_IN_PROGRESS
    phase = group.state.classic.join_phase
    assert phase is not None and phase.ends_at == group.now + REBALANCE_MS
    assert group.join(ben) is None
    answer = group.join(ann)
    assert answer is not None and answer.generation == 2 and group.is_in(Phase.COMPLETING_REBALANCE)


def test_an_assignment_that_was_not_written_is_asked_for_again() -> None:
    group = ClassicGroup()
    ann, ben = group.completed("a", "b")
    group.turn(group.syncing(ben))
    group.take_over()
    assert set(group.state.classic.owing) == {ann, ben} and group.beat(ann) is ErrorCode.NONE
    group.turn(again := group.syncing(ben))
    group.sync(ann, {ben: b"1"})
    answer = group.sync_answer(again)
    assert answer is not None and answer.assignment == b"1" and group.rows.generation == 1


def test_who_does_not_ask_after_a_takeover_is_removed() -> None:
    group = ClassicGroup()
    group.completed("a", "b", rebalance_ms=5_000)
    group.take_over()
    group.sync(group.leader)
    group.wait(5_000)
    assert group.members == [group.members[0]] and group.is_in(Phase.PREPARING_REBALANCE)


def test_a_group_is_loaded_in_bulk_without_a_turn() -> None:
    group = ClassicGroup()
    group.stable("a")
    state = preload(group.rows, group.now, group.settings, Surroundings(), settled=False)
    assert state is not None and state.rows is group.rows and state.classic.supported == {"range": 1}


def test_static_members_are_known_after_a_takeover() -> None:
    group = ClassicGroup()
    group.stable("p", instance="pod-0")
    group.take_over()
    answer = group.join(instance="pod-0")
    assert answer is not None and answer.error is ErrorCode.NONE and answer.skip_assignment
