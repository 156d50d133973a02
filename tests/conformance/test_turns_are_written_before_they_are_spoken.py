"""A turn is decided on the newest rows, written once, and spoken after the commit, on either database."""

import asyncio
import threading
from collections.abc import Sequence

import pytest

from muster.kernel.decision import Decision
from muster.kernel.instants import Instant
from runtime.lanes import HeldLane
from runtime.ports import ConnectionLost, LaneLost, VersionConflict
from tests.conformance.conftest import BOUND_S, Rig
from tests.conformance.counters import Added, Counter, Counters, CounterStore, read_journal

LANE = "coordinator/0"


def stored(rig: Rig, key: str) -> Counter:
    return rig.breakable.direct().call(lambda connection: CounterStore().load(connection, key))


def journal(rig: Rig) -> list[tuple[int, str, list[object]]]:
    return rig.breakable.direct().call(lambda connection: read_journal(connection, LANE))


async def test_a_turn_is_stored_journalled_and_spoken(rig: Rig) -> None:
    lane = await rig.take()
    await lane.submit_turn(rig.counters, "orders", 3)
    assert stored(rig, "orders") == Counter("orders", 1, 3)
    assert journal(rig) == [(1, "orders", [{"type": "Added", "by": 3}])]
    assert rig.counters.said == [("orders", 3)]


async def test_a_decision_without_records_takes_no_transaction(rig: Rig) -> None:
    lane = await rig.take()
    await lane.submit_turn(rig.counters, "orders", 0)
    assert rig.counters.said == [("orders", 0)]
    assert journal(rig) == []


async def test_a_thousand_events_become_few_turns(rig: Rig) -> None:
    lane = await rig.take()
    first = asyncio.ensure_future(lane.submit_turn(rig.counters, "orders", 1))
    await asyncio.sleep(0)
    for _ in range(999):
        lane.hand_in(rig.counters, "orders", 1)
    await first
    await lane.submit_turn(rig.counters, "orders", 0)
    assert stored(rig, "orders").total == 1000
    assert len(journal(rig)) <= 3
    assert len(rig.counters.said) == 1001


async def test_the_journal_is_gapless_and_folds_to_the_cache_and_to_the_rows(rig: Rig) -> None:
    lane = await rig.take()
    for number in range(1, 6):
        await lane.submit_turn(rig.counters, "orders", number)
        await lane.submit_turn(rig.counters, "clicks", number)
    entries = journal(rig)
    assert [seq for seq, _, _ in entries] == list(range(1, 11))
    folded = sum(record["by"] for _, key, records in entries for record in records if key == "orders")  # type: ignore[index]
    assert folded == stored(rig, "orders").total == rig.counters.states["orders"].total == 15


async def test_rows_that_changed_underneath_are_decided_on_again(rig: Rig) -> None:
    lane = await rig.take()
    await lane.submit_turn(rig.counters, "orders", 1)
    rig.breakable.direct().transaction(
        lambda connection: CounterStore().save(connection, "orders", Counter("orders", 1, 1), [Added(10)])
    )
    await lane.submit_turn(rig.counters, "orders", 1)
    assert stored(rig, "orders") == Counter("orders", 3, 12)
    assert rig.counters.said == [("orders", 1), ("orders", 1)]


async def test_the_guilty_event_is_refused_and_the_others_are_decided(rig: Rig) -> None:
    lane = await rig.take()
    await lane.submit_turn(rig.counters, "orders", 1, -5, 2)
    assert stored(rig, "orders").total == 3
    assert rig.counters.refused == [("orders", (-5,))]


async def test_one_guilty_event_of_many_costs_few_turns(rig: Rig) -> None:
    lane = await rig.take()
    numbers = list(range(1, 513))
    numbers[300] = -5
    await lane.submit_turn(rig.counters, "orders", *numbers)
    assert rig.counters.refused == [("orders", (-5,))]
    assert rig.counters.said == [("orders", number) for number in numbers if number > 0]
    assert rig.counters.decided < 25, "it is halved until it is found"


async def test_what_a_turn_left_to_the_next_is_refused_without_the_events(rig: Rig) -> None:
    """Every turn decides it, too: whoever said something meanwhile is not to blame."""

    class Carrying(Counters):
        carried = True

        def decide(
            self, key: str, state: Counter, events: Sequence[int], now: Instant
        ) -> Decision[Added, int]:
            if self.carried:
                raise ValueError("what is carried cannot be decided")
            return super().decide(key, state, events, now)

        def refuse(self, key: str, events: Sequence[int], error: Exception) -> None:
            super().refuse(key, events, error)
            self.carried = self.carried and bool(events)

    lane, counters = await rig.take(), Carrying()
    await lane.submit_turn(counters, "orders", 1, 2)
    assert counters.refused == [("orders", ())]
    assert counters.said == [("orders", 1), ("orders", 2)]


