"""Rebalances are told from records: length, cause, what moved, what failed."""

import pytest

from groups.core.rebalances import Fold, rebalances
from groups.core.records import GenerationOpened, GenerationSkipped, HandlerAsked, MemberRemoved
from groups.core.state import GroupRows, Tenure
from tests.unit.coordinator_core.group import orders
from tests.unit.groups_core.turns import assigned, joined, phase, released, turn


def test_a_rebalance_is_measured_from_opening_to_close_to_stable() -> None:
    (one,) = rebalances(
        [
            turn(0, joined("ben"), phase("PreparingRebalance")),
            turn(
                2, GenerationOpened(5), released("ann", 1), assigned("ben", 1), phase("CompletingRebalance")
            ),
            turn(2.5, phase("Stable")),
        ]
    )
    assert (one.generation, one.cause, one.detail) == (5, "member joined", "ben")
    assert (one.preparing_ms, one.completing_ms, one.length_ms) == (2000, 500, 2500)
    assert one.moved == 1
    assert (one.moves[orders(1)].before, one.moves[orders(1)].after) == ("ann", "ben")


def test_who_joined_while_a_handler_computed_is_named_in_the_same_words_by_the_next_rebalance() -> None:
    second, first = rebalances(
        [
            turn(0, joined("ann"), HandlerAsked("ann joined")),
            turn(1, joined("ben")),
            turn(2, GenerationOpened(1), phase("CompletingRebalance")),
            turn(
                3, phase("Stable"), HandlerAsked("ben joined"), cause="a rebalance is asked for: ben joined"
            ),
            turn(4, phase("PreparingRebalance")),
        ]
    )
    assert (first.cause, first.detail) == ("member joined", "ann, ben")
    assert (second.cause, second.detail) == ("member joined", "ben")


@pytest.mark.parametrize(
    ("asked", "cause", "detail"),
    [
        ("a member: of two joined", "member joined", "a member: of two"),
        ("ann changed its subscription", "subscription changed", "ann"),
        ("ann: left", "member left", "ann"),
        ("ann: session over", "member expired", "ann"),
        ("topics changed", "topics changed", ""),
        ("the handler failed: it ended", "the handler failed: it ended", ""),
    ],
)
def test_a_handler_is_asked_in_the_words_of_records(asked: str, cause: str, detail: str) -> None:
    (one,) = rebalances([turn(0, HandlerAsked(asked)), turn(1, phase("PreparingRebalance"))])
    assert (one.cause, one.detail) == (cause, detail)


def test_an_attempt_that_never_closed_has_failed_and_has_no_generation() -> None:
    second, first = rebalances(
        [
            turn(0, joined("ben"), phase("PreparingRebalance")),
            turn(1, MemberRemoved("ben", "expelled"), phase("Stable")),
            turn(2, phase("PreparingRebalance"), cause="again"),
            turn(3, GenerationOpened(6), phase("Stable")),
        ]
    )
    assert (first.failed, first.generation, first.length_ms) == (True, None, 1000)
    assert (second.failed, second.generation, second.cause) == (False, 6, "member removed: expelled")


def test_an_attempt_that_fails_while_somebody_has_still_to_start_is_over_too() -> None:
    (one,) = rebalances([turn(0, phase("PreparingRebalance")), turn(4, phase("CompletingRebalance"))])
    assert (one.failed, one.ended_ms) == (True, 4000)


def test_a_close_in_the_turn_of_the_opening_takes_no_time_to_prepare() -> None:
    (one,) = rebalances(
        [
            turn(0, joined("ann"), GenerationOpened(1), assigned("ann", 0, 1), phase("CompletingRebalance")),
            turn(0.5, phase("Stable")),
        ]
    )
    assert (one.preparing_ms, one.completing_ms, one.moved) == (0, 500, 2)


def test_the_partitions_of_one_who_left_are_tied_to_the_next_owner() -> None:
    newest, _ = rebalances(
        [
            turn(0, joined("ann"), GenerationOpened(1), assigned("ann", 0), phase("Stable")),
            turn(5, MemberRemoved("ann", "session over")),
            turn(6, GenerationOpened(2), assigned("ben", 0), phase("CompletingRebalance")),
        ]
    )
    assert newest.cause == "member expired"
    assert newest.moves[orders(0)].before == "ann"
    assert newest.ended_ms is None


def test_a_member_that_said_why_it_went_is_shown_with_its_words() -> None:
    (one,) = rebalances(
        [
            turn(5, MemberRemoved("ann", "left: its handler does not return")),
            turn(6, GenerationOpened(2), phase("Stable")),
        ]
    )
    assert (one.cause, one.detail) == ("member left: its handler does not return", "ann")


def test_what_stays_with_its_owner_has_not_moved() -> None:
    newest, _ = rebalances(
        [
            turn(0, GenerationOpened(1), assigned("ann", 0), phase("Stable")),
            turn(5, phase("PreparingRebalance")),
            turn(6, GenerationOpened(2), released("ann", 0), assigned("ann", 0), phase("Stable")),
        ]
    )
    assert newest.moved == 0


def test_an_owner_begins_with_what_its_rows_say() -> None:
    fold = Fold(GroupRows("readers", owned={"ann": {orders(0): Tenure(3, running=True)}}))
    fold.take(*turn(0, MemberRemoved("ann", "left")))
    fold.take(*turn(1, GenerationOpened(4), assigned("ann", 0)))
    assert fold.last is not None and fold.last.moved == 0


def test_a_generation_that_was_skipped_is_no_rebalance() -> None:
    (one,) = rebalances(
        [
            turn(0, GenerationOpened(1), assigned("ann", 0), phase("Stable")),
            turn(5, MemberRemoved("ann", "left"), phase("Empty")),
            turn(6, GenerationSkipped(2)),
            turn(9, joined("ben"), phase("Stable")),
        ]
    )
    assert (one.generation, one.failed) == (1, False)
