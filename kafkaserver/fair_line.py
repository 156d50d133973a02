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
        """For whom somebody waits, by the seconds that they were served, and by who is served longest ago."""
        self._numbers = count()
        self._least_s = 0.0
        """Whoever comes counts as served for as long as who was last: not being here saves up nothing."""

    def __bool__(self) -> bool:
        return bool(self._order)

    def wait(self, one: One, whose: Hashable) -> None:
        """Stand in line for `whose`; who does so already keeps its place."""
        crowd = self._crowds.get(whose)
        if crowd is None:
            self._crowds[whose] = {one: None}
            heappush(self._order, (self._least_s, next(self._numbers), whose))
        else:
            crowd[one] = None

    def serve_next(self, serve: Callable[[One], None]) -> None:
        """Call `serve` with whoever is next; the time that it takes is counted whatever it raises."""
        self._least_s, _, whose = heappop(self._order)
        crowd = self._crowds[whose]
        one = next(iter(crowd))
        del crowd[one]
        began = self._clock()
        try:
            serve(one)
        finally:
            if crowd:
                used_s = self._clock() - began
                heappush(self._order, (self._least_s + used_s, next(self._numbers), whose))
            else:
                del self._crowds[whose]
