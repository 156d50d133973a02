"""Consumers' fetch sessions share slots: who is silent goes first, then who fetches less than who comes."""

import pytest

from broker.core import fetch_sessions
from broker.core.fetch_sessions import MOST_EVICTED, FetchSessions, SessionBounds, Turns, next_number
from muster.kernel.error_codes import ErrorCode
from muster.kernel.instants import Instant, elapsed_ms

LONG_MS = SessionBounds().min_eviction_ms + 1
HERE, THERE = "10.0.0.1", "10.0.0.2"


def sessions(slots: int = 4, partitions: int = 1_000) -> FetchSessions[str]:
    return FetchSessions(SessionBounds(slots=slots, partitions=partitions))


def at(now_ms: int) -> Instant:
    return Instant(now_ms)


def full() -> FetchSessions[str]:
    """Four sessions of two addresses, of 10, 20, 30 and 40 partitions, that begin at 0."""
    known = sessions()
    for number, (name, address) in enumerate([("ann", HERE), ("ben", HERE), ("cleo", THERE), ("dan", THERE)]):
        assert known.enter(name, address, 10 * number + 10, at(0)) == (True, [])
    return known


def test_there_are_no_more_sessions_than_slots() -> None:
    known = full()
    assert known.enter("eve", "10.0.0.3", 1_000, at(0)) == (False, [])
    assert (len(known), known.partitions, known.evicted) == (4, 100, 0)


def test_who_was_silent_for_long_goes_first() -> None:
    known = full()
    for name, size in (("cleo", 30), ("ann", 10), ("dan", 40)):
        assert known.use(name, size, at(LONG_MS))
    assert known.enter("eve", "10.0.0.3", 1, at(LONG_MS)) == (True, ["ben"])
    assert (len(known), known.partitions, known.evicted) == (4, 81, 1)


def test_who_has_been_here_for_long_and_fetches_less_goes_next() -> None:
    known = full()
    for name, size in (("ann", 10), ("ben", 20), ("cleo", 30), ("dan", 40)):
        assert known.use(name, size, at(LONG_MS))
    assert known.enter("eve", "10.0.0.3", 10, at(LONG_MS)) == (False, [])
    assert known.enter("eve", "10.0.0.3", 11, at(LONG_MS)) == (True, ["ann"])


def test_who_came_just_now_is_left_alone_however_small() -> None:
    known = full()
    for name, size in (("ann", 10), ("ben", 20), ("cleo", 30), ("dan", 40)):
        assert known.use(name, size, at(LONG_MS - 1))
    assert known.enter("eve", "10.0.0.3", 500, at(LONG_MS - 1)) == (False, [])


def test_one_address_has_at_most_half_of_the_slots_and_then_its_own_go() -> None:
    known = sessions()
    assert known.enter("ann", HERE, 10, at(0)) == (True, [])
    assert known.enter("ben", HERE, 10, at(1)) == (True, [])
    assert known.enter("eve", HERE, 10, at(2)) == (False, [])
    assert known.enter("cleo", THERE, 10, at(2)) == (True, [])
    assert known.use("cleo", 10, at(2))
    assert known.enter("eve", HERE, 10, at(LONG_MS)) == (True, ["ann"])
    assert len(known) == 3


def test_one_address_names_at_most_half_of_the_partitions() -> None:
    known = sessions(partitions=100)
    assert known.enter("ann", HERE, 51, at(0)) == (False, [])
    assert known.enter("ann", HERE, 50, at(0)) == (True, [])
    assert known.enter("ben", HERE, 1, at(0)) == (False, [])
    assert known.enter("ben", THERE, 40, at(0)) == (True, [])


def test_all_addresses_name_no_more_partitions_than_the_bound() -> None:
    known = sessions(slots=10, partitions=100)
    for name, address in (("ann", HERE), ("ben", THERE)):
        assert known.enter(name, address, 45, at(0)) == (True, [])
    assert known.enter("cleo", "10.0.0.3", 11, at(0)) == (False, [])
    assert known.enter("cleo", "10.0.0.3", 10, at(0)) == (True, [])
    assert known.partitions == 100


def test_a_session_that_grows_beyond_the_bounds_is_kept_no_longer() -> None:
    known = sessions(partitions=100)
    known.enter("ann", HERE, 10, at(0))
    assert known.use("ann", 50, at(1))
    assert not known.use("ann", 51, at(2))
    assert (len(known), known.partitions) == (0, 0)


def test_a_session_that_shrinks_makes_room() -> None:
    known = sessions(partitions=100)
    known.enter("ann", HERE, 50, at(0))
    assert known.use("ann", 10, at(1))
    assert known.enter("ben", HERE, 40, at(1)) == (True, [])


def test_who_comes_costs_no_more_looks_than_the_bound() -> None:
    known = sessions(slots=100, partitions=200)
    for number in range(40):
        known.enter(f"session {number}", f"10.0.1.{number}", 5, at(0))
    is_kept, gone = known.enter("eve", HERE, 100, at(LONG_MS))
    assert (is_kept, len(gone)) == (False, MOST_EVICTED)


@pytest.mark.parametrize("address", [HERE, "10.0.0.3"])
def test_who_finds_no_slot_looks_at_nobody_who_is_as_large(
    monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    looks: list[Instant] = []

    def noted(since: Instant, until: Instant) -> int:
        looks.append(since)
        return elapsed_ms(since, until)

    known = sessions(slots=100)
    for number in range(50):
        known.enter(f"here {number}", HERE, 5, at(0))
        known.enter(f"there {number}", THERE, 5, at(0))
    for number in range(50):
        assert known.use(f"here {number}", 5, at(LONG_MS)) and known.use(f"there {number}", 5, at(LONG_MS))
    monkeypatch.setattr(fetch_sessions, "elapsed_ms", noted)
    assert known.enter("eve", address, 5, at(LONG_MS)) == (False, [])
    assert len(looks) == 1


def test_a_session_that_grew_or_shrank_is_judged_by_its_size() -> None:
    known = full()
    for name, size in (("ann", 100), ("ben", 20), ("cleo", 5), ("dan", 40)):
        assert known.use(name, size, at(LONG_MS))
    assert known.enter("eve", "10.0.0.3", 6, at(LONG_MS)) == (True, ["cleo"])
    assert known.enter("fay", "10.0.0.4", 6, at(LONG_MS)) == (False, [])
    assert known.partitions == 166


def test_who_left_is_not_counted() -> None:
    known = full()
    known.leave("ann")
    known.leave("ann")
    assert (len(known), known.partitions) == (3, 90)
    assert known.enter("eve", HERE, 5, at(0)) == (True, [])


@pytest.mark.parametrize(("number", "follows"), [(0, 1), (1, 2), (2**31 - 2, 2**31 - 1), (2**31 - 1, 1)])
def test_zero_is_no_number_of_a_session_that_goes_on(number: int, follows: int) -> None:
    assert next_number(number) == follows


def test_a_request_out_of_turn_changes_nothing() -> None:
    turns = Turns(7)
    assert turns.take(2) is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert turns.take(1) is ErrorCode.NONE
    assert turns.take(1) is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert turns.take(2) is ErrorCode.NONE
