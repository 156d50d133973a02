"""A batch of commits is never a long transaction, and one that was ended for its length comes back short."""

from collections.abc import Mapping
from typing import Any

from runtime.ports import ConnectionLost
from runtime.streams import BATCH_ROWS_MAX
from tests.conformance.counters import Tally, read_tally, write_tally
from tests.unit.runtime.lanes_in_memory import lanes_in_memory

MANY = 25_000


class Measured(Tally):
    """Notes how many rows each transaction had; the server ends those above `limit`."""

    limit = MANY

    def fill(self) -> "Measured":
        self.sizes: list[int] = []
        for number in range(MANY):
            self.note(str(number), number)
        return self

    def write(self, connection: Any, rows: Mapping[str, int]) -> None:
        self.sizes.append(len(rows))
        if len(rows) > self.limit:
            raise ConnectionLost("terminating connection due to transaction timeout")
        write_tally(connection, rows)


async def test_no_transaction_has_more_rows_than_the_limit() -> None:
    async with lanes_in_memory() as rig:
        lane, tally = await rig.take(), Measured("coordinator/0").fill()
        await lane.submit_batch(tally)
        assert max(tally.sizes) <= BATCH_ROWS_MAX
        assert len(await lane.read(read_tally)) == len(tally.acknowledged) == MANY


async def test_a_batch_that_was_ended_is_not_tried_again_as_it_was() -> None:
    async with lanes_in_memory() as rig:
        lane, tally = await rig.take(), Measured("coordinator/0").fill()
        tally.limit = 3_000
        await lane.submit_batch(tally)
        assert tally.sizes.count(max(tally.sizes)) == 1
        assert len(await lane.read(read_tally)) == len(tally.acknowledged) == MANY
        assert tally.refusals == []
