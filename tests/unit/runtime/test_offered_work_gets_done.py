"""The owner's desk asks workers first, the spare process after 250 ms, and takes late claims back."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from muster.kernel.instants import Instant
from runtime.desk import (
    ASK_AGAIN_MS,
    CLAIM_MOST_MS,
    CLAIM_MS,
    REMIND_MS,
    UNCLAIMED_MS,
    WorkDesk,
    claim_stands_ms,
)
from runtime.memory import MemoryDatabase, MemoryLink
from runtime.work import offer
from runtime.work_table import Offered

LANE = "coordinator/0"


class Asked:
    def __init__(self) -> None:
        self.items: list[str] = []

    def publish(self, item_id: str) -> None:
        self.items.append(item_id)


class World:
    """A desk over the database in memory, with a clock that the test moves."""

    def __init__(self) -> None:
        self.at = 10_000
        self.link: MemoryLink = MemoryDatabase([LANE]).connect("run", "test")
        self.workers, self.spare = Asked(), Asked()
        self.told: list[tuple[str, str, str]] = []
        self.desk = WorkDesk(
            self.query,
            self.workers,
            self.spare,
            lambda: Instant(self.at),
            lambda: [LANE],
            lambda *words: self.told.append(words),
        )

    async def query(self, function: Callable[[Any], Any]) -> Any:
        return self.link.transaction(function)

    def offer(self) -> str:
        item = self.link.transaction(lambda connection: offer(connection, "rebalance", "orders", 1, {}, LANE))
        self.desk.offered([Offered(item, "rebalance", "orders", LANE)])
        return item

    def on(self, method: str, *arguments: Any) -> Any:
        return self.link.transaction(lambda connection: getattr(connection.work_table, method)(*arguments))

    async def look(self, after_ms: int) -> None:
        self.at += after_ms
        self.desk.look()
        for _ in range(5):
            await asyncio.sleep(0)


@pytest.fixture
async def world() -> World:
    return World()


async def test_workers_are_asked_first(world: World) -> None:
    item = world.offer()
    await world.look(UNCLAIMED_MS - 1)
    assert (world.workers.items, world.spare.items) == ([item], [])
    world.desk.stop()


async def test_unclaimed_work_goes_to_the_spare_process(world: World) -> None:
    item = world.offer()
    await world.look(UNCLAIMED_MS)
    assert (world.workers.items, world.spare.items) == ([item], [item])
    world.desk.stop()


async def test_workers_are_asked_again_later(world: World) -> None:
    item = world.offer()
    await world.look(ASK_AGAIN_MS)
    assert world.workers.items == [item, item]
    world.desk.stop()


async def test_a_claim_that_stands_too_long_is_taken_back(world: World) -> None:
    item = world.offer()
    claimed = world.on("claim", item, "ann")
    await world.look(10)
    await world.look(CLAIM_MS - 1)
    assert world.workers.items == [item]
    await world.look(1)
    assert world.workers.items == [item, item]
    assert not world.on("finish", item, claimed.claim_epoch, "late", "")
    world.desk.stop()


async def test_what_takes_long_is_not_computed_by_two_for_ever(world: World) -> None:
    item, needs_ms = world.offer(), 5 * CLAIM_MS
    for claim in (1, 2, 3):
        assert world.on("claim", item, "ann").claim_epoch == claim
        await world.look(10)
        for _ in range(needs_ms // 100):
            await world.look(100)
    assert world.on("finish", item, 4, "result", "") is False
    assert world.on("claim", item, "ann").claim_epoch == 4
    await world.look(10)
    await world.look(needs_ms)
    assert world.on("finish", item, 4, "result", "")
    world.desk.stop()


async def test_a_claim_stands_a_minute_at_most(world: World) -> None:
    assert [claim_stands_ms(claim) for claim in (1, 2, 3, 50)] == [2_000, 4_000, 8_000, CLAIM_MOST_MS]


async def test_done_work_is_told_of_until_it_is_adopted(world: World) -> None:
    item = world.offer()
    claimed = world.on("claim", item, "ann")
    world.on("finish", item, claimed.claim_epoch, "result", "")
    await world.look(10)
    await world.look(REMIND_MS - 1)
    assert world.told == [(LANE, "rebalance", "orders")]
    await world.look(1)
    assert len(world.told) == 2
    world.on("adopt", item)
    await world.look(REMIND_MS)
    assert len(world.told) == 2
    world.desk.stop()


async def test_work_of_an_earlier_owner_is_found_by_the_sweep(world: World) -> None:
    item = world.link.transaction(lambda connection: offer(connection, "rebalance", "orders", 1, {}, LANE))
    await world.look(0)
    assert world.workers.items == [item]
    await world.look(UNCLAIMED_MS)
    assert world.spare.items == [item]
    world.desk.stop()