async def test_an_event_that_no_row_fits_is_refused_and_the_others_are_decided(rig: Rig) -> None:
    class Contested(CounterStore):
        """Whatever is read, somebody else has changed it before 7 is added."""

        def save(self, connection: object, key: str, before: Counter, records: Sequence[Added]) -> None:
            if Added(7) in records:
                raise VersionConflict(key)
            super().save(connection, key, before, records)

    rig.counters.store = Contested()
    lane = await rig.take()
    await lane.submit_turn(rig.counters, "orders", 1, 7, 2)
    assert stored(rig, "orders").total == 3
    assert rig.counters.refused == [("orders", (7,))]
    assert rig.counters.said == [("orders", 1), ("orders", 2)]


async def test_a_transaction_that_takes_too_long_is_tried_again_with_fewer_events(rig: Rig) -> None:
    class Impatient(CounterStore):
        """The server ends a transaction that has too much to write, with its connection."""

        def save(self, connection: object, key: str, before: Counter, records: Sequence[Added]) -> None:
            if len(records) > 10:
                raise ConnectionLost("terminating connection due to transaction timeout")
            super().save(connection, key, before, records)

    rig.counters.store = Impatient()
    lane = await rig.take()
    await lane.submit_turn(rig.counters, "orders", *range(1, 61))
    assert rig.counters.refused == []
    assert rig.counters.said == [("orders", number) for number in range(1, 61)]
    # 60 are too many, and 15; then no later turn has more than the 4 that were not.
    assert [len(records) for _, _, records in journal(rig)] == [4] * 15


async def test_only_what_was_not_yet_decided_is_refused_with_an_event_that_fails(rig: Rig) -> None:
    class Narrow(CounterStore):
        """More than two at once are too many, and 7 is our own mistake."""

        def save(self, connection: object, key: str, before: Counter, records: Sequence[Added]) -> None:
            if len(records) > 2:
                raise ConnectionLost("terminating connection due to transaction timeout")
            if Added(7) in records:
                raise ValueError("seven")
            super().save(connection, key, before, records)

    rig.counters.store = Narrow()
    lane = await rig.take()
    await lane.submit_turn(rig.counters, "orders", 1, 2, 3, 7, 5)
    assert rig.counters.refused == [("orders", (7,))]
    assert stored(rig, "orders").total == 11


async def test_the_lane_asks_again_when_the_decision_wants_it(rig: Rig, until) -> None:  # type: ignore[no-untyped-def]
    lane = await rig.take()
    rig.counters.look_again_at = Instant(lane.now() + 20)
    await lane.submit_turn(rig.counters, "orders", 1)
    decided = rig.counters.decided
    await until(lambda: rig.counters.decided > decided)
    assert stored(rig, "orders").total == 1


async def test_a_key_whose_turn_failed_is_asked_again(rig: Rig, until) -> None:  # type: ignore[no-untyped-def]
    lane = await rig.take()
    await lane.submit_turn(rig.counters, "orders", 1)
    await lane.submit_turn(rig.counters, "orders", -5)
    assert rig.counters.refused == [("orders", (-5,))]
    rig.counters.states.clear()
    # Nobody says anything more; only time can bring the key back.
    await until(lambda: "orders" in rig.counters.states)


async def test_events_that_fail_do_not_put_off_what_time_asks_for(rig: Rig) -> None:
    class Due(Counters):
        """At one instant something is due, as every load finds."""

        at = Instant(0)

        def revive(self, key: str, loaded: Counter, now: Instant) -> tuple[Counter, Decision[Added, int]]:
            return loaded, Decision(look_again_at=self.at)

    lane, counters = await rig.take(), Due()
    counters.at = Instant(lane.now() + 100)
    async with asyncio.timeout(10):
        while counters.decided == len(counters.refused):
            await lane.submit_turn(counters, "orders", -5)
            await asyncio.sleep(0.01)


async def test_an_unknown_outcome_that_was_a_commit_is_spoken_and_not_applied_again(rig: Rig) -> None:
    lane = await rig.take()
    await lane.submit_turn(rig.counters, "orders", 1)
    rig.breakable.lose_answer()
    await lane.submit_turn(rig.counters, "orders", 5)
    assert stored(rig, "orders").total == 6
    assert rig.counters.said == [("orders", 1), ("orders", 5)]
    assert lane.epoch == 2
    await lane.submit_turn(rig.counters, "orders", 1)
    assert [seq for seq, _, _ in journal(rig)] == [1, 2, 3]


