"""Turns that are asked for together are one transaction, and each is decided by itself for all that."""

import asyncio
from collections.abc import Sequence
from typing import Any

from muster.kernel.instants import Instant
from runtime.lanes import HeldLane
from runtime.ports import ConnectionLost
from runtime.queued import TOGETHER_MAX, TOGETHER_ROWS_MAX
from tests.conformance.conftest import BOUND_S, Rig
from tests.conformance.counters import Added, Counter, Counters, CounterStore, read_journal

LANE = "coordinator/0"
KEYS = ("clicks", "orders", "views")


class Watched(CounterStore):
    """Keeps how many turns came in each transaction."""

    def __init__(self) -> None:
        self.together: list[int] = []

    def save_all(self, connection: Any, turns: Sequence[tuple[str, Counter, Sequence[Added]]]) -> None:
        self.together.append(len(turns))
        super().save_all(connection, turns)


def stored(rig: Rig, key: str) -> int:
    return rig.breakable.direct().call(lambda connection: CounterStore().load(connection, key)).total


def journal(rig: Rig) -> list[tuple[int, str]]:
    rows = rig.breakable.direct().call(lambda connection: read_journal(connection, LANE))
    return [(seq, key) for seq, key, _ in rows]


async def counting(rig: Rig, keys: Sequence[str] = KEYS) -> tuple[HeldLane, Watched]:
    """A lane whose counters are cached, at 1 each."""
    store = rig.counters.store = Watched()
    lane = await rig.take()
    for key in keys:
        await lane.submit_turn(rig.counters, key, 1)
    rig.counters.said.clear()
    return lane, store


async def heard(counters: Counters, answers: int) -> list[tuple[str, int]]:
    """What is said when so much is."""
    async with asyncio.timeout(BOUND_S):
        while len(counters.said) + len(counters.refused) < answers:
            await asyncio.sleep(0.001)
    return sorted(counters.said)


async def test_turns_that_are_asked_for_together_are_one_transaction(rig: Rig) -> None:
    lane, store = await counting(rig)
    for key in KEYS:
        lane.hand_in_sharing(rig.counters, key, 2)
    assert await heard(rig.counters, 3) == [(key, 2) for key in KEYS]
    assert store.together == [3]
    assert [stored(rig, key) for key in KEYS] == [3, 3, 3]
    assert journal(rig)[3:] == [(4, "clicks"), (5, "orders"), (6, "views")]


async def test_a_turn_that_nobody_said_may_share_has_its_own(rig: Rig) -> None:
    lane, store = await counting(rig)
    lane.hand_in_sharing(rig.counters, "clicks", 2)
    lane.hand_in_sharing(rig.counters, "orders", 2)
    lane.hand_in(rig.counters, "orders", 3)
    lane.hand_in(rig.counters, "views", 2)
    assert await heard(rig.counters, 4) == [("clicks", 2), ("orders", 2), ("orders", 3), ("views", 2)]
    assert store.together == []


async def test_what_needs_no_transaction_or_is_not_loaded_spoils_none(rig: Rig) -> None:
    lane, store = await counting(rig)
    rig.counters.drop("views")
    for key, by in zip(KEYS, (2, 0, 2), strict=True):
        lane.hand_in_sharing(rig.counters, key, by)
    assert await heard(rig.counters, 3) == [("clicks", 2), ("orders", 0), ("views", 2)]
    assert store.together == [1]
    assert [stored(rig, key) for key in KEYS] == [3, 1, 3]


async def test_whoever_spoils_a_transaction_is_found_and_the_others_are_decided(rig: Rig) -> None:
    lane, store = await counting(rig)
    rig.breakable.direct().transaction(
        lambda connection: store.save(connection, "orders", Counter("orders", 1, 1), [Added(10)])
    )
    for key, by in zip((*KEYS, "guilty"), (2, 2, 2, -5), strict=True):
        lane.hand_in_sharing(rig.counters, key, by)
    assert await heard(rig.counters, 4) == [("clicks", 2), ("orders", 2), ("views", 2)]
    assert rig.counters.refused == [("guilty", (-5,))]
    assert [stored(rig, key) for key in KEYS] == [3, 13, 3]


async def test_a_mistake_in_one_decision_leaves_the_others_together(rig: Rig) -> None:
    lane, store = await counting(rig)
    for key, by in zip(KEYS, (2, -5, 2), strict=True):
        lane.hand_in_sharing(rig.counters, key, by)
    assert await heard(rig.counters, 3) == [("clicks", 2), ("views", 2)]
    assert (store.together, rig.counters.refused) == ([2], [("orders", (-5,))])


async def test_an_answer_that_was_lost_is_looked_up_once_for_all(rig: Rig) -> None:
    lane, _ = await counting(rig)
    rig.breakable.lose_answer()
    for key in KEYS:
        lane.hand_in_sharing(rig.counters, key, 2)
    assert await heard(rig.counters, 3) == [(key, 2) for key in KEYS]
    assert [stored(rig, key) for key in KEYS] == [3, 3, 3]
    await lane.submit_turn(rig.counters, "orders", 1)
    assert [seq for seq, _ in journal(rig)] == [1, 2, 3, 4, 5, 6, 7]


async def test_what_was_lost_before_it_was_written_is_decided_again_one_by_one(rig: Rig) -> None:
    lane, store = await counting(rig)
    rig.breakable.lose_request()
    for key in KEYS:
        lane.hand_in_sharing(rig.counters, key, 2)
    assert await heard(rig.counters, 3) == [(key, 2) for key in KEYS]
    assert [stored(rig, key) for key in KEYS] == [3, 3, 3]
    assert store.together == [3]


