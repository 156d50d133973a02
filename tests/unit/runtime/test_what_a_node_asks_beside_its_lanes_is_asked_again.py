"""Whatever ends a transaction beside the lanes, whoever asked hears that he may ask again."""

from collections.abc import Callable

import pytest
from psycopg import errors

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
