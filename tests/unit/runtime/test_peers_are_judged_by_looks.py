"""Crashed needs two looks 0.4 s apart, gone one and an address that refuses, hung 5.5 s of looks on end.

Doubts begin again when the peer renews.
"""

from muster.kernel.instants import Instant
from runtime.database import Peer
from runtime.judging import (
    CRASHED,
    GONE,
    HASTE_MS,
    HUNG,
    HUNG_AFTER_MS,
    LOOK_EVERY_MS,
    PROOF_MS,
    RECONNECTED_MS,
    Judge,
    Verdict,
)


def peer(renewals: int, there: bool = True) -> Peer:
    return Peer("bbbb", "node-2", "ws://two", False, renewals, there)


def look(judge: Judge, at_ms: int, *peers: Peer) -> list[Verdict]:
    return judge.look(peers, Instant(at_ms))


def test_one_look_without_the_backend_proves_nothing() -> None:
    judge = Judge()
    assert look(judge, 0, peer(1)) == []
    assert look(judge, 400, peer(1, there=False)) == []


def test_two_looks_without_the_backend_mean_crashed() -> None:
    judge = Judge()
    look(judge, 0, peer(1, there=False))
    assert look(judge, LOOK_EVERY_MS, peer(1, there=False)) == [Verdict("bbbb", 1, CRASHED)]


def test_an_early_second_look_does_not_count() -> None:
    judge = Judge()
    look(judge, 0, peer(1, there=False))
    assert look(judge, LOOK_EVERY_MS - 1, peer(1, there=False)) == []


def test_a_renewal_between_the_looks_clears_the_peer() -> None:
    judge = Judge()
    look(judge, 0, peer(1, there=False))
    assert look(judge, 400, peer(2, there=False)) == []
    assert look(judge, 800, peer(3)) == []


def test_a_backend_that_came_back_clears_the_peer() -> None:
    judge = Judge()
    look(judge, 0, peer(1, there=False))
    look(judge, 400, peer(1))
    assert look(judge, 800, peer(1, there=False)) == []


def test_renewals_that_stand_still_mean_hung() -> None:
    judge = Judge()
    times = range(0, HUNG_AFTER_MS + LOOK_EVERY_MS, LOOK_EVERY_MS)
    verdicts = [(at, look(judge, at, peer(7))) for at in times]
    assert [at for at, found in verdicts if found] == [at for at in times if at >= HUNG_AFTER_MS]
    assert verdicts[-1][1] == [Verdict("bbbb", 7, HUNG)]


def test_a_gap_in_the_own_looks_begins_everything_again() -> None:
    judge = Judge()
    for at in range(0, 5_200, 400):
        look(judge, at, peer(7))
    assert look(judge, 4_800 + 1_001, peer(7, there=False)) == []
    assert look(judge, 6_000, peer(7)) == []


def test_a_new_connection_begins_everything_again() -> None:
    judge = Judge()
    look(judge, 0, peer(1, there=False))
    judge.begin_again()
    assert look(judge, 400, peer(1, there=False)) == []


def test_a_peer_may_come_back_later_than_who_lost_its_connection_as_well() -> None:
    """A server that starts again ends the connections of all: whoever was slower by 0.4 s was robbed."""
    judge = Judge()
    look(judge, 0, peer(1))
    judge.begin_again()
    back_at = 2_000
    for at in range(back_at, back_at + RECONNECTED_MS, LOOK_EVERY_MS):
        assert look(judge, at, peer(1, there=False)) == []
    crashed = [Verdict("bbbb", 1, CRASHED)]
    assert look(judge, back_at + RECONNECTED_MS + LOOK_EVERY_MS, peer(1, there=False)) == crashed


def test_who_refuses_is_gone_also_for_who_has_just_come_back() -> None:
    judge = Judge()
    look(judge, 0, peer(1))
    judge.begin_again()
    refused(judge, 100)
    assert look(judge, 120, peer(1, there=False)) == [Verdict("bbbb", 1, GONE)]


def test_an_end_that_found_no_row_begins_that_peer_again() -> None:
    judge = Judge()
    look(judge, 0, peer(1, there=False))
    assert look(judge, 400, peer(1, there=False)) != []
    judge.forget("bbbb")
    assert look(judge, 800, peer(1, there=False)) == []


def refused(judge: Judge, at_ms: int) -> None:
    judge.refused("bbbb", Instant(at_ms))


def test_one_look_without_the_backend_is_enough_after_its_address_refused() -> None:
    judge = Judge()
    look(judge, 0, peer(1))
    refused(judge, 100)
    assert look(judge, 120, peer(1, there=False)) == [Verdict("bbbb", 1, GONE)]


def test_an_address_that_refuses_ends_nobody_whose_backend_is_there() -> None:
    judge = Judge()
    refused(judge, 0)
    for at in range(0, 2 * PROOF_MS, HASTE_MS):
        assert look(judge, at, peer(1)) == []


def test_a_look_that_was_sent_before_the_refusal_counts_as_one_of_two() -> None:
    judge = Judge()
    refused(judge, 10)
    assert look(judge, 5, peer(1, there=False)) == []
    assert look(judge, 15, peer(1, there=False)) == [Verdict("bbbb", 1, GONE)]


def test_a_refusal_counts_for_a_second() -> None:
    judge = Judge()
    refused(judge, 0)
    look(judge, 500, peer(1))
    assert look(judge, PROOF_MS + 1, peer(1, there=False)) == []


def test_who_renews_after_its_address_refused_lives() -> None:
    judge = Judge()
    refused(judge, 0)
    look(judge, 20, peer(1))
    look(judge, 70, peer(2))
    assert look(judge, 120, peer(2, there=False)) == []


def test_a_refusal_of_another_run_is_nobodys() -> None:
    judge = Judge()
    judge.refused("cccc", Instant(0))
    assert look(judge, 20, peer(1, there=False)) == []


def test_an_end_that_found_no_row_and_a_new_connection_forget_the_refusal() -> None:
    judge = Judge()
    refused(judge, 0)
    judge.forget("bbbb")
    assert look(judge, 20, peer(1, there=False)) == []
    refused(judge, 30)
    judge.begin_again()
    assert look(judge, 40, peer(1, there=False)) == []


def test_looks_come_quickly_while_a_refusal_waits_for_the_backend_to_go() -> None:
    judge = Judge()
    assert judge.look_after_ms(Instant(0)) == LOOK_EVERY_MS
    refused(judge, 0)
    look(judge, 20, peer(1))
    assert judge.look_after_ms(Instant(20)) == HASTE_MS
    assert judge.look_after_ms(Instant(PROOF_MS + 1)) == LOOK_EVERY_MS
    look(judge, 70, peer(1, there=False))
    judge.forget("bbbb")
    assert judge.look_after_ms(Instant(70)) == LOOK_EVERY_MS
