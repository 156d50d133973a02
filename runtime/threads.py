"""This room runs blocking calls one after the other in a thread that belongs to one connection."""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, Protocol, TypeVar

Result = TypeVar("Result")


class Thread(Protocol):
    """Runs blocking calls in the order in which they were handed in; a simulation has its own."""

    def run(self, function: Callable[[], Result]) -> "asyncio.Future[Result]":
        """Run `function` after all that was handed in before it."""

    def stop(self) -> None:
        """End after what was handed in."""


class OneThread:
    """A daemon thread with a queue; results come back as futures of the loop that made it.

    A daemon, because a thread that waits for a server that does not answer must not keep the process.
    """

    def __init__(self, name: str) -> None:
        self._loop = asyncio.get_running_loop()
        self._jobs: SimpleQueue[tuple[asyncio.Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def run(self, function: Callable[[], Result]) -> "asyncio.Future[Result]":
        """Run `function` after all that was handed in before it."""
        future: asyncio.Future[Result] = self._loop.create_future()
        self._jobs.put((future, function))
        return future

    def stop(self) -> None:
        """End the thread after what was handed in."""
        self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            future, function = job
            try:
                result, error = function(), None
            except BaseException as raised:
                result, error = None, raised
            # The loop may have closed while we waited for the server: then nobody wants to know.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(_answer, future, result, error)


def _answer(future: "asyncio.Future[Any]", result: Any, error: BaseException | None) -> None:
    if future.cancelled():
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(result)


Threads = Callable[[str], Thread]
"""Makes a thread of that name, for the running loop."""
