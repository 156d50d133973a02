"""This room hears large texts a few at a time: of many that come together the others wait, and nothing else.

A subscription to a thousand topics takes a millisecond to read. Thousands of members who come back together
once held the node's loop for five seconds, and its leases with it.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Final
from weakref import WeakKeyDictionary

LARGE_BYTES: Final = 4_096
"""A text of so many bytes or more is a large one; what members say all day is smaller."""

SLICE_S: Final = 0.02
"""For so long large texts are heard before everything else on the loop has its turn."""


class LargeTexts:
    """Who may be heard in this round of the loop, and who waits for the next ones, first come first heard."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self._loop = loop
        self._clock = clock
        self._until: float | None = None
        self._waiting: deque[Callable[[], None]] = deque()
        self._is_called = False

    def may_be_heard(self) -> bool:
        """True: now. False: call `wait`, and ask again when called."""
        if self._is_called:
            self._is_called = False
            return True
        if self._until is None:
            self._begin_slice()
            return True
        return not self._waiting and self._clock() < self._until

    def wait(self, go_on: Callable[[], None]) -> None:
        """`go_on` is called in one of the next rounds, and whoever asks in it may be heard once."""
        self._waiting.append(go_on)

    def _begin_slice(self) -> float:
        self._until = until = self._clock() + SLICE_S
        self._loop.call_soon(self._next_round)
        return until

    def _next_round(self) -> None:
        self._until = None
        if not self._waiting:
            return
        until = self._begin_slice()
        while self._waiting:
            self._is_called = True
            try:
                self._waiting.popleft()()
            finally:
                self._is_called = False
            if self._clock() >= until:
                return


_of_loops: WeakKeyDictionary[asyncio.AbstractEventLoop, LargeTexts] = WeakKeyDictionary()


def large_texts(loop: asyncio.AbstractEventLoop) -> LargeTexts:
    """Those of all websockets on this loop."""
    found = _of_loops.get(loop)
    if found is None:
        found = _of_loops[loop] = LargeTexts(loop)
    return found
