"""The initial delay, the join timer and sessions (conformance 94 to 102)."""

from coordinator.core.native.beats import ping
from coordinator.core.settings import GroupSettings, Surroundings
from groups.core.phases import Phase
from muster.kernel.error_codes import ErrorCode
from muster.kernel.instants import Instant
from tests.unit.classic_core.group import DELAY_MS, REBALANCE_MS, SESSION_MS, ClassicGroup

DELAYED = GroupSettings(group_initial_rebalance_delay_ms=DELAY_MS)


def test_neither_joins_nor_leaves_shorten_the_initial_delay() -> None:  # 94
    group = ClassicGroup(DELAYED)
    first = group.joining()
    group.turn(first, group.joining(client="b"))
    group.leave("b-2")
    assert group.is_in(Phase.PREPARING_REBALANCE)
    group.wait(DELAY_MS - 1)
    assert group.join_answer(first) is None


def test_the_end_of_a_session_shortens_the_initial_delay() -> None:  # 94
    group = ClassicGroup(GroupSettings(group_initial_rebalance_delay_ms=60_000))
    group.join(client="b", knows_ids=True)
    group.join()
    group.wait(SESSION_MS)
    assert group.is_in(Phase.COMPLETING_REBALANCE)


def test_who_comes_during_the_delay_makes_it_longer_to_a_limit() -> None:  # 95
    group = ClassicGroup(DELAYED)
    started = group.now
    group.join(rebalance_ms=8_000)
    waits = []
    while group.is_in(Phase.PREPARING_REBALANCE):
        group.wait(1_000)
        if group.is_in(Phase.PREPARING_REBALANCE):
            group.join(client=f"late{group.now}", rebalance_ms=8_000)
            waits.append(group.now - started)
    assert group.now - started == 8_000


def test_without_newcomers_the_delay_runs_once() -> None:  # 95
    group = ClassicGroup(DELAYED)
    group.join()
    group.wait(DELAY_MS)
    assert group.is_in(Phase.COMPLETING_REBALANCE)


def test_a_rebalance_waits_for_the_slowest() -> None:  # 96, 97
    group = ClassicGroup()
    group.turn(group.joining(rebalance_ms=7_000), group.joining(client="b", rebalance_ms=9_000))
    ann, ben = group.members
    group.sync(group.leader)
    group.sync(ben)
    group.join(ann)
    # The timer was set when the rebalance began: what a member states now does not change it.
    group.turn(group.joining(ann, rebalance_ms=60_000))
    group.wait(8_999)
    assert group.is_in(Phase.PREPARING_REBALANCE)
    group.wait(1)
    assert group.members == [ann] and group.is_in(Phase.COMPLETING_REBALANCE)


def test_when_nobody_is_left_the_group_is_empty() -> None:  # 98
    group = ClassicGroup()
    ann, ben = group.stable("a", "b", rebalance_ms=5_000)
    group.join(ann)
    group.leave(ann)
    group.wait(5_000)
    assert (group.rows.phase, group.rows.generation, group.members) == (Phase.EMPTY, 2, [])
    assert ben not in group.state.classic.sessions


def test_who_waits_for_an_answer_does_not_expire() -> None:  # 99
    group = ClassicGroup()
    ann, ben = group.stable("a", "b")
    waiting = group.joining(ann)
    group.turn(waiting)
    for _ in range(5):
        assert group.beat(ben) is ErrorCode.REBALANCE_IN_PROGRESS
        group.wait(8_000)
    assert group.members == [ann, ben] and group.state.classic.sessions[ann].armed_at is None
    group.join(ben)
    assert group.state.classic.sessions[ann].armed_at == group.now + SESSION_MS


def test_a_new_member_waits_five_minutes() -> None:  # 100
    group = ClassicGroup()
    (ann,) = group.stable("a", rebalance_ms=900_000)
    waiting = group.joining(client="b")
    group.turn(waiting)
    for _ in range(299):
        group.beat(ann)
        group.wait(1_000)
    assert group.join_answer(waiting) is None
    group.beat(ann)
    group.wait(1_000)
    answer = group.join_answer(waiting)
    assert answer is not None and (answer.error, answer.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "")
    assert group.members == [ann]


def test_a_session_that_ends_is_a_rebalance() -> None:  # 101
    group = ClassicGroup()
    ann, ben = group.stable("a", "b")
    group.wait(6_000)
    group.beat(ann)
    group.wait(SESSION_MS - 6_000)
    assert group.members == [ann] and group.is_in(Phase.PREPARING_REBALANCE)
    assert group.beat(ben) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_session_that_ends_ends_the_join_phase_if_all_others_joined() -> None:  # 102
    group = ClassicGroup()
    ann, _ = group.stable("a", "b")
    waiting = group.joining(ann)
    group.turn(waiting)
    group.wait(SESSION_MS)
    answer = group.join_answer(waiting)
    assert answer is not None and answer.generation == 2 and group.members == [ann]
    assert REBALANCE_MS > SESSION_MS


def test_thousands_whose_sessions_end_together_are_looked_after_in_several_turns() -> None:
    group = ClassicGroup()
    group.stable(*(f"c{number}" for number in range(1_200)))
    group.now = type(group.now)(group.now + SESSION_MS)
    left = []
    while group.decision.look_again_at is not None and group.decision.look_again_at <= group.now:
        group.turn()
        left.append(len(group.members))
    assert left == [700, 200, 0] and group.is_in(Phase.EMPTY)


def test_what_is_due_in_a_classic_group_is_never_a_ping() -> None:
    group = ClassicGroup()
    group.stable("app")
    later = Instant(group.now + SESSION_MS)
    assert ping(group.state, later, Surroundings()) is None
