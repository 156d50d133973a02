"""This room bounds what requests cost the process: how many at once, how large, how long.

Django would give each request a thread and a database connection of its own, as many as there are
requests. Here a request waits for one of a few desks. A desk keeps its thread and its connection, and is
held only while Django works: bodies are read before it, answers are sent after it, so a slow peer holds
nothing.
"""

import asyncio
import contextlib
import os
import socket
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from asgiref.sync import ThreadSensitiveContext
from django.db import DEFAULT_DB_ALIAS, connections

from web.metrics import BUSY_DESKS, REFUSED

DESKS = 8
"""Requests that are worked on at once, and database connections of pages and REST."""

MOST_WAITING = 256
WAIT_MS = 5_000
WORK_MS = 15_000
"""PostgreSQL ends a statement after 5 s; this ends the wait for a PostgreSQL that has stopped itself."""

Scope = dict[str, Any]
Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Handle = Callable[[Scope, Receive, Send], Awaitable[Any]]


DOUBT_MS = 1_300
"""A request that waits longer asks whether the database answers anybody at all."""


class Busy(Exception):
    """No desk became free, or the work did not end in time; nothing was answered."""


class Silent(Busy):
    """The database answers nobody; nothing was answered."""


class Desk:
    """One thread for Django, with the database connection that it keeps."""

    def __init__(self, number: int) -> None:
        self.executor = ThreadPoolExecutor(1, thread_name_prefix=f"desk-{number}")
        self._database: Any = None

    @property
    def new(self) -> bool:
        """True until its thread has told which connection it keeps."""
        return self._database is None

    def keeps(self, database: Any) -> None:
        """Told by the thread: the connection that it uses."""
        self._database = database

    async def rest(self) -> None:
        """Return when the thread has nothing to do any more."""
        self._database = await asyncio.get_running_loop().run_in_executor(self.executor, _connection)

    def cut(self) -> None:
        """End the wait for a database that does not answer."""
        cut_off(self._database)

    async def close(self) -> None:
        """Take no work any more, and hang up; does not wait for a thread that still works."""
        await end_thread(self.executor, [self._database])


class Desks:
    """A few desks, the one used last first: a quiet process uses one thread and one connection."""

    def __init__(
        self,
        handle: Handle,
        number: int = DESKS,
        wait_ms: int = WAIT_MS,
        work_ms: int = WORK_MS,
        beats: Callable[[], Awaitable[bool]] | None = None,
    ) -> None:
        self._handle = handle
        self._beats = beats or _always
        self._free = [Desk(place) for place in range(number, 0, -1)]
        self._all = tuple(self._free)
        self._wait_ms = wait_ms
        self._work_ms = work_ms
        self._turn = asyncio.Semaphore(number)
        self._waiting = 0
        self._cleaning: set[asyncio.Task[None]] = set()
        BUSY_DESKS.set_function(lambda: len(self._all) - len(self._free))

    async def answer(self, scope: Scope, body: bytes) -> list[Message]:
        """Django's whole answer.

        Raises Busy if it takes too long to begin, or to end; Silent as soon as it is clear why.
        """
        desk = await self._take()
        leaving = asyncio.Event()
        working = asyncio.create_task(_answer(self._handle, desk, scope, body, leaving))
        try:
            if not await self._ended(working):
                desk.cut()
                REFUSED.labels("slow").inc()
                raise Busy
            return working.result()
        except Silent:
            desk.cut()
            raise
        finally:
            leaving.set()
            cleaning = asyncio.create_task(self._give_back(desk, working))
            self._cleaning.add(cleaning)
            cleaning.add_done_callback(self._cleaning.discard)

    async def close(self) -> None:
        """End all threads that have nothing to do."""
        for desk in self._all:
            if not desk.new:
                await desk.close()

    async def _take(self) -> Desk:
        if self._waiting >= MOST_WAITING:
            REFUSED.labels("queue").inc()
            raise Busy
        self._waiting += 1
        turn = asyncio.create_task(self._turn.acquire())
        try:
            if not await self._ended(turn, self._wait_ms):
                REFUSED.labels("busy").inc()
                raise Busy
        except BaseException:
            if turn.done() and not turn.cancelled():
                # Whoever waited left in the moment in which a desk became free for it.
                self._turn.release()
            turn.cancel()
            raise
        finally:
            self._waiting -= 1
        desk = self._free.pop()
        if desk.new:
            try:
                await desk.rest()
            except BaseException:
                self._free.append(desk)
                self._turn.release()
                raise
        return desk

    async def _ended(self, task: "asyncio.Task[Any]", within_ms: int | None = None) -> bool:
        """True if it ended in time. Raises Silent if the database answers nobody while it is waited for."""
        limit_ms = self._work_ms if within_ms is None else within_ms
        done, _ = await asyncio.wait({task}, timeout=min(DOUBT_MS, limit_ms) / 1000)
        if not done and limit_ms > DOUBT_MS:
            if not await self._beats() and not task.done():
                REFUSED.labels("silent").inc()
                raise Silent
            done, _ = await asyncio.wait({task}, timeout=(limit_ms - DOUBT_MS) / 1000)
        return bool(done)

    async def _give_back(self, desk: Desk, working: "asyncio.Task[list[Message]]") -> None:
        """A thread cannot be cancelled: the desk is free when its thread is."""
        await asyncio.gather(working, return_exceptions=True)
        await desk.rest()
        self._free.append(desk)
        self._turn.release()


async def _answer(
    handle: Handle, desk: Desk, scope: Scope, body: bytes, leaving: asyncio.Event
) -> list[Message]:
    said: list[Message] = []
    unread = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Message:
        if unread:
            return unread.pop()
        # Django asks whether the client left: it did as soon as nobody waits for the answer any more.
        await leaving.wait()
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        said.append(message)

    async with ThreadSensitiveContext(executor=desk.executor):
        await handle(scope, receive, send)
    return said


async def _always() -> bool:
    return True


def cut_off(database: Any) -> None:
    """Shut the socket of Django's connection under the thread that waits for an answer on it.

    Python ends no process before all its threads have ended.
    """
    raw = getattr(database, "connection", None)
    if raw is None or raw.closed:
        return
    with contextlib.suppress(OSError), socket.socket(fileno=os.dup(raw.pgconn.socket)) as shut:
        shut.shutdown(socket.SHUT_RDWR)


async def end_thread(executor: ThreadPoolExecutor, databases: Iterable[Any]) -> None:
    """Close the connections of an executor's threads, which are `databases`, and end them.

    A thread that has no time, as it waits for a database that does not answer, is cut off.
    """
    closing = asyncio.get_running_loop().run_in_executor(executor, connections.close_all)
    await asyncio.wait({closing}, timeout=0.5)
    for database in databases:
        cut_off(database)
    await asyncio.wait({closing}, timeout=0.5)
    executor.shutdown(wait=False, cancel_futures=True)


def _connection() -> Any:
    return connections[DEFAULT_DB_ALIAS]
