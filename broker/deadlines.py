"""This room ends what waits too long, by one timer of the loop for all that wait.

A timer for each costs the loop more than what it waits for: nearly all are answered long before.
"""

import asyncio
from heapq import heapify, heappop, heappush
from typing import Final, Protocol

import structlog

log = structlog.get_logger(__name__)

_SPARE: Final = 64
"""So many that wait no longer may lie here beyond those that do."""


class Waits(Protocol):
    """Somebody whose time may be over."""

    is_waiting: bool
    """False from when it leaves on."""

    def time_is_over(self) -> None:
        """It has not left in time; now it has."""


class Deadlines:
    """By when each of them is to be told. All calls come from the loop."""

    __slots__ = ("_due", "_entered", "_timer", "_waiting", "_wakes_at")

    def __init__(self) -> None:
        self._due: list[tuple[float, int, Waits]] = []
        """A heap; the number tells apart who is due at the same time."""
        self._entered = 0
        self._waiting = 0
        self._timer: asyncio.TimerHandle | None = None
        self._wakes_at = 0.0

    def __len__(self) -> int:
        """How many are kept in memory, those included that have left."""
        return len(self._due)

    def enter(self, waits: Waits, within_s: float) -> None:
        """Tell `waits` so much later, unless it has left."""
        loop = asyncio.get_running_loop()
        at = loop.time() + within_s
        self._entered += 1
        self._waiting += 1
        heappush(self._due, (at, self._entered, waits))
        if self._timer is None or at < self._wakes_at:
            self._wake_at(at, loop)

    def leave(self) -> None:
        """One that entered waits no longer, and has said so."""
        self._waiting -= 1
        if not self._waiting:
            self._due.clear()
        elif len(self._due) > 2 * self._waiting + _SPARE:
            self._due = [entry for entry in self._due if entry[2].is_waiting]
            heapify(self._due)

    def _wake_at(self, at: float, loop: asyncio.AbstractEventLoop) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._wakes_at = at
        self._timer = loop.call_at(at, self._wake)

    def _wake(self) -> None:
        self._timer = None
        loop = asyncio.get_running_loop()
        now = loop.time()
        while self._due and (self._due[0][0] <= now or not self._due[0][2].is_waiting):
            waits = heappop(self._due)[2]
            if not waits.is_waiting:
                continue
            try:
                waits.time_is_over()
            except Exception:
                # Our own mistake with one must not leave the others waiting.
                log.exception("time_is_over_failed")
        if self._due:
            self._wake_at(self._due[0][0], loop)
