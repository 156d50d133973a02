"""A node answers only while its last confirmed renewal is young, counted from its sending."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from muster.kernel.instants import Instant
from runtime.freshness import LEASE_TTL_MS, STALLED_AFTER_MS, Freshness


class Clock:
    def __init__(self) -> None:
        self.at = 1_000

    def __call__(self) -> Instant:
        return Instant(self.at)


def renewed(clock: Clock) -> Freshness:
    freshness = Freshness(clock)
    freshness.confirm(clock())
    freshness.thaw()
    return freshness


async def test_a_node_that_never_renewed_is_frozen() -> None:
    assert Freshness(Clock()).frozen


async def test_age_counts_from_the_sending_of_the_renewal() -> None:
    clock = Clock()
    freshness = Freshness(clock)
    sent_at = clock()
    clock.at += LEASE_TTL_MS - 1
    freshness.confirm(sent_at)
    freshness.thaw()
    assert not freshness.frozen
    clock.at += 1
    assert freshness.frozen


async def test_a_young_renewal_does_not_thaw_before_expiries_were_postponed() -> None:
    clock = Clock()
    freshness = renewed(clock)
    freshness.freeze()
    freshness.confirm(clock())
    assert freshness.frozen
    freshness.thaw()
    assert not freshness.frozen


async def test_a_loop_that_did_not_tick_decides_nothing_until_it_ticks() -> None:
    clock = Clock()
    freshness = renewed(clock)
    freshness.tick(clock())
    clock.at += STALLED_AFTER_MS + 1
    assert freshness.stalled
    assert not freshness.frozen
    waiting = asyncio.ensure_future(freshness.wait())
    await asyncio.sleep(0)
    assert not waiting.done()
    freshness.tick(clock())
    async with asyncio.timeout(5):
        await waiting


async def test_who_waits_goes_on_at_the_thaw() -> None:
    clock = Clock()
    freshness = renewed(clock)
    clock.at += LEASE_TTL_MS
    waiting = asyncio.ensure_future(freshness.wait())
    await asyncio.sleep(0)
    assert not waiting.done()
    freshness.confirm(clock())
    freshness.thaw()
    async with asyncio.timeout(5):
        await waiting


@given(
    st.lists(
        st.tuples(st.sampled_from(["confirm", "tick", "freeze", "thaw", "forget"]), st.integers(0, 2_500))
    )
)
def test_before_the_foreseen_instant_nothing_rests_and_from_it_on_everything(
    steps: list[tuple[str, int]],
) -> None:
    clock = Clock()
    freshness = Freshness(clock)
    for step, ms in steps:
        match step:
            case "confirm":
                freshness.confirm(clock())
            case "tick":
                freshness.tick(clock())
            case "freeze":
                freshness.freeze()
            case "thaw":
                freshness.thaw()
            case "forget":
                freshness.forget()
        clock.at += ms
        for at in {clock.at, max(freshness.steady_until - 1, 0), max(freshness.steady_until, 0)}:
            assert freshness.resting_at(Instant(at)) == (at >= freshness.steady_until)
