"""A lane that nobody used has not noticed that its connection broke; it is resigned over another."""

from runtime.ports import shard_lane
from tests.unit.runtime.lanes_in_memory import lanes_in_memory

LANE = shard_lane(0)


async def test_a_database_that_started_again_holds_up_no_hand_over() -> None:
    async with lanes_in_memory() as made:
        lane = await made.take(LANE)
        for link in made.database.links:
            link.broken = True
        assert await lane.resign()
        assert made.database.tables["lease"][LANE] == (None, 1)


async def test_a_resignation_whose_answer_was_lost_is_said_again() -> None:
    async with lanes_in_memory() as made:
        lane = await made.take(LANE)
        for link in made.database.links:
            link.lose_answer = True
        assert await lane.resign()
        assert made.database.tables["lease"][LANE] == (None, 1)
