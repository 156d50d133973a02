"""Members with a group.instance.id (conformance 78 to 93)."""

from typing import Any

import pytest

from groups.core.phases import Phase
from muster.kernel.error_codes import ErrorCode
from tests.unit.classic_core.group import SESSION_MS, ClassicGroup

FENCED, UNKNOWN = ErrorCode.FENCED_INSTANCE_ID, ErrorCode.UNKNOWN_MEMBER_ID


def two(group: ClassicGroup, **how: Any) -> tuple[str, str]:
    """A static leader and a static follower, Stable."""
    first, second = group.joining(instance="pod-0", **how), group.joining(instance="pod-1", **how)
    group.turn(first, second)
    leader, follower = first.fresh_member_id, second.fresh_member_id
    group.turn(group.syncing(follower), group.syncing(leader, {leader: b"0", follower: b"1"}))
    assert group.is_in(Phase.STABLE) and group.leader == leader
    return leader, follower


def test_an_instance_is_a_member_at_once_in_any_version() -> None:  # 78
    group = ClassicGroup()
    assert group.join(instance="pod-0", knows_ids=True) is not None
    assert group.members == ["pod-0-1"] and group.is_in(Phase.COMPLETING_REBALANCE)


@pytest.mark.parametrize("skips", [True, False])
def test_a_leader_that_comes_back_keeps_its_place(skips: bool) -> None:  # 79 to 82
    group = ClassicGroup()
    old, follower = two(group)
    answer = group.join(instance="pod-0", skips=skips)
    assert answer is not None and answer.error is ErrorCode.NONE and answer.generation == 1
    new = answer.member_id
    assert new != old and group.leader == new and group.members == sorted([follower, new])
    assert group.classic.members[new].assignment == b"0"
    assert (answer.skip_assignment, len(answer.members)) == ((True, 2) if skips else (False, 0))
    assert answer.leader == (new if skips else old)
    assert group.state.classic.sessions[new].ends_at == group.now + SESSION_MS
    again = group.sync(new, instance="pod-0")
    assert again is not None and again.assignment == b"0"
    assert group.is_in(Phase.STABLE)


def test_a_leader_that_came_back_leads_on() -> None:  # 31, 79
    group = ClassicGroup()
    two(group)
    back = group.joining(instance="pod-0")
    group.turn(back)
    group.turn(*(group.joining(one) for one in (back.fresh_member_id, *group.members)))
    assert group.rows.generation == 2 and group.leader == back.fresh_member_id


def test_a_follower_that_comes_back_hears_who_leads() -> None:  # 80, 81
    group = ClassicGroup()
    leader, _ = two(group)
    answer = group.join(instance="pod-1", protocols={"range": b"v2"})
    assert answer is not None
    assert (answer.leader, answer.members, answer.skip_assignment) == (leader, (), False)
    assert group.is_in(Phase.STABLE) and group.rows.generation == 1


def test_who_waits_under_the_old_id_is_fenced() -> None:  # 79, 86
    group = ClassicGroup()
    leader, follower = two(group)
    group.stable("slow")
    group.join(leader)
    joining = group.joining(follower)
    group.turn(joining)
    assert group.join_answer(joining) is None
    assert group.join(instance="pod-1") is None
    answer = group.join_answer(joining)
    assert answer is not None and (answer.error, answer.member_id) == (FENCED, follower)


def test_who_waits_for_its_assignment_under_the_old_id_is_fenced() -> None:  # 79, 85
    group = ClassicGroup()
    two(group)
    group.turn(*(group.joining(one) for one in (group.leader, *group.members)))
    _, follower = group.members
    waiting = group.syncing(follower)
    group.turn(waiting)
    assert group.join(instance="pod-1") is None
    answer = group.sync_answer(waiting)
    assert answer is not None and answer.error is FENCED
    assert group.is_in(Phase.PREPARING_REBALANCE)


def test_who_comes_back_with_another_choice_begins_a_rebalance() -> None:  # 84
    group = ClassicGroup()
    both = {"range": b"r", "sticky": b"s"}
    two(group, protocols=both)
    assert group.join(instance="pod-1", protocols={"sticky": b"s"}) is None
    assert group.is_in(Phase.PREPARING_REBALANCE)


def test_who_comes_back_in_a_rebalance_has_joined() -> None:  # 86
    group = ClassicGroup()
    leader, _ = two(group)
    group.join(leader)
    answer = group.join(instance="pod-1")
    assert answer is not None and answer.generation == 2
    assert group.is_in(Phase.COMPLETING_REBALANCE)


def test_with_its_id_an_instance_is_a_member_like_others() -> None:  # 87
    group = ClassicGroup()
    leader, follower = two(group)
    answer = group.join(follower, instance="pod-1")
    assert answer is not None and answer.generation == 1 and group.decision.records == ()
    assert group.join(leader, instance="pod-0") is None


def test_ids_and_instances_belong_together() -> None:  # 88, 89
    group = ClassicGroup()
    leader, follower = two(group)
    before = group.rows
    for member_id, instance, error in (
        (leader, "pod-1", FENCED),
        (leader, "pod-9", UNKNOWN),
        ("", "pod-0", FENCED),
    ):
        synced = group.sync(member_id, instance=instance)
        assert synced is not None and synced.error is error
        assert group.beat(member_id, instance=instance) is error
        if member_id:
            joined = group.join(member_id, instance=instance)
            assert joined is not None and (joined.error, joined.member_id) == (error, member_id)
    assert group.rows is before and follower in group.members


def test_a_static_member_that_does_not_join_stays() -> None:  # 90, 92
    group = ClassicGroup()
    leader, follower = two(group, rebalance_ms=5_000)
    group.join(leader)
    group.wait(5_000)
    assert group.members == sorted([leader, follower]) and group.rows.generation == 2
    assert set(group.state.classic.owing) == {leader, follower}
    group.sync(leader, {leader: b"0", follower: b"1"})
    group.beat(leader)
    group.beat(follower)
    group.wait(5_000)
    assert group.members == [leader]


def test_while_nobody_joins_static_members_are_waited_for() -> None:  # 91
    group = ClassicGroup()
    leader, follower = two(group, rebalance_ms=5_000)
    (ann,) = [one for one in [group.joining(client="a", rebalance_ms=5_000)] if group.turn(one)]
    group.leave(ann.fresh_member_id)
    assert group.is_in(Phase.PREPARING_REBALANCE)
    for one in (leader, follower):
        group.beat(one)
    group.wait(5_000)
    assert (group.rows.phase, group.rows.generation) == (Phase.PREPARING_REBALANCE, 1)
    assert group.members == sorted([leader, follower])
    group.wait(5_000)
    assert (group.rows.phase, group.members) == (Phase.EMPTY, [])


def test_a_silent_static_member_is_missed_after_its_session() -> None:  # 93
    group = ClassicGroup()
    leader, follower = two(group)
    group.wait(6_000)
    group.beat(leader)
    group.wait(SESSION_MS - 6_001)
    assert group.is_in(Phase.STABLE)
    group.wait(1)
    assert group.members == [leader] and group.is_in(Phase.PREPARING_REBALANCE)
    assert follower not in group.state.classic.instances.values()
