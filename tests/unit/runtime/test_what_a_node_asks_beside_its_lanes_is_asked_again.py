"""Whatever ends a transaction beside the lanes, whoever asked hears that he may ask again."""

import asyncio
import threading
from collections.abc import Callable

import pytest
from psycopg import errors

from runtime import side as sides
from runtime.memory import MemoryDatabase, MemoryLink
from runtime.ports import Connection, ConnectionLost, VersionConflict
from runtime.side import SideLink


def _cancelled(connection: Connection) -> None:
    raise VersionConflict("canceling statement due to user request")


def _full(connection: Connection) -> None:
    raise errors.DiskFull("canceling: no space left on device")


@pytest.mark.parametrize("ended", [_cancelled, _full])
async def test_what_ends_a_statement_is_heard_as_a_lost_connection_and_costs_none(
    ended: Callable[[Connection], None],
) -> None:
    database = MemoryDatabase(["controller"])
    side = SideLink(database, lambda: "a-run", "queries")
    try:
        with pytest.raises(ConnectionLost, match="canceling"):
            await side.query(ended)
        assert await side.query(lambda connection: "answered") == "answered"
        assert len(database.links) == 1
    finally:
        side.stop()


async def test_a_database_that_cannot_even_be_entered_is_heard_as_a_lost_connection() -> None:
    class Full(MemoryDatabase):
        """A disk that is full when the first connection is checked, and has room afterwards."""

        is_full = True

        def connect(self, run: str, purpose: str) -> MemoryLink:
            if self.is_full:
                self.is_full = False
                raise errors.DiskFull("no space left on device")
            return super().connect(run, purpose)

    side = SideLink(Full(["controller"]), lambda: "a-run", "queries")
    try:
        with pytest.raises(ConnectionLost, match="no space left"):
            await side.query(lambda connection: None)
        assert await side.query(lambda connection: "answered") == "answered"
    finally:
        side.stop()


async def test_behind_as_many_as_may_wait_nobody_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread forgets nobody: its database stands still, and whoever asked has gone since."""
    monkeypatch.setattr(sides, "MOST_WAITING", 3)
    goes_on = threading.Event()
    side = SideLink(MemoryDatabase(["controller"]), lambda: "a-run", "queries")
    try:
        held = [asyncio.create_task(side.query(lambda connection: goes_on.wait(10)))]
        async with asyncio.timeout(10):
            while not side._taken:
                await asyncio.sleep(0)
        held += [asyncio.create_task(side.query(lambda connection: True)) for _ in range(3)]
        await asyncio.sleep(0)
        with pytest.raises(ConnectionLost, match="3 questions wait"):
            await side.query(lambda connection: True)
        held[3].cancel()
        with pytest.raises(ConnectionLost, match="3 questions wait"):
            await side.query(lambda connection: True)
        goes_on.set()
        assert await asyncio.gather(*held[:3]) == [True] * 3
        assert await side.query(lambda connection: True)
    finally:
        goes_on.set()
        side.stop()