async def test_an_unknown_outcome_that_was_none_is_decided_again(rig: Rig) -> None:
    lane = await rig.take()
    await lane.submit_turn(rig.counters, "orders", 1)
    rig.breakable.lose_request()
    await lane.submit_turn(rig.counters, "orders", 5)
    assert stored(rig, "orders").total == 6
    assert rig.counters.said == [("orders", 1), ("orders", 5)]
    assert lane.epoch == 2


async def robbed(rig: Rig, lane: HeldLane) -> None:
    other = rig.breakable.direct()
    assert other.take(lane.name, lane.epoch, "bbbbbbbbbbbbbbbb")


async def test_a_lost_lane_writes_and_says_nothing(rig: Rig) -> None:
    lane = await rig.take()
    await lane.submit_turn(rig.counters, "orders", 1)
    await robbed(rig, lane)
    with pytest.raises(LaneLost):
        await lane.submit_turn(rig.counters, "orders", 5)
    assert stored(rig, "orders").total == 1
    assert rig.counters.said == [("orders", 1)]
    assert rig.lost == [LANE]
    assert rig.counters.states == {}
    with pytest.raises(LaneLost):
        lane.hand_in(rig.counters, "orders", 1)


async def test_a_lost_lane_answers_nothing_from_rows_that_it_reads(rig: Rig) -> None:
    """Whoever has the lease may have written since."""
    lane = await rig.take()
    await robbed(rig, lane)
    with pytest.raises(LaneLost):
        await lane.submit_turn(rig.counters, "orders", 0)
    assert rig.counters.said == []
    assert rig.lost == [LANE]


async def test_whoever_takes_the_lease_waits_for_a_turn_that_has_proved_it(rig: Rig) -> None:
    """Else the next owner would read the rows before they are written, and decide beside the one before."""
    fenced, go_on = threading.Event(), threading.Event()

    class Slow(CounterStore):
        def save(self, connection: object, key: str, before: Counter, records: Sequence[Added]) -> None:
            fenced.set()
            go_on.wait(BOUND_S)
            super().save(connection, key, before, records)

    rig.counters.store = Slow()
    lane, other = await rig.take(), rig.breakable.direct()
    turn = asyncio.create_task(lane.submit_turn(rig.counters, "orders", 5))
    assert await asyncio.to_thread(fenced.wait, BOUND_S)
    taking = asyncio.create_task(asyncio.to_thread(other.take, LANE, 1, "bbbbbbbbbbbbbbbb"))
    await asyncio.to_thread(rig.breakable.wait_until_blocked)
    assert not taking.done()
    go_on.set()
    assert await taking
    assert stored(rig, "orders").total == 5
    await turn
    assert rig.counters.said == [("orders", 5)]


async def test_an_unknown_outcome_on_a_lost_lane_is_never_spoken(rig: Rig) -> None:
    lane = await rig.take()
    await lane.submit_turn(rig.counters, "orders", 1)
    rig.breakable.lose_request()
    await robbed(rig, lane)
    with pytest.raises(LaneLost):
        await lane.submit_turn(rig.counters, "orders", 5)
    assert stored(rig, "orders").total == 1
    assert rig.counters.said == [("orders", 1)]


async def test_a_frozen_node_decides_nothing_until_it_thaws(rig: Rig) -> None:
    lane = await rig.take()
    rig.freshness.freeze()
    waiting = asyncio.ensure_future(lane.submit_turn(rig.counters, "orders", 0))
    done, _ = await asyncio.wait([waiting], timeout=0.05)
    assert not done
    assert rig.counters.said == []
    rig.freshness.thaw()
    await waiting
    assert rig.counters.said == [("orders", 0)]


async def test_what_was_queued_while_time_stood_still_is_decided_in_one_turn(rig: Rig) -> None:
    lane = await rig.take()
    await lane.submit_turn(rig.counters, "orders", 1)
    decided, answered = rig.counters.decided, threading.Event()
    reading = asyncio.ensure_future(lane.read(lambda connection: answered.wait(10)))
    lane.hand_in(rig.counters, "orders", 0)
    await asyncio.sleep(0)
    # The node freezes while the read is under way; what gives the time back comes last.
    rig.freshness.freeze()
    answered.set()
    await reading
    last = asyncio.ensure_future(lane.submit_turn(rig.counters, "orders", 0))
    await asyncio.sleep(0)
    rig.freshness.thaw()
    await last
    assert rig.counters.decided == decided + 1


async def test_a_resigned_lane_takes_nothing_more_and_the_next_owner_counts_on(rig: Rig) -> None:
    lane = await rig.take()
    await lane.submit_turn(rig.counters, "orders", 1)
    assert await lane.resign()
    with pytest.raises(LaneLost):
        lane.hand_in(rig.counters, "orders", 1)
    again = await rig.take(seen_epoch=1)
    assert (again.epoch, again.seq) == (2, 1)
