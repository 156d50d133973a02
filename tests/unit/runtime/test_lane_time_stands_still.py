"""Time in which nothing could be heard is no time: it is given back to a whole lane at once."""

import asyncio
from collections.abc import Sequence

from muster.kernel.decision import Decision
from muster.kernel.instants import Instant
from runtime.freshness import STALLED_AFTER_MS
from tests.conformance.counters import Added, Counter, Counters
from tests.unit.runtime.lanes_in_memory import LanesInMemory, lanes_in_memory, until


class Timed(Counters):
    """Wants to be asked when something is due, and notes when it was asked."""

    due = Instant(0)
    asked_at: list[int]

    def decide(self, key: str, state: Counter, events: Sequence[int], now: Instant) -> Decision[Added, int]:
        self.asked_at.append(now)
        return Decision(look_again_at=self.due if now < self.due else None)


async def _let_time_pass(rig: LanesInMemory, timed: Timed) -> None:
    """The clock moves as the loop does, until what is due was asked for."""

    def asked() -> bool:
        rig.at += 1
        return timed.asked_at[-1] >= timed.due

    await until(asked)


async def test_what_is_due_waits_as_long_as_time_stood_still() -> None:
    async with lanes_in_memory() as rig:
        lane, timed = await rig.take(), Timed()
        timed.asked_at, timed.due = [], Instant(lane.now() + 20)
        await lane.submit_turn(timed, "orders", 0)
        began = rig.at
        rig.at += 5_000
        lane.postpone(5_000)
        await _let_time_pass(rig, timed)
        assert rig.at - began >= 5_000 + 20


async def test_a_postponement_takes_no_turn_of_any_key() -> None:
    async with lanes_in_memory() as rig:
        lane, timed = await rig.take(), Timed()
        timed.asked_at, timed.due = [], Instant(lane.now() + 20)
        for key in ("orders", "clicks", "flights"):
            await lane.submit_turn(timed, key, 0)
        for _ in range(10):
            rig.at += 1_000
            lane.postpone(1_000)
        # Three turns when they were asked for, and three when it was due; none between.
        await until(lambda: _passes(rig) and len(timed.asked_at) >= 6)
        assert all(at >= timed.due for at in timed.asked_at[3:])
        assert len(timed.asked_at) == 6


class Beaten(Timed):
    """Has done what is due when it is asked outside of turns."""

    beats = 0

    def beat(self, key: str, now: Instant) -> Instant | None:
        self.beats += 1
        return Instant(now + 60_000)


async def test_what_came_due_in_a_stop_takes_no_turn_to_wait_for_its_end() -> None:
    """The loop comes to all that was due before it notices how late it is: that may be thousands."""
    async with lanes_in_memory() as rig:
        lane, beaten = await rig.take(), Beaten()
        beaten.asked_at, beaten.due = [], Instant(lane.now() + 60_000)
        await lane.submit_turn(beaten, "orders", 0)
        rig.lanes.freshness.tick(Instant(rig.at))
        rig.at += STALLED_AFTER_MS + 1
        lane._due(beaten, "orders", Instant(rig.at - 1))
        rig.lanes.freshness.tick(Instant(rig.at))
        await until(lambda: beaten.beats + len(beaten.asked_at) > 1)
        assert (beaten.beats, len(beaten.asked_at)) == (1, 1)


def _passes(rig: LanesInMemory) -> bool:
    rig.at += 1
    return True


async def test_lane_time_never_goes_back() -> None:
    async with lanes_in_memory() as rig:
        lane = await rig.take()
        rig.at += 150
        read = lane.now()
        lane.postpone(100)
        assert lane.now() == read
        rig.at += 99
        assert lane.now() == read
        rig.at += 2
        assert lane.now() == read + 1


async def test_who_wakes_up_before_the_time_is_given_back_does_not_use_it_up() -> None:
    async with lanes_in_memory() as rig:
        lane, timed = await rig.take(), Timed()
        rig.freshness.tick(rig.clock())
        timed.asked_at, timed.due = [], Instant(lane.now() + 2)
        await lane.submit_turn(timed, "orders", 0)
        began, armed = lane.now(), dict(lane._timers)
        rig.at += 30_000
        # What was due in a moment comes before the tick that gives the time back, and so does who asks.
        await until(lambda: lane._timers != armed)
        assert lane.now() == began
        lane.postpone(30_000)
        rig.freshness.tick(rig.clock())
        rig.at += 2
        await until(lambda: len(timed.asked_at) == 2)
        assert timed.asked_at[-1] - began < 30_000


async def test_an_outage_in_which_something_was_due_uses_up_no_time() -> None:
    async with lanes_in_memory() as rig:
        lane, timed = await rig.take(), Timed()
        timed.asked_at, timed.due = [], Instant(lane.now() + 2)
        await lane.submit_turn(timed, "orders", 0)
        began = lane.now()
        rig.freshness.freeze()
        rig.at += 60_000
        await until(lambda: not lane._timers)
        lane.postpone(60_000)
        rig.freshness.thaw()
        rig.at += 2
        await until(lambda: len(timed.asked_at) == 2)
        assert timed.asked_at[-1] - began < 60_000


async def test_what_is_due_after_the_end_of_all_lanes_asks_nobody() -> None:
    mistakes: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: mistakes.append(context))
    async with lanes_in_memory() as rig:
        lane, timed = await rig.take(), Timed()
        timed.asked_at, timed.due = [], Instant(lane.now() + 1)
        await lane.submit_turn(timed, "orders", 0)
        [timer] = lane._timers.values()
    rig.at += 5_000
    await until(lambda: not lane._timers)
    assert timer.when() <= asyncio.get_running_loop().time()
    assert (len(timed.asked_at), mistakes) == (1, [])
