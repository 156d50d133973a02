"""This room checks the token buckets: the rate is kept, the smaller holds, members of the ISR pay nothing."""

from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.core.throttling import SENT_AT_ONCE_MS, Bucket, Throttle, room, take, wait_ms
from muster.kernel.instants import Instant
from muster.messages.link.rows import PartitionRow

ORDERS = UUID(int=7)
NOW = Instant(1_000_000)


def moving(
    throttle: int = 1_000, isr: tuple[int, ...] = (1,), adding: tuple[int, ...] = (2,)
) -> PartitionRow:
    return PartitionRow(ORDERS, 0, (1, 2), 1, 1, isr, 5, adding, (), throttle)


def sent_in(buckets: tuple[Bucket, ...], seconds: int, answer_bytes: int, late_ms: int = 0) -> int:
    """What goes through in so long, if each answer is so large and everybody is a little late."""
    now, until, total = 1_000_000, 1_000_000 + seconds * 1000, 0
    while now < until:
        if room(buckets, Instant(now)):
            size = min(answer_bytes, max(1, room(buckets, Instant(now))) + 1_000)
            take(buckets, size)
            total += size
        now += max(1, wait_ms(buckets, Instant(now))) + late_ms
    return total


@settings(max_examples=40, deadline=None)
@given(st.integers(1_000, 10**9), st.integers(1_000, 10**6), st.integers(0, 50))
def test_what_is_sent_keeps_within_a_tenth_of_the_rate(rate: int, answer_bytes: int, late_ms: int) -> None:
    [bucket] = Throttle(SENT_AT_ONCE_MS).holding(moving(rate), 2, None, NOW)
    total = sent_in((bucket,), 60, 10**9, late_ms)
    assert 0.9 * rate * 60 <= total <= 1.1 * rate * 60 + 1_000
    assert sent_in((Bucket(rate, SENT_AT_ONCE_MS, NOW),), 60, answer_bytes) <= 1.1 * rate * 60 + answer_bytes


def test_members_of_the_isr_and_replicas_that_nobody_adds_are_never_throttled() -> None:
    """`throttle_isr`: an acknowledgement would wait for the move."""
    throttle = Throttle(SENT_AT_ONCE_MS)
    assert throttle.holding(moving(isr=(1, 2)), 2, 10, NOW) == ()
    assert throttle.holding(moving(adding=()), 2, None, NOW) == ()
    assert throttle.holding(moving(throttle=0), 2, None, NOW) == ()
    assert len(throttle.holding(moving(), 2, None, NOW)) == 1


def test_moves_of_one_rate_share_a_bucket_and_another_rate_has_its_own() -> None:
    throttle = Throttle(SENT_AT_ONCE_MS)
    [first] = throttle.holding(moving(1_000), 2, None, NOW)
    [again] = throttle.holding(moving(1_000), 2, None, NOW)
    [other] = throttle.holding(moving(2_000), 2, None, NOW)
    assert first is again and other is not first


@pytest.mark.parametrize(("of_the_move", "configured"), [(1_000, 5_000), (5_000, 1_000)])
def test_of_two_rates_the_smaller_holds(of_the_move: int, configured: int) -> None:
    both = Throttle(SENT_AT_ONCE_MS).holding(moving(of_the_move), 2, configured, NOW)
    assert len(both) == 2
    assert sent_in(both, 100, 500) == pytest.approx(100_000, rel=0.05)


def test_a_configured_rate_holds_without_a_move_and_another_one_from_then_on() -> None:
    throttle = Throttle(SENT_AT_ONCE_MS)
    [bucket] = throttle.holding(moving(0, adding=()), 2, 700, NOW)
    assert bucket.rate == 700
    [bucket] = throttle.holding(moving(0, adding=()), 2, 0, NOW)
    assert bucket.rate == 1, "Kafka's 0 does not let it stand for ever"


def test_what_was_not_sent_after_all_is_given_back() -> None:
    bucket = Bucket(1_000, 500, NOW)
    later = Instant(1_000_500)
    before = bucket.room(later)
    bucket.take(300)
    assert bucket.room(later) == before - 300
    bucket.take(-300)
    assert bucket.room(later) == before
