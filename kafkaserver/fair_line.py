"""This room is a line in which nobody gets ahead by coming with many: who was served least is next.

Each who comes does so for somebody. Of one they are served in the order in which they came; between two, time
is what counts: a thousand small requests of one weigh as much as a few large ones of another.
"""

from collections.abc import Callable, Hashable
from heapq import heappop, heappush
from itertools import count
from typing import Generic, TypeVar

One = TypeVar("One")


class FairLine(Generic[One]):
    """Who waits, and for whom; false while nobody does. Start-time fair queueing, by the seconds used."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._crowds: dict[Hashable, dict[One, None]] = {}
        self._order: list[tuple[float, int, Hashable]] = []
        """For whom somebody waits, or did, by the seconds that they were served, then by how long ago."""
        self._numbers = count()
        self._waiting = 0
        self._least_s = 0.0
        """Whoever comes counts as served for as long as who was last: not being here saves up nothing."""

    def __bool__(self) -> bool:
        return self._waiting > 0

    def __len__(self) -> int:
        return self._waiting

    def wait(self, one: One, whose: Hashable) -> None:
        """Stand in line for `whose`; who does so already keeps its place."""
        crowd = self._crowds.get(whose)
        if crowd is None:
            crowd = self._crowds[whose] = {}
            heappush(self._order, (self._least_s, next(self._numbers), whose))
        if one not in crowd:
            crowd[one] = None
            self._waiting += 1

    def serve_next(self, serve: Callable[[One], None]) -> None:
        """Call `serve` with whoever is next; the time that it takes is counted whatever it raises."""
        whose, crowd = self._next_crowd()
        one = next(iter(crowd))
        del crowd[one]
        self._waiting -= 1
        began = self._clock()
        try:
            serve(one)
        finally:
            if self._waiting:
                # Also if nobody waits for `whose` now: who comes again a moment later was not away.
                used_s = self._clock() - began
                heappush(self._order, (self._least_s + used_s, next(self._numbers), whose))
            else:
                self._crowds.clear()
                self._order.clear()

    def _next_crowd(self) -> tuple[Hashable, dict[One, None]]:
        """Those of whom one is next; who has let its time pass is forgotten."""
        while True:
            self._least_s, _, whose = heappop(self._order)
            if crowd := self._crowds[whose]:
                return whose, crowd
            del self._crowds[whose]
