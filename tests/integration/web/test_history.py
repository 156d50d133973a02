"""This room tests how rebalances are told from the journal: length, cause, what moved, what failed."""

from datetime import UTC, datetime, timedelta
from typing import Any

from groups.history import Entry, rebalances

START = datetime(2026, 11, 21, 3, 0, tzinfo=UTC)


def entry(second: float, *records: dict[str, Any], cause: str = "turn") -> Entry:
    """One turn, so many seconds after three o'clock."""
    return Entry(START + timedelta(seconds=second), cause, records)


def phase(name: str) -> dict[str, Any]:
    return {"record": "PhaseEntered", "phase": name}


def parts(record: str, member: str, *numbers: int) -> dict[str, Any]:
    partitions = [{"topic": "orders", "topic_id": "x", "partitions": list(numbers)}]
    return {"record": record, "member_id": member, "partitions": partitions}


def member(record: str, name: str, **more: Any) -> dict[str, Any]:
    return {"record": record, "member_id": name, **more}


def opened(generation: int) -> dict[str, Any]:
    return {"record": "GenerationOpened", "generation": generation}


def test_a_rebalance_is_measured_from_opening_to_close_to_stable() -> None:
    (one,) = rebalances(
        [
            entry(0, member("MemberAdded", "ben"), phase("PreparingRebalance")),
            entry(
                2,
                opened(5),
                parts("PartitionsReleased", "ann", 1),
                parts("PartitionsAssigned", "ben", 1),
                phase("CompletingRebalance"),
            ),
            entry(2.5, phase("Stable")),
        ]
    )
    assert (one.generation, one.cause, one.detail) == (5, "member joined", "ben")
    assert (one.preparing_ms, one.completing_ms, one.length_ms) == (2000, 500, 2500)
    assert one.moved == 1
    assert (one.moves["orders", 1].before, one.moves["orders", 1].after) == ("ann", "ben")


def test_an_attempt_that_never_closed_has_failed_and_has_no_generation() -> None:
    second, first = rebalances(
        [
            entry(0, member("MemberAdded", "ben"), phase("PreparingRebalance")),
            entry(1, member("MemberRemoved", "ben", why="expelled"), phase("Stable")),
            entry(2, phase("PreparingRebalance"), cause="again"),
            entry(3, opened(6), phase("Stable")),
        ]
    )
    assert (first.failed, first.generation, first.length_ms) == (True, None, 1000)
    assert (second.failed, second.generation, second.cause) == (False, 6, "member removed: expelled")


def test_a_close_in_the_turn_of_the_opening_takes_no_time_to_prepare() -> None:
    (one,) = rebalances(
        [
            entry(
                0,
                member("MemberAdded", "ann"),
                opened(1),
                parts("PartitionsAssigned", "ann", 0, 1),
                phase("CompletingRebalance"),
            ),
            entry(0.3, phase("Stable")),
        ]
    )
    assert (one.preparing_ms, one.completing_ms, one.moved) == (0, 300, 2)


def test_the_partitions_of_one_who_left_are_tied_to_the_next_owner() -> None:
    newest, _ = rebalances(
        [
            entry(
                0,
                member("MemberAdded", "ann"),
                opened(1),
                parts("PartitionsAssigned", "ann", 0),
                phase("Stable"),
            ),
            entry(5, member("MemberRemoved", "ann", why="session over")),
            entry(6, opened(2), parts("PartitionsAssigned", "ben", 0), phase("CompletingRebalance")),
        ]
    )
    assert newest.cause == "member expired"
    assert newest.moves["orders", 0].before == "ann"
    assert newest.open


def test_a_member_that_said_why_it_went_is_shown_with_its_words() -> None:
    [newest] = rebalances(
        [
            entry(5, member("MemberRemoved", "ann", why="left: its handler does not return")),
            entry(6, opened(2), phase("Stable")),
        ]
    )
    assert (newest.cause, newest.detail) == ("member left: its handler does not return", "ann")


def test_what_stays_with_its_owner_has_not_moved() -> None:
    newest, _ = rebalances(
        [
            entry(0, opened(1), parts("PartitionsAssigned", "ann", 0), phase("Stable")),
            entry(5, phase("PreparingRebalance")),
            entry(
                6,
                opened(2),
                parts("PartitionsReleased", "ann", 0),
                parts("PartitionsAssigned", "ann", 0),
                phase("Stable"),
            ),
        ]
    )
    assert newest.moved == 0


def test_records_of_a_later_product_are_passed_over() -> None:
    assert rebalances([entry(0, {"record": "SomethingNew"}, {"other": 1})]) == []
