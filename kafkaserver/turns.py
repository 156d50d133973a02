"""This room gives everything else of a process its turn while many connections have much to be served.

One connection has its bound (`kafkaserver.sockets`, `node.websocket`). When hundreds have something at once,
a loop that served all of them in one round would let nobody speak meanwhile, neither a broker's link nor a
node's leases.
"""

import asyncio
from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

from kafkaserver.fair_line import FairLine

One = TypeVar("One")

ROUND_S: Final = 0.05
"""For so long the connections of a door are served in one round of the loop; the last of them to its end."""

LOOKED_AT_MAX: Final = 768
"""Of so many that wait the loop goes on to be told that there is something to be read. The system tells of
a thousand at a time, and while it tells of as many libuv asks again, up to 48 times, before it goes on.
"""


class Turns(Generic[One]):
    """Who of a door is served in this round of the loop, and who waits for the next ones, in which order."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        serve: Callable[[One], None],
        whose: Callable[[One], Hashable],
        round_s: float = ROUND_S,
        look: tuple[Callable[[One], None], Callable[[One], None]] | None = None,
    ) -> None:
        """`serve` is called when the turn of one that waited has come; it may be gone by then. Those of one
        `whose` share the turns of one. `look`: where very many wait, one is looked away from by the first of
        these, and is looked at again by the second before it is served.
        """
        self._look = look
        self._unseen: set[One] = set()
        self._loop = loop
        self._serve = serve
        self._whose = whose
        self._round_s = round_s
        self._ends_at = 0.0
        """When the present time is over, in which whoever comes is served."""
        self._went_round = True
        """Whether the loop has gone round since that time began."""
        self._is_serving = False
        self._waiting: FairLine[One] = FairLine(loop.time)

    def has(self, one: One) -> bool:
        """Whether it may be served now; else it is served in its turn.

        To learn of each round of the loop would cost one more, for each request of somebody who speaks alone.
        So what is counted are times, half as long as a round may take: when one is over the next begins where
        the loop has gone round since it began, and else waits for that. No round holds more than two.
        """
        now = self._loop.time()
        if now < self._ends_at:
            return True
        if self._went_round and not self._waiting:
            self._ends_at, self._went_round = now + self._round_s / 2, False
            self._loop.call_soon(self._goes_round)
            return True
        self.wait(one)
        return False

    def wait(self, one: One) -> None:
        """It has had its turn, and has more to be served: that is done in the next one."""
        if not self._waiting and not self._is_serving:
            self._loop.call_soon(self._serve_those_who_wait)
        self._waiting.wait(one, self._whose(one))
        if self._look is not None and len(self._waiting) > LOOKED_AT_MAX and one not in self._unseen:
            self._unseen.add(one)
            self._look[0](one)

    def _goes_round(self) -> None:
        self._went_round = True

    def _serve_those_who_wait(self) -> None:
        """In the next round, before whatever can be read in that."""
        ends_at, self._ends_at = self._loop.time() + self._round_s, float("inf")
        self._is_serving, self._went_round = True, False
        try:
            while self._waiting:
                self._waiting.serve_next(self._serve_one)
                if self._loop.time() >= ends_at:
                    break
        finally:
            # The next round may begin a time of its own behind what is left of this one.
            self._ends_at = min(ends_at, self._loop.time() + self._round_s / 2)
            self._is_serving = False
            self._loop.call_soon(self._serve_those_who_wait if self._waiting else self._goes_round)

    def _serve_one(self, one: One) -> None:
        if one in self._unseen:
            self._unseen.discard(one)
            assert self._look is not None
            self._look[1](one)
        self._serve(one)
