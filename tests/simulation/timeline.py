"""This room is the time, the chance and the trail of one seed's world, and what breaks it off."""

from __future__ import annotations

import heapq
import random
import traceback
from collections.abc import Callable
from typing import cast

from muster.kernel.instants import Instant


class Violation(AssertionError):
    """Something that must never be; the trail before it tells how it came."""


class Clock:
    """One process's own monotonic clock: it starts anywhere and runs a little fast or slow."""

    def __init__(self, world: Timeline) -> None:
        self._world = world
        self._rate = world.chance.uniform(0.997, 1.003)
        self._start = world.chance.randint(0, 10**9)

    def now(self) -> Instant:
        # Asked fifteen thousand times a seed: calling Instant would cost as much again.
        return cast(Instant, int(self._start + self._world.now * self._rate))

    def leap(self, ms: int) -> None:
        """It shows a later time from now on."""
        self._start += ms

    def world_time(self, instant: Instant) -> float:
        return (instant - self._start) / self._rate


class Timeline:
    """Actions run one after the other, in the order of their times; `quiet`: no fault comes any more."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.now = 0.0
        self.trail: list[str] = []
        self.violation = ""
        self.quiet = False
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0

    def later(self, delay_ms: float, action: Callable[[], None]) -> None:
        """Run the action after this delay."""
        self._count += 1
        heapq.heappush(self._agenda, (self.now + max(0.0, delay_ms), self._count, action))

    def soon(self, action: Callable[[], None], at_most_ms: float = 5.0) -> None:
        """Run the action after a short random delay."""
        self.later(self.chance.uniform(0.1, at_most_ms), action)

    def run_until(self, end: float) -> None:
        """Run everything that is due before `end`."""
        while self._agenda and self._agenda[0][0] <= end:
            at, _, action = heapq.heappop(self._agenda)
            self.now = max(self.now, at)
            action()
            if self.violation:
                raise Violation(self.violation)
        self.now = end

    def tell(self, text: str) -> None:
        """One line of the trail."""
        self.trail.append(f"{self.now / 1000:9.3f}  {text}")

    def forbid(self, condition: object, text: str) -> None:
        """Something that must never be; product code may catch what is raised, the world remembers it."""
        if condition:
            self.break_off(text)
            raise Violation(text)

    def break_off(self, text: str, error: BaseException | None = None) -> None:
        """Nothing needs to be seen after this."""
        self.tell(f"VIOLATION: {text}")
        if error is not None:
            self.trail.extend(traceback.format_exception(error))
        self.violation = self.violation or text
