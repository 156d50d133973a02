"""An operator's request is decided in a turn of its group: expected version, refusals, dry runs, effects."""

import pytest

from coordinator.core.draft import GroupDecision
from groups.core import records
from groups.core.requests import (
    Answer,
    AnyWish,
    Asked,
    DeleteGroup,
    DeleteOffsets,
    Findings,
    GroupRequest,
    Rebalance,
    Scope,
    SetStrategy,
    Verdict,
)
from groups.core.rows import apply
from groups.core.state import GroupRows
from muster.kernel.error_codes import ErrorCode
from muster.messages.partitions import Position, positions_by_topic
from tests.unit.coordinator_core.group import Group, orders, registering


def request(wish: AnyWish, expected: tuple[int, int] | None = None, *, dry_run: bool = False) -> GroupRequest:
    return GroupRequest("r-1", "olga", "we test", Asked(wish, expected, dry_run))


def answer_of(decision: GroupDecision) -> Answer:
    (decided,) = (one for one in decision.records if isinstance(one, records.RequestDecided))
    assert (decided.request_id, decided.principal, decided.reason) == ("r-1", "olga", "we test")
    return decided.answer


def committed(**rows: int) -> GroupRows:
    """An empty group that committed something for partitions 0, 1 and 2 of orders."""
    positions = positions_by_topic({orders(n): Position(10 * n, 0) for n in range(3)})
    return apply(GroupRows("readers", version=4, generation=3), (records.OffsetsSet(positions),))


def test_a_group_with_members_is_not_deleted_and_its_version_stays() -> None:
    group = Group().settled("ann", "ben")
    before = group.rows
    decision = group.turn(request(DeleteGroup()))
    answer = answer_of(decision)
    assert (answer.verdict, answer.error) == (Verdict.REFUSED, ErrorCode.NON_EMPTY_GROUP)
    assert "ann, ben" in answer.text
    assert len(decision.records) == 1 and group.rows is before


def test_an_empty_group_is_deleted_and_the_last_record_says_so() -> None:
    group = Group(rows=committed())
    decision = group.turn(request(DeleteGroup()))
    assert answer_of(decision).verdict is Verdict.DONE
    assert isinstance(decision.records[-1], records.GroupDeleted)
    assert not group.rows.offsets


def test_who_joins_in_the_same_turn_keeps_the_group() -> None:
    group = Group(rows=committed())
    decision = group.turn(request(DeleteGroup()), registering("ann"))
    assert answer_of(decision).error == ErrorCode.NON_EMPTY_GROUP
    assert group.rows.offsets and "ann" in group.rows.members


def test_a_second_request_of_the_turn_that_deletes_finds_no_group() -> None:
    group = Group(rows=committed())
    again = GroupRequest("r-2", "olga", "we test", Asked(SetStrategy("range")))
    decision = group.turn(request(DeleteGroup()), again)
    answers = [one.answer.error for one in decision.records if isinstance(one, records.RequestDecided)]
    assert answers == [0, ErrorCode.GROUP_ID_NOT_FOUND]


def test_another_version_than_the_expected_one_changes_nothing() -> None:
    group = Group(rows=committed())
    generation, version = group.rows.key
    for expected in ((generation, version - 1), (generation + 1, version)):
        assert answer_of(group.turn(request(DeleteGroup(), expected))).verdict is Verdict.CHANGED_MEANWHILE
    assert answer_of(group.turn(request(DeleteGroup(), (generation, version)))).verdict is Verdict.DONE


def test_an_event_of_the_same_turn_makes_the_expected_version_an_old_one() -> None:
    group = Group().settled("ann")
    generation, version = group.rows.key
    decision = group.turn(registering("ben"), request(Rebalance(), (generation, version)))
    assert answer_of(decision).verdict is Verdict.CHANGED_MEANWHILE


@pytest.mark.parametrize("wish", [DeleteGroup(), SetStrategy("range"), DeleteOffsets((Scope("orders"),))])
def test_a_dry_run_answers_and_changes_nothing(wish: AnyWish) -> None:
    group = Group(rows=committed())
    before = group.rows
    decision = group.turn(request(wish, dry_run=True))
    assert answer_of(decision).verdict is Verdict.WOULD_BE_DONE
    assert len(decision.records) == 1 and group.rows is before


def test_a_rebalance_asks_for_a_handler_at_once_and_says_who_asked() -> None:
    group = Group().settled("ann")
    decision = group.turn(request(Rebalance()))
    assert records.HandlerAsked("olga asked: we test") in decision.records
    assert answer_of(decision).verdict is Verdict.DONE


def test_a_group_without_members_has_nothing_to_rebalance() -> None:
    assert answer_of(Group(rows=committed()).turn(request(Rebalance()))).error == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_group_that_is_gone_is_not_made_by_asking() -> None:
    group = Group()
    decision = group.turn(request(Rebalance()))
    assert answer_of(decision).error == ErrorCode.GROUP_ID_NOT_FOUND
    assert group.rows.version == 0


def test_another_assignor_is_written_and_wants_a_rebalance() -> None:
    group = Group().settled("ann", "ben")
    decision = group.turn(request(SetStrategy("range")))
    assert decision.records[0] == records.StrategySet("range", "incremental")
    assert group.rows.handler_asked and group.rows.assignor == "range"


def test_another_mode_counts_for_the_next_rebalance_and_stops_nobody_now() -> None:
    group = Group().settled("ann")
    group.turn(request(SetStrategy(rebalance_mode="eager")))
    assert group.rows.rebalance_mode == "eager" and not group.rows.handler_asked
    assert answer_of(group.turn(request(SetStrategy(rebalance_mode="eager")))).text == "It is so already."


def test_offsets_are_deleted_by_topic_or_partition_and_the_answer_names_them() -> None:
    group = Group(rows=committed())
    decision = group.turn(request(DeleteOffsets((Scope("orders", (0, 2, 9)), Scope("clicks")))))
    changes = [(one.partition, one.before, one.after) for one in answer_of(decision).changes]
    assert changes == [(0, 0, -1), (2, 20, -1)]
    assert dict(group.rows.offsets) == {orders(1): 10}


def test_offsets_of_a_topic_that_members_read_are_not_deleted() -> None:
    group = Group(rows=committed()).settled("ann")
    answer = answer_of(group.turn(request(DeleteOffsets((Scope("orders"),)))))
    assert (answer.error, "ann" in answer.text) == (ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, True)


def test_where_nothing_is_committed_nothing_is_deleted() -> None:
    answer = answer_of(Group(rows=committed()).turn(request(DeleteOffsets((Scope("clicks"),)))))
    assert answer.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_what_could_not_be_found_out_is_the_reason_of_the_refusal() -> None:
    findings = Findings(error=int(ErrorCode.LEADER_NOT_AVAILABLE), text="nobody leads orders-0")
    asked = GroupRequest("r-1", "olga", "we test", Asked(Rebalance()), findings)
    answer = answer_of(Group().settled("ann").turn(asked))
    assert (answer.verdict, answer.text) == (Verdict.REFUSED, "nobody leads orders-0")
