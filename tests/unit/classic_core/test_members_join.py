"""JoinGroup of strangers and of members, in each phase (conformance 4, 14 to 31)."""

import pytest

from coordinator.core.events import JoinAnswer
from groups.core.phases import Phase
from groups.core.records import PhaseEntered
from groups.core.state import GroupRows
from muster.kernel.error_codes import ErrorCode
from tests.unit.classic_core.group import AT_ONCE, SESSION_MS, ClassicGroup


def refused(answer: JoinAnswer | None) -> tuple[ErrorCode, str]:
    assert answer is not None and (answer.generation, answer.leader, answer.members) == (-1, "", ())
    assert answer.protocol_type is answer.protocol_name is None
    return answer.error, answer.member_id


@pytest.mark.parametrize("session_ms", [5_999, 1_800_001])
def test_a_session_timeout_has_bounds(session_ms: int) -> None:  # 4
    group = ClassicGroup()
    assert refused(group.join(session_ms=session_ms)) == (ErrorCode.INVALID_SESSION_TIMEOUT, "")
    assert group.rows == GroupRows("billing")


def test_a_known_id_makes_no_group() -> None:  # 14
    group = ClassicGroup()
    assert refused(group.join("app-7")) == (ErrorCode.UNKNOWN_MEMBER_ID, "app-7")
    assert group.rows == GroupRows("billing")


def test_a_stranger_makes_a_group() -> None:  # 15
    group = ClassicGroup()
    assert refused(group.join(knows_ids=True)) == (ErrorCode.MEMBER_ID_REQUIRED, "app-1")
    assert (group.rows.protocol, group.rows.phase, group.rows.generation) == ("classic", Phase.EMPTY, 0)
    assert group.rows.version == 1


def test_nobody_joins_an_empty_group_without_a_protocol() -> None:  # 18
    group = ClassicGroup()
    assert refused(group.join(protocols={}))[0] is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert refused(group.join(kind=""))[0] is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert group.rows.version == 0, "Kafka leaves an empty group behind"


def test_who_shares_no_protocol_with_all_is_refused() -> None:  # 19
    group = ClassicGroup()
    group.stable("a", protocols={"range": b"", "sticky": b""})
    before = group.rows
    assert refused(group.join(kind="connect"))[0] is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert refused(group.join(protocols={"roundrobin": b""}))[0] is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert refused(group.join(group.leader, kind="connect")) == (
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        group.leader,
    )
    assert group.rows == before


def test_the_first_member_waits_for_the_initial_delay_and_leads() -> None:  # 20, 31
    group = ClassicGroup()
    event = group.joining()
    group.settings = AT_ONCE.__class__()
    assert group.turn(event).look_again_at == group.now + 3_000
    assert group.join_answer(event) is None
    assert (group.rows.phase, group.leader) == (Phase.PREPARING_REBALANCE, "app-1")
    group.wait(3_000)
    answer = group.join_answer(event)
    assert answer is not None and (answer.generation, answer.leader) == (1, "app-1")


def test_who_joins_again_replaces_its_join() -> None:  # 21
    group = ClassicGroup()
    ann, _ = group.stable("a", "b")
    first = group.joining(ann, protocols={"range": b"v2"})
    second = group.joining(ann, protocols={"range": b"v3"})
    group.turn(first)
    group.turn(second)
    answer = group.join_answer(first)
    # Kafka never answers it; a connection that answers in order would be stuck.
    assert answer is not None and answer.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert group.join_answer(second) is None
    assert group.classic.members[ann].protocols == (("range", b"v3"),)


def test_an_unchanged_member_hears_its_generation_while_the_others_sync() -> None:  # 22
    group = ClassicGroup()
    leader, follower = group.completed("a", "b")
    again = group.join(leader)
    assert again is not None and (again.generation, len(again.members)) == (1, 2)
    again = group.join(follower)
    assert again is not None and (again.generation, again.members) == (1, ())
    assert group.is_in(Phase.COMPLETING_REBALANCE)


def test_a_changed_member_begins_a_rebalance_while_the_others_sync() -> None:  # 23, 62
    group = ClassicGroup()
    _, follower = group.completed("a", "b")
    waiting = group.syncing(follower)
    group.turn(waiting)
    assert group.sync_answer(waiting) is None
    assert group.join(follower, protocols={"range": b"v2"}) is None
    answer = group.sync_answer(waiting)
    assert answer is not None and answer.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert group.is_in(Phase.PREPARING_REBALANCE)


