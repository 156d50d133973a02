"""However many members come at once, and however much they subscribe to, no turn writes too much."""

from collections import Counter

import pytest

from muster.kernel.shards import shard_of
from runtime.ports import shard_lane
from runtime.queued import TURN_WEIGHT_MAX
from tests.unit.coordinator.shards import Caller, Shards, registering

GROUP, MEMBERS = "departures", 100


@pytest.mark.parametrize(("topics", "turns_at_least"), [(1, 1), (1_000, 2)])
async def test_a_turn_is_bounded_by_the_topics_that_its_members_name(
    topics: int, turns_at_least: int
) -> None:
    named = [f"t{number}" for number in range(topics)]
    async with Shards() as shards:
        service = await shards.serve(GROUP)
        for number in range(MEMBERS):
            caller = Caller(f"member-{number}")
            shards.premises.callers.add(caller, shard_of(GROUP))
            service.hear(caller, GROUP, registering(GROUP, caller.id, *named))
        await shards.settled(GROUP)
        assert len(shards.rows(GROUP).members) == MEMBERS
        written = Counter[int]()
        for (lane, seq), row in shards.database.tables["journal"].items():
            assert lane == shard_lane(shard_of(GROUP))
            written[seq] += sum(len(record.get("topic_count", ())) for record in row.records)
        assert sum(written.values()) == MEMBERS * topics
        assert max(written.values()) <= 100 * TURN_WEIGHT_MAX
        assert turns_at_least <= len(written) <= turns_at_least + 1
