"""Heartbeat in each phase (conformance 64 to 68, 88, 89)."""

from muster.kernel.error_codes import ErrorCode
from tests.unit.classic_core.group import ClassicGroup


def test_nobody_lives_in_a_group_without_members() -> None:  # 64
    group = ClassicGroup()
    assert group.beat("app-1", 0) is ErrorCode.UNKNOWN_MEMBER_ID
    (ann,) = group.stable("a")
    group.leave(ann)
    assert group.beat(ann) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_stranger_is_unknown_before_its_generation_is_looked_at() -> None:  # 64, 65
    group = ClassicGroup()
    (ann,) = group.stable("a")
    assert group.beat("app-9", 7) is ErrorCode.UNKNOWN_MEMBER_ID
    assert group.beat(ann, 0) is ErrorCode.ILLEGAL_GENERATION
    assert group.beat(ann, 2) is ErrorCode.ILLEGAL_GENERATION


def test_a_generation_is_looked_at_before_the_phase() -> None:  # 65, 67
    """Who missed a generation joins as one that lost all, not as one that is called to a rebalance."""
    group = ClassicGroup()
    ann, ben = group.stable("a", "b")
    group.join(ann)
    assert group.beat(ben, 0) is ErrorCode.ILLEGAL_GENERATION
    assert group.beat(ben, 1) is ErrorCode.REBALANCE_IN_PROGRESS


def test_an_instance_is_fenced_by_who_holds_it() -> None:  # 64, 88, 89
    group = ClassicGroup()
    (pod,) = group.stable("p", instance="pod-0")
    (ann,) = group.stable("a")
    assert group.beat(pod, instance="pod-0") is ErrorCode.NONE
    assert group.beat(ann, instance="pod-0") is ErrorCode.FENCED_INSTANCE_ID
    assert group.beat("", instance="pod-0") is ErrorCode.FENCED_INSTANCE_ID
    assert group.beat(pod, instance="pod-9") is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_rebalance_is_told_by_the_heartbeats_answer() -> None:  # 66, 67, 68
    group = ClassicGroup()
    ann, ben = group.stable("a", "b")
    assert group.beat(ben) is ErrorCode.NONE
    group.join(ann)
    assert group.beat(ben) is ErrorCode.REBALANCE_IN_PROGRESS
    group.join(ben)
    assert group.beat(ben, 1) is ErrorCode.ILLEGAL_GENERATION
    assert group.beat(ben, 2) is ErrorCode.NONE and group.rows.phase == "CompletingRebalance"


def test_every_answered_heartbeat_prolongs_the_session() -> None:  # 66 to 68
    group = ClassicGroup()
    ann, ben = group.stable("a", "b")
    group.wait(8_000)
    group.beat(ann)
    group.beat(ben)
    group.join(ann)
    group.wait(8_000)
    assert group.beat(ben) is ErrorCode.REBALANCE_IN_PROGRESS
    group.wait(8_000)
    assert group.members == [ann, ben]
    group.wait(2_000)
    assert group.members == [ann]
