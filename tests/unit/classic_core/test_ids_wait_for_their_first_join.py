"""Ids that were given and have not joined yet (conformance 37 to 46)."""

from groups.core.phases import Phase
from muster.kernel.error_codes import ErrorCode
from tests.unit.classic_core.group import SESSION_MS, ClassicGroup


def given(group: ClassicGroup, client: str = "app") -> str:
    """An id, as MEMBER_ID_REQUIRED brings it."""
    answer = group.join(client=client, knows_ids=True)
    assert answer is not None and answer.error is ErrorCode.MEMBER_ID_REQUIRED
    return answer.member_id


def test_an_id_is_given_at_once_and_in_any_phase() -> None:  # 37
    group = ClassicGroup()
    assert given(group) == "app-1"
    group.stable("a")
    before = group.rows
    assert given(group, "b") == "b-3"
    assert group.rows is before and group.is_in(Phase.STABLE)
    group.join(group.leader)
    assert given(group, "c") and group.decision.records == ()


def test_an_old_client_is_a_member_without_knowing_its_id() -> None:  # 38
    group = ClassicGroup()
    group.stable("a")
    assert group.join(client="b") is None
    assert group.members == ["a-1", "b-2"]


def test_an_id_that_joins_is_a_new_member() -> None:  # 39
    group = ClassicGroup()
    group.stable("a")
    name = given(group, "b")
    assert group.join(name, client="b") is None
    assert group.state.classic.pending == {} and group.state.classic.sessions[name].fresh
    assert group.is_in(Phase.PREPARING_REBALANCE)


def test_an_id_that_was_given_belongs_to_no_instance() -> None:  # 40
    group = ClassicGroup()
    group.stable("a")
    answer = group.join(given(group, "b"), instance="pod-0")
    assert answer is not None and answer.error is ErrorCode.UNKNOWN_SERVER_ERROR


def rebalancing(group: ClassicGroup) -> str:
    """Everybody has joined but an id that was given."""
    (ann,) = group.stable("a")
    name = given(group, "b")
    group.join(ann)
    assert group.is_in(Phase.PREPARING_REBALANCE)  # 41
    return name


def test_the_join_phase_waits_for_an_id_until_its_time_is_over() -> None:  # 41, 42
    group = ClassicGroup()
    rebalancing(group)
    group.wait(SESSION_MS - 1)
    assert group.is_in(Phase.PREPARING_REBALANCE)
    group.wait(1)
    assert group.is_in(Phase.COMPLETING_REBALANCE) and group.rows.generation == 2


def test_the_join_phase_ends_when_the_id_leaves() -> None:  # 43
    group = ClassicGroup()
    name = rebalancing(group)
    assert group.leave(name) == [ErrorCode.NONE]
    assert group.is_in(Phase.COMPLETING_REBALANCE)


def test_an_id_that_leaves_or_expires_is_no_rebalance() -> None:  # 43
    group = ClassicGroup()
    (ann,) = group.stable("a")
    assert group.leave(given(group)) == [ErrorCode.NONE]
    given(group)
    for _ in range(3):
        group.beat(ann)
        group.wait(5_000)
    assert (group.rows.phase, group.rows.generation, group.state.classic.pending) == (Phase.STABLE, 1, {})


def test_the_join_timer_does_not_wait_for_ids() -> None:  # 44
    group = ClassicGroup()
    (ann,) = group.stable("a", rebalance_ms=5_000)
    name = given(group, "b")
    group.join(ann)
    group.wait(5_000)
    assert group.is_in(Phase.COMPLETING_REBALANCE) and list(group.state.classic.pending) == [name]


def test_an_id_that_has_not_joined_is_nobody() -> None:  # 45
    group = ClassicGroup()
    group.stable("a")
    name = given(group)
    assert group.beat(name) is ErrorCode.UNKNOWN_MEMBER_ID
    answer = group.sync(name)
    assert answer is not None and answer.error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_takeover_forgets_ids_that_have_not_joined() -> None:  # 46
    group = ClassicGroup()
    group.stable("a")
    name = given(group)
    group.take_over()
    answer = group.join(name)
    assert answer is not None and (answer.error, answer.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, name)
