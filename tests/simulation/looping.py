"""This room is a simulated process's loop and threads: its time is the world's, its order the seed's."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context
from typing import Any, TypeVar

from tests.simulation.timeline import Timeline

Result = TypeVar("Result")
FAREWELLS = 5
AGAIN_MS = 50


class Waits(Exception):
    """The database, or the way there, answers nothing now: what was asked is done later."""


class SimulatedLoop(asyncio.AbstractEventLoop):
    """As much of an event loop as asyncio's own parts ask for.

    A paused process runs nothing, and all at once when it goes on. One that is over never runs again.
    """

    def __init__(self, world: Timeline) -> None:
        self._world = world
        self._ready: deque[asyncio.Handle] = deque()
        self._running = False
        self._due = False
        self._tasks: set[asyncio.Task[Any]] = set()
        self.paused = False
        self.over = False

    def perform(self, callback: Callable[..., Any], *arguments: Any) -> None:
        """Something reaches the process from outside."""
        if not self.over:
            self._ready.append(asyncio.Handle(callback, arguments, self))
            self._run()

    def go_on(self) -> None:
        """The process runs again; what became due meanwhile comes first."""
        self.paused = False
        self._run()

    def end(self) -> None:
        """The process is gone: its tasks end without a word to anybody."""
        self.over, self.paused = True, False
        # Some wait once more while they are cancelled, for what will not come.
        for _ in range(FAREWELLS):
            for task in sorted(self._tasks, key=lambda task: task.get_name()):
                task.cancel()
            self._run()

    def _run(self) -> None:
        if self._running or self.paused:
            return
        outer = asyncio._get_running_loop()
        asyncio._set_running_loop(self)
        self._running = True
        try:
            while self._ready and not self.paused:
                handle = self._ready.popleft()
                if not handle.cancelled():
                    handle._run()
        finally:
            self._running = False
            asyncio._set_running_loop(outer)

    # -- what asyncio asks ------------------------------------------------------------------

    def time(self) -> float:
        return self._world.now / 1000

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return self._running

    def is_closed(self) -> bool:
        return False

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        if not self._running and not self._due:
            self._due = True
            self._world.later(0, self._come)
        return handle

    def _come(self) -> None:
        self._due = False
        self._run()

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        return self.call_soon(callback, *args, context=context)

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)

        def due() -> None:
            if not self.over and not handle.cancelled():
                self._ready.append(handle)
                self._run()

        self._world.later(when * 1000 - self._world.now, due)
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """It will be passed over."""

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(
        self,
        coro: Coroutine[Any, Any, Result] | Generator[Any, None, Result],
        *,
        name: str | None = None,
        context: Context | None = None,
    ) -> asyncio.Task[Result]:
        task: asyncio.Task[Result] = asyncio.Task(coro, loop=self, name=name, context=context)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if not self.over and error is not None and "never retrieved" not in context.get("message", ""):
            self._world.break_off(f"{context.get('message')}: {error!r}", error)


class SimulatedProcess:
    """Whatever has a loop of its own. `status`: up, paused, over."""

    def __init__(self, world: Timeline) -> None:
        self.status = "up"
        self.loop = SimulatedLoop(world)  # type: ignore[abstract]  # no sockets, no children

    def pause(self) -> None:
        """SIGSTOP."""
        self.status = "paused"
        self.loop.paused = True

    def go_on(self) -> None:
        """SIGCONT."""
        if self.status == "paused":
            self.status = "up"
            self.loop.go_on()


class SimulatedThread:
    """runtime.threads.Thread: a request takes its time to the database, and so does the answer.

    What was sent is executed also while its sender is stopped.
    """

    def __init__(self, world: Timeline, loop: SimulatedLoop, name: str) -> None:
        self._world = world
        self._loop = loop
        self._jobs: deque[tuple[asyncio.Future[Any], Callable[[], Any]]] = deque()
        self._busy = False

    def run(self, function: Callable[[], Result]) -> asyncio.Future[Result]:
        future: asyncio.Future[Result] = self._loop.create_future()
        self._jobs.append((future, function))
        if not self._busy:
            self._send()
        return future

    def stop(self) -> None:
        """What was handed in is still done."""

    def _send(self) -> None:
        self._busy = True
        self._world.later(self._flight_ms(), self._execute)

    def _execute(self) -> None:
        future, function = self._jobs[0]
        result: Any = None
        error: BaseException | None = None
        try:
            result = function()
        except Waits:
            self._world.later(AGAIN_MS, self._execute)
            return
        except BaseException as raised:
            error = raised
        self._jobs.popleft()
        self._world.later(self._flight_ms(), lambda: self._loop.perform(self._answer, future, result, error))

    def _answer(self, future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
        self._busy = False
        if self._jobs:
            self._send()
        if future.cancelled():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)

    def _flight_ms(self) -> float:
        chance = self._world.chance
        slow = chance.random() < 0.02 and not self._world.quiet
        return chance.uniform(20, 300) if slow else chance.uniform(0.1, 1.5)