def test_a_leader_that_joins_again_begins_a_rebalance() -> None:  # 24
    group = ClassicGroup()
    leader, _ = group.stable("a", "b")
    assert group.join(leader) is None
    (record,) = group.decision.records
    assert record == PhaseEntered(Phase.PREPARING_REBALANCE, f"{leader} leads, and joined again")


def test_a_follower_with_other_protocols_begins_a_rebalance() -> None:  # 25
    group = ClassicGroup()
    _, follower = group.stable("a", "b")
    assert group.join(follower, protocols={"range": b"v2"}) is None
    assert group.is_in(Phase.PREPARING_REBALANCE)


def test_an_unchanged_follower_disturbs_nobody() -> None:  # 26
    group = ClassicGroup()
    leader, follower = group.stable("a", "b")
    answer = group.join(follower)
    assert answer is not None
    assert (answer.error, answer.generation, answer.leader, answer.members) == (ErrorCode.NONE, 1, leader, ())
    assert group.decision.records == () and group.is_in(Phase.STABLE)


def test_a_known_id_is_unknown_to_a_group_that_became_empty() -> None:  # 27
    group = ClassicGroup()
    (ann,) = group.stable("a")
    group.leave(ann)
    assert refused(group.join(ann)) == (ErrorCode.UNKNOWN_MEMBER_ID, ann)


def test_a_strange_id_is_unknown() -> None:  # 28
    group = ClassicGroup()
    group.stable("a")
    assert refused(group.join("app-9")) == (ErrorCode.UNKNOWN_MEMBER_ID, "app-9")


def test_the_last_join_answers_all_together_and_lists_members_for_the_leader() -> None:  # 29
    group = ClassicGroup()
    leader, follower = group.stable("a", "b", protocols={"range": b"v1", "sticky": b"s"})
    first = group.joining(leader, protocols={"sticky": b"s", "range": b"v2"})
    last = group.joining(follower, protocols={"range": b"v3"})
    group.turn(first)
    assert group.join_answer(first) is None
    group.turn(last)
    told, other = group.join_answer(first), group.join_answer(last)
    assert told is not None and other is not None
    assert (told.generation, told.protocol_name, told.leader) == (2, "range", leader)
    assert [(one.member_id, one.metadata) for one in told.members] == [(leader, b"v2"), (follower, b"v3")]
    assert (other.generation, other.leader, other.members) == (2, leader, ())
    assert group.is_in(Phase.COMPLETING_REBALANCE)


def test_who_joins_in_the_same_turn_as_the_last_that_was_waited_for_is_in_the_generation() -> None:
    group = ClassicGroup()
    old = group.stable("a", "b")
    again = [group.joining(one) for one in old]
    group.turn(again[0])
    newcomer = group.joining(client="c")
    group.turn(again[1], newcomer)
    answers = [group.join_answer(one) for one in (*again, newcomer)]
    assert [answer and answer.generation for answer in answers] == [2, 2, 2]
    assert len(group.members) == 3 and group.is_in(Phase.COMPLETING_REBALANCE)


def test_when_the_join_phase_ends_sessions_begin_and_syncs_are_owed() -> None:  # 30
    group = ClassicGroup()
    ids = group.completed("a", "b", rebalance_ms=20_000)
    memory = group.state.classic
    assert set(memory.owing) == set(ids) and memory.sync_ends_at == group.now + 20_000
    assert all(not one.fresh and one.ends_at == group.now + SESSION_MS for one in memory.sessions.values())


def test_who_leads_stays_leader_if_it_joins() -> None:  # 31
    group = ClassicGroup()
    ann, ben, cleo = group.stable("a", "b", "c")
    assert group.leader == ann
    group.turn(*(group.joining(one, protocols={"range": b"v2"}) for one in (cleo, ben, ann)))
    assert group.leader == ann


def test_if_the_leader_stays_away_the_first_that_joined_leads() -> None:  # 31, 97
    group = ClassicGroup()
    ann, ben, cleo = group.stable("a", "b", "c", rebalance_ms=5_000)
    group.turn(*(group.joining(one, protocols={"range": b"v2"}) for one in (cleo, ben)))
    group.wait(5_000)
    assert group.members == [ben, cleo] and group.leader == ben
    assert ann not in group.state.classic.sessions


def test_a_join_that_changes_nothing_of_its_member_writes_nothing() -> None:
    group = ClassicGroup()
    ann, ben, _ = group.stable("a", "b", "c")
    group.join(ann)
    group.join(ben)
    assert group.decision.records == ()
