"""No lane keeps the loop, or a connection, to itself: what waits for one does not hold up the others."""

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from structlog.testing import capture_logs

from muster.kernel.decision import Decision
from muster.kernel.instants import Instant
from runtime.lanes import HeldLane
from runtime.memory import MemoryConnection, MemoryLink
from runtime.ports import CONTROLLER_LANE, shard_lane
from runtime.queued import TURN_WEIGHT_MAX
from runtime.rests import FIRST_MS
from tests.conformance.counters import Added, Counter, Counters, CounterStore, Tally, read_journal, read_tally
from tests.unit.runtime.lanes_in_memory import LanesInMemory, lanes_in_memory, until

MANY = 200


class Slow(Counters):
    """Each decision takes a millisecond."""

    rig: LanesInMemory

    def decide(self, key: str, state: Counter, events: Sequence[int], now: Instant) -> Decision[Added, int]:
        self.rig.at += 1
        return super().decide(key, state, events, now)


class Unresting(Tally):
    """Whenever a batch was written there is another."""

    batches = 0
    lane_of: HeldLane

    def committed(self, rows: object) -> None:
        self.batches += 1
        self.note("orders", self.batches)
        self.lane_of.offer_batch(self)


async def test_turns_that_write_nothing_let_others_have_the_loop() -> None:
    async with lanes_in_memory() as rig:
        lane, slow = await rig.take(), Slow()
        slow.rig = rig
        for number in range(MANY):
            slow.states[f"group-{number}"] = Counter(f"group-{number}")
            lane.hand_in(slow, f"group-{number}", 0)
        rounds = 0
        while slow.decided < MANY:
            await asyncio.sleep(0)
            rounds += 1
        assert rounds >= MANY / 10


async def test_turns_that_write_nothing_do_not_wait_for_a_batch_each() -> None:
    async with lanes_in_memory() as rig:
        lane, counters, batches = await rig.take(), Counters(), Unresting("coordinator/0")
        batches.lane_of = lane
        batches.committed({})
        await until(lambda: batches.batches > 2)
        before = batches.batches
        for number in range(MANY):
            counters.states[f"group-{number}"] = Counter(f"group-{number}")
            lane.hand_in(counters, f"group-{number}", 0)
        await until(lambda: counters.decided == MANY)
        assert batches.batches - before <= MANY / 10


async def test_a_turn_takes_a_bounded_number_of_events_and_says_so_as_they_are_decided() -> None:
    async with lanes_in_memory() as rig:
        lane, counters = await rig.take(), Counters()
        early = asyncio.ensure_future(lane.submit_turn(counters, "orders", 1))
        await asyncio.sleep(0)
        lane.hand_in(counters, "orders", *[1] * (2 * TURN_WEIGHT_MAX))
        late = asyncio.ensure_future(lane.submit_turn(counters, "orders", 1))
        early.add_done_callback(lambda _: said_at_early.append(len(counters.said)))
        said_at_early: list[int] = []
        await asyncio.gather(early, late)
        assert counters.states["orders"].total == 2 * TURN_WEIGHT_MAX + 2
        assert counters.states["orders"].version == 3
        assert said_at_early[0] < len(counters.said)


async def test_a_turn_is_bounded_by_what_its_events_weigh_and_takes_one_however_heavy() -> None:
    async with lanes_in_memory() as rig:
        heavy, light = TURN_WEIGHT_MAX + 1, 2
        lane, counters = await rig.take(), Counters(weights={heavy: heavy, 400: 400})
        lane.hand_in(counters, "orders", 400, 400, light, 400, heavy, light)
        await lane.submit_turn(counters, "orders", light)
        assert counters.said == [("orders", one) for one in (400, 400, light, 400, heavy, light, light)]
        turns = [turn for _, _, turn in read_journal(MemoryConnection(rig.database), lane.name)]
        assert [[one["by"] for one in turn] for turn in turns] == [
            [400, 400, light],
            [400],
            [heavy],
            [light, light],
        ]


async def test_an_election_shares_its_connection_with_no_shard() -> None:
    async with lanes_in_memory() as rig:
        controller = await rig.take(CONTROLLER_LANE, 0)
        before = len(rig.database.links)
        shards = [await rig.take(shard_lane(shard), shard) for shard in range(8)]
        assert len(rig.database.links) == before + 4
        await controller.submit_turn(Counters(), "cluster", 1)
        assert [await shard.read(read_tally) for shard in shards] == [{}] * 8


class Torn(CounterStore):
    """Its rows cannot be read."""

    loads = 0

    def load(self, connection: Any, key: str) -> Counter:
        self.loads += 1
        raise ValueError("not what this program writes")


async def test_a_key_whose_rows_cannot_be_read_is_read_once_for_all_its_events() -> None:
    async with lanes_in_memory() as rig:
        lane, store = await rig.take(), Torn()
        counters = Counters(store)
        lane.hand_in(counters, "orders", *[1] * MANY)
        with capture_logs() as logs:
            for _ in range(10):
                await lane.submit_turn(counters, "orders", 1)
        assert [len(events) for _, events in counters.refused] == [MANY + 1] + [1] * 9
        # Whoever is hung up on comes again at once: nobody has it read anew, and told of, each time.
        assert store.loads == 1
        assert len([one for one in logs if one["event"] == "turn failed"]) == 1


async def test_rows_that_can_be_read_again_are_read_a_second_later_and_at_once_when_time_asks() -> None:
    async with lanes_in_memory() as rig:
        lane, torn = await rig.take(), Torn()
        counters = Counters(torn)
        await lane.submit_turn(counters, "orders", 1)
        await lane.submit_turn(counters, "orders")
        assert torn.loads == 2
        counters.store = CounterStore()
        await lane.submit_turn(counters, "orders", 2)
        assert counters.said == []
        rig.at += FIRST_MS
        await lane.submit_turn(counters, "orders", 3)
        await lane.submit_turn(counters, "orders", 4)
        assert counters.said == [("orders", 3), ("orders", 4)]


async def test_all_that_wait_for_a_proof_cost_one_look_and_no_transaction() -> None:
    async with lanes_in_memory() as rig:
        lane, other = await rig.take(), await rig.take(shard_lane(4), 4)
        looks: list[Sequence[str]] = []
        looking = threading.Event()

        class Counting(MemoryLink):
            def epochs(self, names: Sequence[str]) -> Mapping[str, tuple[str | None, int]]:
                looks.append(names)
                assert looking.wait(10)
                return super().epochs(names)

            def call(self, function: Callable[[Any], Any]) -> Any:
                raise AssertionError("nothing is to be read")

        for link in rig.database.links:
            link.__class__ = Counting
        first = asyncio.ensure_future(lane.prove())
        await until(lambda: bool(looks))
        # A look that has begun proves nothing to those who come after it.
        later = [asyncio.ensure_future(one.prove()) for one in (lane, other) for _ in range(MANY)]
        await asyncio.sleep(0)
        looking.set()
        await asyncio.gather(first, *later)
        assert looks == [[lane.name], [lane.name, other.name]]
