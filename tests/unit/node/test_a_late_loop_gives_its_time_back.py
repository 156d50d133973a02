"""What the loop stood still for is given back to everybody before anything may be decided by the clock."""

import asyncio
from typing import Any, cast

import pytest

from muster.kernel.instants import Instant
from node.duties import TICK_MS, Duties
from runtime import clock
from runtime.freshness import Freshness

LATE_MS = 3_000


class Told(Freshness):
    """Is told of each tick, and of what the keeper is told beside it; nothing is confirmed, so it rests."""

    def __init__(self) -> None:
        super().__init__(clock.now)
        self.heard: list[str] = []

    def tick(self, now: Instant) -> None:
        self.heard.append("the loop runs")
        super().tick(now)

    def postpone(self, late_ms: int) -> None:
        self.heard.append(f"late by {late_ms}")

    def watch(self, now: Instant) -> None:
        self.heard.append("watched")

    def frozen_ms(self, now: Instant) -> int:
        return 0


async def test_it_is_given_back_before_the_loop_counts_as_running(monkeypatch: pytest.MonkeyPatch) -> None:
    at = [Instant(1_000)]
    monkeypatch.setattr(clock, "now", lambda: at[0])
    told, unused = Told(), cast(Any, None)
    ticking = asyncio.create_task(Duties(unused, cast(Any, told), unused, told, unused, unused, unused).run())
    await asyncio.sleep(0)
    at[0] = Instant(at[0] + TICK_MS + LATE_MS)
    async with asyncio.timeout(10):
        while "watched" not in told.heard:
            await asyncio.sleep(0.005)
    ticking.cancel()
    assert told.heard[:4] == ["the loop runs", f"late by {LATE_MS}", "the loop runs", "watched"]
