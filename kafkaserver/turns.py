"""This room gives everything else of a process its turn while many connections have much to be served.

One connection has its bound (`kafkaserver.sockets`). When hundreds have something at once, a loop that served
all of them in one round would let nobody speak meanwhile, neither a broker's link nor a node's leases.
"""

import asyncio
from collections.abc import Callable
from typing import Final, Generic, TypeVar

One = TypeVar("One")

ROUND_S: Final = 0.05
"""For so long the connections of a door are served in one round of the loop; the last of them to its end."""


class Turns(Generic[One]):
    """Who of a door is served in this round of the loop, and who waits for the next ones, in which order."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, serve: Callable[[One], None], round_s: float = ROUND_S
    ) -> None:
        """`serve` is called when the turn of one that waited has come; it may be gone by then."""
        self._loop = loop
        self._serve = serve
        self._round_s = round_s
        self._ends_at = 0.0
        """When nobody more is served in this round; 0: nobody was yet."""
        self._waiting: dict[One, None] = {}

    def has(self, one: One) -> bool:
        """Whether it may be served now; else it is served in its turn."""
        now = self._loop.time()
        if not self._ends_at:
            self._begin(now)
        elif now >= self._ends_at:
            self._waiting[one] = None
            return False
        return True

    def _begin(self, now: float) -> None:
        self._ends_at = now + self._round_s
        # Called in the next round, before whatever can be read in that.
        self._loop.call_soon(self._next_round)

    def _next_round(self) -> None:
        self._ends_at = 0.0
        if not self._waiting:
            return
        self._begin(self._loop.time())
        # The first that has waited uses the round up for itself, if need be.
        ends_at, self._ends_at = self._ends_at, float("inf")
        while self._waiting:
            one = next(iter(self._waiting))
            del self._waiting[one]
            self._serve(one)
            if self._loop.time() >= ends_at:
                break
        self._ends_at = ends_at
