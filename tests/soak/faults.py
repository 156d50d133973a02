"""This room plays a plan of faults on a running stack, and ends each of them."""

import contextlib
import heapq
import signal
import time
from collections.abc import Callable, Sequence
from functools import partial

import redis

from standalone.children import StartError
from standalone.stack import Stack
from standalone.supervision import NotRunning
from tests.soak.plan import Event, Fault

LOOK_EVERY_S = 0.1
AROUND_S = 25.0
STARTS, STARTED_WITHIN_S = 20, 0.5


class Faults:
    """What was planned, and when it was really done."""

    def __init__(self, stack: Stack, events: Sequence[Event]) -> None:
        self._stack = stack
        self._events = events
        self.done: list[tuple[float, str]] = []

    def play(self, lasts_s: float, say: Callable[[str], None]) -> None:
        """Do it all; return after `lasts_s`, when everybody is there again."""
        began = time.monotonic()
        due: list[tuple[float, int, str, Callable[[], None]]] = []
        for number, event in enumerate(self._events):
            begin, end = self._acts_of(event)
            heapq.heappush(due, (event.at_s, number, str(event), begin))
            if end is not None:
                heapq.heappush(due, (event.at_s + event.for_s, -number, "", end))
        try:
            while due:
                at_s, _, told, act = heapq.heappop(due)
                while time.monotonic() < began + at_s:
                    time.sleep(LOOK_EVERY_S)
                if told:
                    say(told)
                    self.done.append((time.time(), told))
                # Whoever is away already cannot be killed.
                with contextlib.suppress(NotRunning, StartError, ProcessLookupError, redis.RedisError):
                    act()
            while time.monotonic() < began + lasts_s:
                time.sleep(LOOK_EVERY_S)
        finally:
            self._wake_everybody()

    def around(self, at: float) -> str:
        """What had been done shortly before that moment of the wall clock."""
        near = [told for when, told in self.done if 0 <= at - when <= AROUND_S]
        return "; ".join(near[-3:]) or "nothing"

    def _acts_of(self, event: Event) -> tuple[Callable[[], None], Callable[[], None] | None]:
        stack, target = self._stack, event.target
        again = partial(self._start, target)
        match event.fault:
            case Fault.KILL:
                return partial(stack.kill, target), again
            case Fault.PAUSE:
                return partial(stack.kill, target, signal.SIGSTOP), partial(
                    stack.kill, target, signal.SIGCONT
                )
            case Fault.RESTART:
                return partial(stack.stop_process, target), again
            case Fault.FLUSH:
                return self._flush, None

    def _start(self, name: str) -> None:
        """Until it runs: a PostgreSQL that took too long to stop is still in its own way."""
        for _ in range(STARTS):
            self._stack.start_process(name)
            time.sleep(STARTED_WITHIN_S)
            if self._stack.states()[name].running:
                return

    def _flush(self) -> None:
        with contextlib.closing(redis.Redis.from_url(self._stack.redis_url)) as link:
            link.flushall()

    def _wake_everybody(self) -> None:
        """However the plan ended: nobody sleeps, nobody is missing."""
        for name, state in self._stack.states().items():
            with contextlib.suppress(NotRunning, StartError, ProcessLookupError):
                if state.pid:
                    self._stack.kill(name, signal.SIGCONT)
                elif not name.startswith("clients-"):
                    self._start(name)