async def test_what_came_meanwhile_is_decided_behind_what_came_to_nothing(rig: Rig) -> None:
    lane, _ = await counting(rig)

    class Late(Watched):
        """While the transaction is under way more comes for one of its keys."""

        def save_all(self, connection: Any, turns: Sequence[tuple[str, Counter, Sequence[Added]]]) -> None:
            loop.call_soon_threadsafe(lane.hand_in, rig.counters, "orders", 7)
            raise ConnectionLost("terminating connection due to transaction timeout")

    loop, rig.counters.store = asyncio.get_running_loop(), Late()
    for key in KEYS:
        lane.hand_in_sharing(rig.counters, key, 2)
    await heard(rig.counters, 4)
    assert [by for key, by in rig.counters.said if key == "orders"] == [2, 7]
    assert stored(rig, "orders") == 10


async def test_a_lost_lane_writes_and_says_nothing_of_all_of_them(rig: Rig) -> None:
    lane, _ = await counting(rig)
    assert rig.breakable.direct().take(LANE, lane.epoch, "bbbbbbbbbbbbbbbb")
    for key in KEYS:
        lane.hand_in_sharing(rig.counters, key, 2)
    async with asyncio.timeout(BOUND_S):
        while not rig.lost:
            await asyncio.sleep(0.001)
    assert (rig.counters.said, rig.counters.states) == ([], {})
    assert [stored(rig, key) for key in KEYS] == [1, 1, 1]


async def test_what_cannot_be_said_is_refused_and_not_written_again(rig: Rig) -> None:
    class Mute(Counters):
        """Of one key nothing can be said."""

        def settle(self, key: str, state: Counter, decision: Any) -> None:
            if key == "orders" and decision.records == (Added(2),):
                raise ValueError("whoever waits is gone")
            super().settle(key, state, decision)

    rig.counters = Mute()
    lane, _ = await counting(rig)
    for key in KEYS:
        lane.hand_in_sharing(rig.counters, key, 2)
    assert await heard(rig.counters, 3) == [("clicks", 2), ("views", 2)]
    assert rig.counters.refused == [("orders", (2,))]
    assert stored(rig, "orders") == 3


async def test_who_can_neither_be_told_nor_refused_costs_the_others_nothing(rig: Rig) -> None:
    class Mute(Counters):
        """Of one key nothing can be said, not even that."""

        def settle(self, key: str, state: Counter, decision: Any) -> None:
            if key == "clicks" and decision.records == (Added(2),):
                raise ValueError("whoever waits is gone")
            super().settle(key, state, decision)

        def refuse(self, key: str, events: Sequence[int], error: Exception) -> None:
            super().refuse(key, events, error)
            raise ValueError("whoever waits is still gone")

    rig.counters = Mute()
    lane, _ = await counting(rig)
    rig.counters.drop("views")
    for key in KEYS:
        lane.hand_in_sharing(rig.counters, key, 2)
    assert await heard(rig.counters, 3) == [("orders", 2), ("views", 2)]
    assert rig.counters.refused == [("clicks", (2,))]


async def test_a_state_that_cannot_even_be_looked_at_costs_the_others_nothing(rig: Rig) -> None:
    class Damaged(Counters):
        """One key's state is no more what it should be."""

        def cached(self, key: str) -> Counter | None:
            state = super().cached(key)
            if state is not None and state.total == damaged:
                raise ValueError("what is this?")
            return state

    rig.counters, damaged = Damaged(), -1
    lane, store = await counting(rig)
    rig.counters.states["orders"] = Counter("orders", 1, damaged)
    for key in KEYS:
        lane.hand_in_sharing(rig.counters, key, 2)
    assert await heard(rig.counters, 3) == [(key, 2) for key in KEYS]
    assert store.together == [2]


async def test_a_lease_is_left_behind_the_turns_that_came_to_nothing_beside_others(rig: Rig) -> None:
    lane, _ = await counting(rig)
    rig.counters.drop(KEYS[0])
    for key in KEYS:
        lane.hand_in_sharing(rig.counters, key, 2)
    assert await lane.resign()
    assert sorted(rig.counters.said) == [(key, 2) for key in KEYS]


async def test_a_transaction_is_as_long_as_its_rows_allow(rig: Rig) -> None:
    lane, store = await counting(rig)
    rig.counters.sizes = {"clicks": TOGETHER_ROWS_MAX - 1, "orders": 1, "views": 1}
    for key in KEYS:
        lane.hand_in_sharing(rig.counters, key, 2)
    assert await heard(rig.counters, 3) == [(key, 2) for key in KEYS]
    assert store.together == [2], "the last one has a turn for itself"


async def test_no_transaction_holds_more_turns_than_the_loop_bears(rig: Rig) -> None:
    many = [f"counter-{number}" for number in range(TOGETHER_MAX + 2)]
    lane, store = await counting(rig, many)
    for key in many:
        lane.hand_in_sharing(rig.counters, key, 2)
    await heard(rig.counters, len(many))
    assert store.together == [TOGETHER_MAX, 2]


async def test_time_goes_on_asking_after_a_turn_that_shared(rig: Rig) -> None:
    lane, _ = await counting(rig)
    rig.counters.look_again_at = Instant(lane.now() + 1)
    for key in KEYS[:2]:
        lane.hand_in_sharing(rig.counters, key, 2)
    decided = rig.counters.decided + 2
    async with asyncio.timeout(BOUND_S):
        while rig.counters.decided <= decided:
            await asyncio.sleep(0.001)
