"""A finished rebalance that spoils its turn counts as failed: another is computed, and the group goes on."""

from coordinator.store import REBALANCE
from muster.kernel.shards import shard_of
from runtime.ports import shard_lane
from runtime.work_table import WorkRow
from tests.unit.coordinator.shards import Shards, eventually

KEY = "readers"


async def test_it_is_not_met_again_for_ever() -> None:
    async with Shards() as shards:
        await shards.registered(KEY, "ann")
        link = shards.database.connect("a-run", "test")

        def open_items() -> list[WorkRow]:
            lanes = [shard_lane(shard_of(KEY))]
            return list(link.transaction(lambda connection: connection.work_table.open_items(lanes)))

        [spoilt] = open_items()
        shards.store.fails_for = "orders"
        await shards.finish(KEY, {"ann": (0, 1)})

        def is_adopted() -> bool:
            # The desk tells again of what is done and not adopted.
            shards.services[shard_of(KEY)].woken("work", f"{REBALANCE} {KEY}")
            return spoilt.id not in {item.id for item in open_items()}

        await eventually(is_adopted)
        shards.store.fails_for = ""
        await eventually(lambda: bool(open_items()))
        await shards.finish(KEY, {"ann": (0, 1)})
        await eventually(lambda: "ann" in shards.rows(KEY).owned)


async def test_the_distance_to_the_next_grows_though_each_failure_drops_the_cache() -> None:
    async with Shards() as shards:
        await shards.registered(KEY, "ann")
        shards.store.fails_for = "orders"
        groups = shards.services[shard_of(KEY)]._groups
        for failures in (1, 2, 3):
            await shards.finish(KEY, {"ann": (0, 1)})

            def has_failed(times: int = failures) -> bool:
                shards.services[shard_of(KEY)].woken("work", f"{REBALANCE} {KEY}")
                state = groups.states.get(KEY)
                return state is not None and state.memory.failures == times

            await eventually(has_failed)
            await eventually(lambda: shards.rows(KEY).handler_asked)
