"""LeaveGroup of one and of several (conformance 69 to 77)."""

from coordinator.core.events import Leaver
from groups.core.phases import Phase
from groups.core.records import PhaseEntered
from groups.core.state import GroupRows
from muster.kernel.error_codes import ErrorCode
from tests.unit.classic_core.group import ClassicGroup

NONE, UNKNOWN, FENCED = ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID


def test_nobody_leaves_a_group_that_is_not_there() -> None:  # 69
    group = ClassicGroup()
    assert group.leave("app-1", "app-2") == [UNKNOWN, UNKNOWN]
    assert group.rows == GroupRows("billing")


def test_each_entry_is_answered_in_its_place() -> None:  # 71, 72, 73
    group = ClassicGroup()
    (pod,) = group.stable("p", instance="pod-0")
    other, ann, ben = (
        *group.stable("q", instance="pod-1"),
        *group.stable("a", "b"),
    )
    wanted = [
        Leaver("", "pod-0"),
        Leaver("", "pod-9"),
        Leaver(""),
        Leaver(ann, "pod-1"),
        Leaver("app-9"),
        Leaver(ann),
        Leaver(other, "pod-1"),
        Leaver(ann),
    ]
    assert group.leave(*wanted) == [NONE, UNKNOWN, UNKNOWN, FENCED, UNKNOWN, NONE, NONE, UNKNOWN]
    assert group.members == [ben] and pod not in group.classic.members


def test_several_leave_by_one_rebalance() -> None:  # 74
    group = ClassicGroup()
    ann, ben, cleo = group.stable("a", "b", "c")
    group.leave(ann, ben)
    entered = [one.phase for one in group.decision.records if isinstance(one, PhaseEntered)]
    assert entered == [Phase.PREPARING_REBALANCE] and group.members == [cleo]


def test_nobody_left_is_no_rebalance() -> None:  # 74
    group = ClassicGroup()
    group.stable("a")
    assert group.leave("app-9") == [UNKNOWN] and group.decision.records == ()


def test_the_join_phase_ends_when_who_was_waited_for_leaves() -> None:  # 75
    group = ClassicGroup()
    ann, ben = group.stable("a", "b")
    group.join(ann)
    assert group.is_in(Phase.PREPARING_REBALANCE)
    group.leave(ben)
    assert group.is_in(Phase.COMPLETING_REBALANCE) and group.members == [ann]


def test_who_leaves_while_it_joins_is_told_so() -> None:  # 76
    group = ClassicGroup()
    ann, ben = group.stable("a", "b")
    waiting = group.joining(ann)
    group.turn(waiting)
    group.leave(ann)
    answer = group.join_answer(waiting)
    assert answer is not None and (answer.error, answer.member_id) == (UNKNOWN, "")
    assert group.members == [ben] and group.is_in(Phase.PREPARING_REBALANCE)


def test_who_leaves_while_it_syncs_is_told_so() -> None:
    group = ClassicGroup()
    _, ben = group.completed("a", "b")
    waiting = group.syncing(ben)
    group.turn(waiting)
    group.leave(ben)
    answer = group.sync_answer(waiting)
    assert answer is not None and answer.error is UNKNOWN


def test_the_last_member_leaves_an_empty_group_of_the_next_generation() -> None:  # 77
    group = ClassicGroup()
    (ann,) = group.stable("a")
    group.leave(ann)
    assert (group.rows.phase, group.rows.generation, group.members) == (Phase.EMPTY, 2, [])
    assert group.decision.look_again_at is None
