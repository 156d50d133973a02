"""This room does what comes in crowds a slice of time at a time; all else on the loop passes in between."""

import asyncio
import time
from collections import deque
from collections.abc import Callable


class Slices:
    """Who has a turn in this round of the loop, and who waits for the next ones, first come first served."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, slice_s: float, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        """In each round turns are given for `slice_s`, and one in any case."""
        self._loop = loop
        self._slice_s = slice_s
        self._clock = clock
        self._until: float | None = None
        self._waiting: deque[Callable[[], None]] = deque()
        self._is_called = False

    def has_turn(self) -> bool:
        """True: now. False: call `wait`, and ask again when called."""
        if self._is_called:
            self._is_called = False
            return True
        if self._until is None:
            self._begin_slice()
            return True
        return not self._waiting and self._clock() < self._until

    def wait(self, go_on: Callable[[], None]) -> None:
        """`go_on` is called in one of the next rounds, and whoever asks in it has a turn once."""
        self._waiting.append(go_on)

    async def turn(self) -> None:
        """For a coroutine: return when it has one."""
        if not self.has_turn():
            given = self._loop.create_future()
            # Whoever was cancelled meanwhile waits no more.
            self.wait(lambda: None if given.done() else given.set_result(None))
            await given

    def _begin_slice(self) -> float:
        self._until = until = self._clock() + self._slice_s
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
