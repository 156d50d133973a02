"""Whatever ends a transaction beside the lanes, whoever asked hears that he may ask again."""

import pytest

from runtime.memory import MemoryDatabase
from runtime.ports import Connection, ConnectionLost, VersionConflict
from runtime.side import SideLink


def _cancelled(connection: Connection) -> None:
    raise VersionConflict("canceling statement due to user request")


async def test_a_cancelled_statement_is_heard_as_a_lost_connection_and_costs_none() -> None:
    database = MemoryDatabase(["controller"])
    side = SideLink(database, lambda: "a-run", "queries")
    try:
        with pytest.raises(ConnectionLost, match="canceling"):
            await side.query(_cancelled)
        assert await side.query(lambda connection: "answered") == "answered"
        assert len(database.links) == 1
    finally:
        side.stop()
