"""Committed offsets set by an operator: where they go, what is clamped and said, refused, undone."""

from dataclasses import replace

import pytest

from coordinator.core.events import OffsetsOrphaned
from groups.core import records
from groups.core.phases import Phase
from groups.core.requests import (
    Answer,
    AnyWish,
    Asked,
    DeleteOffsets,
    Findings,
    Found,
    GroupRequest,
    ResetOffsets,
    Scope,
    UndoReset,
    Verdict,
)
from groups.core.rows import apply
from groups.core.state import GroupRows, OffsetNote
from muster.kernel.error_codes import ErrorCode
from muster.messages.partitions import Position, positions_by_topic
from tests.unit.coordinator_core.group import ORDERS, Group, orders


def found(number: int, earliest: int = 5, latest: int = 100, other: int = -1) -> Found:
    return Found("orders", ORDERS.topic_id, number, earliest, latest, other)


def committed(*offsets: int) -> Group:
    """A group without members that committed these for partitions 0, 1, …"""
    positions = {orders(number): Position(offset, 0) for number, offset in enumerate(offsets)}
    rows = apply(GroupRows("readers", version=4), (records.OffsetsSet(positions_by_topic(positions)),))
    return Group(rows=rows)


def ask(group: Group, wish: AnyWish, *of: Found, error: str = "", dry_run: bool = False) -> Answer:
    code = ErrorCode.LEADER_NOT_AVAILABLE if error else ErrorCode.NONE
    findings = Findings(of, int(code), error)
    decision = group.turn(GroupRequest("r", "olga", "we test", Asked(wish, dry_run=dry_run), findings))
    (answer,) = (one.answer for one in decision.records if isinstance(one, records.RequestDecided))
    return answer


def told(answer: Answer) -> list[tuple[int, int, int]]:
    return [(one.partition, one.before, one.after) for one in answer.changes]


def test_what_is_set_stays_though_its_partition_had_another_before_it() -> None:
    """The offset was found to be of a partition that was removed, and is the one that is asked for."""
    group = committed(20, 30)
    wish = Asked(ResetOffsets("offset", 20))
    reset = GroupRequest("r", "olga", "we test", wish, Findings((found(0),)))
    group.turn(OffsetsOrphaned(((orders(0), 20), (orders(1), 30))), reset)
    assert group.rows.offsets == {orders(0): 20}


@pytest.mark.parametrize(
    ("wish", "other", "expected"),
    [
        (ResetOffsets("earliest"), -1, 5),
        (ResetOffsets("latest"), -1, 100),
        (ResetOffsets("time", 1_700_000_000_000), 42, 42),
        (ResetOffsets("offset", 7), -1, 7),
        (ResetOffsets("shift", -10), -1, 20),
        (ResetOffsets("shift", 10), -1, 40),
        (ResetOffsets("group", source="others"), 66, 66),
    ],
)
def test_an_offset_goes_where_it_is_told(wish: ResetOffsets, other: int, expected: int) -> None:
    group = committed(30)
    answer = ask(group, wish, found(0, other=other))
    assert (answer.verdict, told(answer), answer.changes[0].note) == (Verdict.DONE, [(0, 30, expected)], "")
    assert dict(group.rows.offsets) == {orders(0): expected}


@pytest.mark.parametrize(
    ("wish", "expected"),
    [(ResetOffsets("offset", 101), 100), (ResetOffsets("offset", 0), 5), (ResetOffsets("shift", -99), 5)],
)
def test_what_lies_outside_of_the_log_is_moved_to_its_end_and_said(wish: ResetOffsets, expected: int) -> None:
    answer = ask(committed(30), wish, found(0))
    assert told(answer) == [(0, 30, expected)]
    assert "outside of the log, which holds 5 to 100" in answer.changes[0].note


def test_a_time_after_the_last_record_is_the_end() -> None:
    answer = ask(committed(30), ResetOffsets("time", 9), found(0))
    assert told(answer) == [(0, 30, 100)] and answer.changes[0].note


