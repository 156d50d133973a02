"""A rebalance goes on as soon as its work is done, also when the owner was just looking for it."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from coordinator.store import REBALANCE
from muster.kernel.shards import shard_of
from tests.unit.coordinator.shards import Shards, eventually

KEY = "readers"


async def test_it_is_not_left_to_the_reminder_of_the_next_second(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Shards() as shards:
        await shards.registered(KEY, "ann")
        service, lane = shards.services[shard_of(KEY)], shards.held[shard_of(KEY)]
        read, saw, may_end = lane.read, asyncio.Event(), asyncio.Event()

        async def slow_read(function: Callable[[Any], Any]) -> Any:
            found = await read(function)
            saw.set()
            await may_end.wait()
            return found

        monkeypatch.setattr(lane, "read", slow_read)
        service.woken("work", f"{REBALANCE} {KEY}")
        await saw.wait()
        await shards.finish(KEY, {"ann": (0, 1)})
        may_end.set()
        await eventually(lambda: "ann" in shards.rows(KEY).owned)
