"""This room feels whether the database answers anybody, while requests wait for it."""

import asyncio
import contextlib
import time

from django.db import DEFAULT_DB_ALIAS, connections

from access.rest.problems import has_no_connection_left
from web import silence
from web.desks import Desk

FELT_WITHIN_MS = 700
SILENT_FOR_MS = 1_000
"""Silence is believed for so long: who asks meanwhile does not wait again."""


class Pulse:
    """One trivial question at a time over a connection of its own, opened when first in doubt.

    A statement may take long because it is large or waits for a lock; a database that does not even answer
    this one is stopped, cut off or gone.
    """

    def __init__(self) -> None:
        self._desk = Desk(0)
        self._asking: asyncio.Future[None] | None = None
        self._silent_until = 0.0

    async def beats(self) -> bool:
        """True if the database answers within FELT_WITHIN_MS.

        Also that it has no connection left is an answer: the desks have theirs.
        """
        if time.monotonic() < self._silent_until:
            return False
        if self._asking is None or self._asking.done():
            loop = asyncio.get_running_loop()
            self._asking = loop.run_in_executor(self._desk.executor, self._ask)
            self._asking.add_done_callback(_look_at)
        asked = self._asking
        await asyncio.wait({asked}, timeout=FELT_WITHIN_MS / 1000)
        if asked.done() and ((refusal := asked.exception()) is None or has_no_connection_left(refusal)):
            silence.over()
            return True
        silence.noticed()
        self._desk.cut()
        self._silent_until = time.monotonic() + SILENT_FOR_MS / 1000
        return False

    async def close(self) -> None:
        """Ask nothing any more."""
        if self._asking is not None:
            with contextlib.suppress(Exception):
                await asyncio.wait({self._asking}, timeout=0.1)
            await self._desk.close()

    def _ask(self) -> None:
        connection = connections[DEFAULT_DB_ALIAS]
        self._desk.keeps(connection)
        connection.close_if_unusable_or_obsolete()
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")


def _look_at(asked: asyncio.Future[None]) -> None:
    """Whoever was not waited for may end as it likes: unlooked at, its error would be told as a mistake."""
    if not asked.cancelled():
        asked.exception()
