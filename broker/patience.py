"""This room says how long a follower's fetch may wait: less while it has to ask for what is led here newly.

Whoever begins to follow often has a fetch under way that waits for news of other partitions. It would ask for
this one only behind its answer, half a second later, and acks=all would wait as long.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

from broker.core.replica_log import PartitionKey
from muster.kernel.instants import Instant, after

IMPATIENT_MS: Final = 20
"""How long a fetch waits at most while a partition is awaited."""

AWAITED_MS: Final = 1_000
"""For how long one is: its follower may have no log to fetch into, or have died."""


class Patience:
    """The wait of one follower's fetches, and what it has not asked for yet; instants are the plane's.

    One timer serves however many partitions are awaited.
    """

    __slots__ = ("_awaited", "_due_s", "_end_wait", "_timer")

    def __init__(self, end_wait: Callable[[], None]) -> None:
        self._end_wait = end_wait
        self._timer: asyncio.Handle | None = None
        self._due_s = 0.0
        """When that ends the wait, by the loop's clock: uvloop's handle of what is due cannot tell."""
        self._awaited: dict[PartitionKey, tuple[int, Instant]] = {}
        """From which leader epoch on, and until when."""

    def expect(self, key: PartitionKey, leader_epoch: int, now: Instant) -> None:
        """`key` is led here in a new epoch: a fetch that waits is answered very soon."""
        self._awaited[key] = leader_epoch, after(now, AWAITED_MS)
        if self._timer is not None:
            due_s = asyncio.get_running_loop().time() + IMPATIENT_MS / 1000
            if due_s < self._due_s:
                self.end()
                self._wait_until(due_s)

    def asked(self, named: Iterable[tuple[PartitionKey, int]], now: Instant) -> None:
        """The follower asks for these, each in this leader epoch."""
        if not self._awaited:
            return
        for key, leader_epoch in named:
            awaited = self._awaited.get(key)
            if awaited is not None and leader_epoch >= awaited[0]:
                del self._awaited[key]
        if any(until <= now for _, until in self._awaited.values()):
            self._awaited = {key: one for key, one in self._awaited.items() if now < one[1]}

    def begin(self, wait_ms: int) -> None:
        """A fetch waits from now on, for `wait_ms` at most."""
        wait_ms = min(wait_ms, IMPATIENT_MS) if self._awaited else wait_ms
        self._wait_until(asyncio.get_running_loop().time() + wait_ms / 1000)

    def end(self) -> None:
        """It waits no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wait_until(self, due_s: float) -> None:
        self._due_s = due_s
        self._timer = asyncio.get_running_loop().call_at(due_s, self._end_wait)
