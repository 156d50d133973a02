"""This room runs what a node asks of the database outside its lanes: short transactions, in a thread."""

import contextlib
from collections.abc import Callable
from typing import Final, TypeVar

from runtime.database import Database, Link
from runtime.ports import Connection, ConnectionLost, lost_where_nothing_is_done
from runtime.threads import OneThread, Threads

Result = TypeVar("Result")

MOST_WAITING: Final = 1_000
"""Questions of one connection, each of which the thread keeps until it comes to it, whoever waits."""


class SideLink:
    """One more connection of a run; made at first use, and again after it broke."""

    def __init__(
        self, database: Database, run: Callable[[], str], purpose: str, threads: Threads = OneThread
    ) -> None:
        self._database = database
        self._run = run
        self._purpose = purpose
        self._thread = threads(purpose)
        self._link: Link | None = None
        self._asked = self._taken = 0
        """How many questions there were: counted by the loop, and by the thread."""

    async def query(self, function: Callable[[Connection], Result]) -> Result:
        """Run `function` in a transaction of its own. Raises ConnectionLost, also where the database
        writes nothing for anybody, or as many wait as may: ask again, or do without.
        """
        if self._asked - self._taken >= MOST_WAITING:
            raise ConnectionLost(f"{MOST_WAITING} questions wait for the database already")
        run = self._run()
        self._asked += 1
        return await self._thread.run(lambda: self._transaction(run, function))

    def stop(self) -> None:
        """Close the connection after what was handed in; whoever waits for the server is cut off."""
        if self._link is not None:
            self._link.shut()
        self._thread.run(self._close)
        self._thread.stop()

    def _transaction(self, run: str, function: Callable[[Connection], Result]) -> Result:
        self._taken += 1
        with lost_where_nothing_is_done():
            if self._link is None:
                self._link = self._database.connect(run, self._purpose)
            try:
                return self._link.transaction(function)
            except ConnectionLost:
                self._close()
                raise

    def _close(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            with contextlib.suppress(ConnectionLost):
                link.close()
