"""What once broke in Kafka's group coordinator, by ticket; docs/reference/proof.md tells of all of them."""

import pytest

from coordinator.core.classic.offsets import judge
from coordinator.core.settings import GroupSettings
from groups.core.consumer_protocol import assignment, subscription
from groups.core.phases import Phase
from muster.kernel.error_codes import ErrorCode
from tests.unit.classic_core.group import AT_ONCE, REBALANCE_MS, SESSION_MS, ClassicGroup
from tests.unit.coordinator_core.group import orders

FULL = ErrorCode.GROUP_MAX_SIZE_REACHED
NEVER_TOLD = b"\xff\xff\xff\xff"
"""The generation of a strategy that nobody told of one."""


def limited(most: int) -> GroupSettings:
    return GroupSettings(group_initial_rebalance_delay_ms=0, group_max_size=most)


def test_an_old_client_that_lives_is_not_removed_when_its_first_five_minutes_are_over() -> None:  # 9232
    group = ClassicGroup()
    [ann] = group.stable("ann")
    for _ in range(40):
        group.wait(SESSION_MS - 1)
        assert group.beat(ann) is ErrorCode.NONE
    assert group.members == [ann] and group.is_in(Phase.STABLE)


def test_who_asks_for_an_id_again_and_again_fills_no_group() -> None:  # 7610
    group = ClassicGroup()
    for _ in range(1_000):
        answer = group.join(client="ann", knows_ids=True)
        assert answer is not None and answer.error is ErrorCode.MEMBER_ID_REQUIRED
        group.wait(SESSION_MS // 10)
    assert group.members == [] and len(group.state.classic.pending) <= 10
    group.wait(SESSION_MS)
    assert not group.state.classic.pending and not group.state.classic.timers


def test_of_fifty_that_join_at_once_as_many_come_in_as_there_is_room() -> None:  # 9844
    group = ClassicGroup(limited(3))
    old = group.stable("ann", "ben")
    events = [group.joining(client=f"new-{number}") for number in range(50)]
    group.turn(*events, *(group.joining(one) for one in old))
    assert group.is_in(Phase.COMPLETING_REBALANCE) and len(group.members) == 3
    heard = [answer.error for event in events if (answer := group.join_answer(event)) is not None]
    assert (heard.count(ErrorCode.NONE), heard.count(FULL)) == (3, 47)


def test_a_smaller_limit_after_a_takeover_keeps_as_many_as_it_says() -> None:  # 9885
    group = ClassicGroup()
    ids = group.stable("a", "b", "c", "d", "e")
    group.settings = limited(3)
    group.take_over()
    for member_id in ids:
        group.join(member_id)
    assert group.is_in(Phase.COMPLETING_REBALANCE) and len(group.members) == 3


@pytest.mark.parametrize("rebalancing", [False, True])
def test_an_instance_comes_back_to_a_full_group(rebalancing: bool) -> None:  # 20601
    group = ClassicGroup(limited(2))
    pod, ben = group.completed("a", instance="pod-0")[0], group.completed("b")[0]
    if not rebalancing:
        shares = {pod: b"share of the pod", ben: b"share of ben"}
        followers = [group.syncing(one) for one in (pod, ben) if one != group.leader]
        group.turn(*followers, group.syncing(group.leader, shares))
    again = group.joining(instance="pod-0", client="a")
    group.turn(again)
    answer = group.join_answer(again)
    assert answer is None or answer.error is ErrorCode.NONE
    assert group.members == sorted([again.fresh_member_id, ben])
    if not rebalancing:
        assert group.classic.members[again.fresh_member_id].assignment == b"share of the pod"


def test_the_id_of_an_instance_that_came_back_outlives_its_coordinator() -> None:  # 10284
    group = ClassicGroup()
    [old] = group.stable("a", instance="pod-0")
    back = group.join(instance="pod-0")
    assert back is not None
    group.take_over()
    assert group.beat(back.member_id, instance="pod-0") is ErrorCode.NONE
    assert group.beat(old, instance="pod-0") is ErrorCode.FENCED_INSTANCE_ID


def test_the_first_instance_that_joins_after_a_load_has_an_id_of_its_own() -> None:  # 8715
    group = ClassicGroup()
    ids = group.stable("a", "b", instance=None)
    group.take_over()
    event = group.joining(instance="pod-0")
    group.turn(event)
    assert sorted([*ids, event.fresh_member_id]) == group.members


def test_an_instance_that_leads_and_does_not_join_stays_and_another_leads() -> None:  # 8220
    group = ClassicGroup()
    [pod] = group.stable("a", instance="pod-0")
    assert group.leader == pod
    event = group.joining(client="b")
    group.turn(event)
    for _ in range(REBALANCE_MS // (SESSION_MS - 1) + 1):
        group.wait(SESSION_MS - 1)
        assert group.beat(pod) is not ErrorCode.UNKNOWN_MEMBER_ID
    answer = group.join_answer(event)
    assert answer is not None and answer.leader == group.leader == event.fresh_member_id
    assert pod in group.members


@pytest.mark.parametrize("instance", [None, "pod-0"])
def test_who_assigns_its_partitions_itself_commits_with_or_without_an_instance(
    instance: str | None,
) -> None:  # 14201
    group = ClassicGroup()
    [ann] = group.stable("ann")
    group.leave(ann)
    assert group.is_in(Phase.EMPTY)
    judgement = judge(group.state, "", instance, -1, {orders(0): 7}, {})
    assert judgement.error is ErrorCode.NONE and judgement.accepted == {orders(0): 7}


def test_no_request_leaves_a_timer_behind() -> None:  # 16663
    group = ClassicGroup(AT_ONCE)
    ids = group.stable("ann", "ben")
    for _ in range(1_000):
        group.wait(10)
        for member_id in ids:
            assert group.beat(member_id) is ErrorCode.NONE
            group.sync(member_id)
    assert len(group.state.classic.timers) <= 2 * len(ids)


def test_who_states_no_generation_to_its_strategy_settles_as_any_other() -> None:  # aiokafka 1176
    """Both claim all partitions of generation -1: that is for the leader to judge, who hears every byte."""
    claims = {"sticky": subscription(["orders"])[:-4] + b"\0\0\0\x04" + NEVER_TOLD}
    group = ClassicGroup()
    ann, ben = group.stable("ann", "ben", protocols=claims)
    first, last = group.joining(ann), group.joining(ben)
    group.turn(first, last)
    told = group.join_answer(first)
    assert told is not None
    assert [(one.member_id, one.metadata) for one in told.members] == [
        (one, claims["sticky"]) for one in (ann, ben)
    ]
    given = {ann: assignment({"orders": [0]}), ben: assignment({"orders": [1]})}
    group.sync(ann, given)
    answer = group.sync(ben)
    assert answer is not None and answer.assignment == given[ben] and group.is_in(Phase.STABLE)
    generation = group.told
    for _ in range(3):
        again = group.join(ben)
        assert again is not None and again.generation == generation and group.is_in(Phase.STABLE)