def test_where_nothing_is_committed_there_is_nothing_to_shift_or_copy() -> None:
    group = committed(30)
    for wish in (ResetOffsets("shift", 1), ResetOffsets("group", source="others")):
        answer = ask(group, wish, found(1))
        assert told(answer) == [(1, -1, -1)] and answer.changes[0].note
    assert dict(group.rows.offsets) == {orders(0): 30}
    answer = ask(group, ResetOffsets("group", source="others"), found(0))
    assert told(answer) == [(0, 30, 30)]


def test_a_dry_run_tells_the_same_and_sets_nothing() -> None:
    group = committed(30, 40)
    tried = ask(group, ResetOffsets("latest"), found(1), found(0), dry_run=True)
    assert (tried.verdict, told(tried)) == (Verdict.WOULD_BE_DONE, [(0, 30, 100), (1, 40, 100)])
    assert set(group.rows.offsets.values()) == {30, 40}
    assert ask(group, ResetOffsets("latest"), found(0), found(1)).changes == tried.changes


def test_members_would_commit_over_it_so_a_group_with_members_is_refused() -> None:
    group = committed(30).settled("ann")
    answer = ask(group, ResetOffsets("latest"), found(0))
    assert (answer.verdict, answer.error) == (Verdict.REFUSED, ErrorCode.NON_EMPTY_GROUP)
    assert "ann" in answer.text and told(answer) == [(0, 30, 100)]
    assert group.rows.offsets[orders(0)] == 30


def test_what_no_leader_said_is_not_guessed() -> None:
    answer = ask(committed(30), ResetOffsets("latest"), error="nobody leads orders-0 now")
    assert (answer.error, answer.text) == (ErrorCode.LEADER_NOT_AVAILABLE, "nobody leads orders-0 now")


def undo_of(answer: Answer) -> UndoReset:
    return UndoReset("r", tuple(one for one in answer.changes if one.before != one.after))


def test_undo_puts_back_what_was_there_and_what_was_not() -> None:
    group = committed(30)
    done = ask(group, ResetOffsets("latest"), found(0), found(1))
    assert dict(group.rows.offsets) == {orders(0): 100, orders(1): 100}
    back = ask(group, undo_of(done))
    assert (back.verdict, told(back)) == (Verdict.DONE, [(0, 100, 30), (1, 100, -1)])
    assert dict(group.rows.offsets) == {orders(0): 30}


def test_what_was_said_of_the_old_offset_is_not_said_of_the_new_one_nor_after_undo() -> None:
    note = OffsetNote(3, "read up to here", 1_700_000_000_000)
    rows = committed(30, 40).rows
    group = Group(rows=replace(rows, offset_notes={orders(0): note, orders(1): note}))
    done = ask(group, ResetOffsets("earliest"), found(0))
    assert dict(group.rows.offset_notes) == {orders(1): note}
    ask(group, undo_of(done))
    assert dict(group.rows.offsets) == {orders(0): 30, orders(1): 40}
    assert dict(group.rows.offset_notes) == {orders(1): note}


def test_undo_is_refused_where_something_else_was_committed_since() -> None:
    group = committed(30, 40)
    done = ask(group, ResetOffsets("latest"), found(0), found(1))
    ask(group, ResetOffsets("offset", 99), found(1))
    answer = ask(group, undo_of(done))
    assert answer.verdict is Verdict.REFUSED and "orders-1" in answer.text
    assert dict(group.rows.offsets) == {orders(0): 100, orders(1): 99}


def test_a_generation_is_skipped_so_that_who_was_away_begins_where_it_is_told() -> None:
    group = committed(30)
    ask(group, ResetOffsets("latest"), found(0), dry_run=True)
    assert group.rows.generation == 0
    done = ask(group, ResetOffsets("latest"), found(0))
    assert group.rows.generation == 1
    ask(group, undo_of(done))
    assert group.rows.generation == 2
    ask(group, DeleteOffsets((Scope("orders"),)))
    assert (group.rows.generation, group.rows.phase, dict(group.rows.offsets)) == (3, Phase.EMPTY, {})


def test_no_generation_is_skipped_where_no_offset_moves() -> None:
    group = committed(30)
    assert ask(group, ResetOffsets("offset", 30), found(0)).verdict is Verdict.DONE
    assert group.rows.generation == 0
