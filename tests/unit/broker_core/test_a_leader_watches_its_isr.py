"""This room shows who is dropped and who is admitted (conformance 218 and 219; the floor)."""

from broker.core.replica import Replica
from muster.kernel.instants import Instant
from muster.messages.link.from_broker import IsrProposal
from tests.unit.broker_core.stage import NOW, fetch, leader_of, row

LAG_MS = 30_000
ALL = {1, 2, 3}


def propose(
    replica: Replica, ms: int = 0, live: set[int] = ALL, link_ready: bool = True
) -> IsrProposal | None:
    return replica.propose(Instant(NOW + ms), link_ready, live, LAG_MS)


def test_a_follower_that_is_level_is_never_dropped_however_long_it_is_silent() -> None:
    replica, _ = leader_of()
    fetch(replica, 2, 0)
    fetch(replica, 3, 0)
    assert propose(replica, ms=10 * LAG_MS) is None


def test_a_follower_that_keeps_pace_with_a_steady_producer_does_not_lag() -> None:
    replica, log = leader_of(records=10)
    for second in range(1, 60):
        now = Instant(NOW + 1_000 * second)
        for follower in (2, 3):
            fetch(replica, follower, log.end_offset - 10, now=now)
        log.append(1, 10)
        assert replica.propose(now, True, ALL, LAG_MS) is None or second == 1


def test_who_was_level_with_an_idle_log_lags_from_its_last_fetch_on() -> None:
    replica, log = leader_of(records=1)
    for follower in (2, 3):
        fetch(replica, follower, 1)
    idle_until = Instant(NOW + 10 * LAG_MS)
    log.append(1)
    replica.follower_stood(2, idle_until)
    replica.follower_stood(3, idle_until)
    assert replica.propose(Instant(idle_until + LAG_MS), True, ALL, LAG_MS) is None
    log.append(1)
    replica.follower_stood(2, Instant(idle_until + LAG_MS))
    late = replica.propose(Instant(idle_until + LAG_MS + 1), True, ALL, LAG_MS)
    assert late is not None and late.isr == (1, 3), "asking again without moving is no keeping pace"


def test_who_was_behind_is_not_level_because_the_log_grew() -> None:
    replica, log = leader_of(records=2)
    fetch(replica, 2, 1)
    fetch(replica, 3, 2)
    log.append(1)
    replica.follower_stood(2, Instant(NOW + LAG_MS))
    late = propose(replica, ms=LAG_MS + 1)
    assert late is not None and late.isr == (1, 3)


def test_the_furthest_behind_is_dropped_first_and_one_at_a_time() -> None:
    replica, _ = leader_of(records=5)
    fetch(replica, 2, 3)
    fetch(replica, 3, 1)
    first = propose(replica, ms=LAG_MS + 1)
    assert first is not None and first.isr == (1, 2)
    assert propose(replica, ms=LAG_MS + 1) is None, "one is open"
    replica.hear_answer(1, row(isr=(1, 2), version=2), NOW)
    second = propose(replica, ms=LAG_MS + 1)
    assert second is not None and second.isr == (1,)


def test_nobody_is_dropped_at_the_floor() -> None:
    replica, _ = leader_of(records=1, min_insync=2, first=row(isr=(1, 2)))
    assert propose(replica, ms=10 * LAG_MS) is None


def test_a_dropped_follower_comes_back_only_by_a_fetch() -> None:
    replica, _ = leader_of(records=1)
    fetch(replica, 2, 0)
    fetch(replica, 3, 0)
    propose(replica, ms=LAG_MS + 1)
    replica.hear_answer(1, row(isr=(1, 3), version=2), NOW)
    assert replica.high_watermark == 0
    assert propose(replica) is None, "2 is not behind the high watermark, but it has not asked"
    fetch(replica, 2, 1)
    assert replica.may_grow
    wish = propose(replica)
    assert wish is not None and set(wish.isr) == ALL and wish.broker_epochs == {2: 1}


def test_a_refused_newcomer_is_proposed_again_only_after_its_next_fetch() -> None:
    replica, _ = leader_of(first=row(isr=(1, 2)))
    fetch(replica, 3, 0)
    assert propose(replica) is not None
    replica.hear_answer(1, row(isr=(1, 2)), NOW)
    assert propose(replica) is None
    fetch(replica, 3, 0, broker_epoch=2)
    again = propose(replica)
    assert again is not None and again.broker_epochs == {3: 2}


def test_a_follower_without_a_session_is_not_proposed() -> None:
    replica, _ = leader_of(first=row(isr=(1, 2)))
    fetch(replica, 3, 0)
    assert propose(replica, live={1, 2}) is None


def test_nothing_is_proposed_before_the_snapshot_and_the_snapshot_ends_what_was() -> None:
    replica, _ = leader_of(first=row(isr=(1, 2)))
    fetch(replica, 3, 0)
    assert propose(replica, link_ready=False) is None
    assert propose(replica) is not None
    replica.obey(row(isr=(1, 2)), NOW)
    assert replica.pending is not None, "a delta of the same version is no end"
    replica.obey(row(isr=(1, 2)), NOW, from_snapshot=True)
    assert replica.pending is None
