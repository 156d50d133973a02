"""Crashed needs two looks 0.4 s apart, hung needs 5.5 s of looks without a gap, and doubts begin again."""

from muster.kernel.instants import Instant
from runtime.database import Peer
from runtime.judging import CRASHED, HUNG, HUNG_AFTER_MS, LOOK_EVERY_MS, Judge, Verdict


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


def test_an_end_that_found_no_row_begins_that_peer_again() -> None:
    judge = Judge()
    look(judge, 0, peer(1, there=False))
    assert look(judge, 400, peer(1, there=False)) != []
    judge.forget("bbbb")
    assert look(judge, 800, peer(1, there=False)) == []
