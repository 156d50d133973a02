"""An owner looks now and then for what its groups need no more, and deletes what tools ask it to delete."""

import asyncio
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from msgspec import structs

from coordinator.cluster_view import Gone
from coordinator.core.events import AgedOffset
from coordinator.core.settings import GroupSettings
from coordinator.service import ShardService
from coordinator.settings import CoordinatorSettings
from coordinator.store_outlived import Outlived
from groups.core.state import GroupRows
from muster.kernel.error_codes import ErrorCode
from muster.kernel.instants import Instant
from muster.kernel.shards import shard_of
from muster.messages.member import TopicCount
from muster.messages.partitions import Partition, Position
from runtime.ports import LaneLost
from tests.unit.coordinator.kafka_clients import AT_ONCE, KEY, KafkaClient, stable
from tests.unit.coordinator.shards import Shards, eventually, member, readers
from tests.unit.coordinator_core.group import orders

OFTEN = CoordinatorSettings(group=GroupSettings(), offsets_retention_check_interval_ms=100)


def left_behind(key: str = "readers") -> GroupRows:
    return GroupRows(key, generation=1, version=4, offsets={orders(0): 5, orders(1): 6})


async def seen_to_go(shards: Shards, partition: Partition) -> None:
    """The node has looked at the topics: this one is gone, or another; what follows from it is decided."""
    service = shards.services[shard_of("readers")]
    gone = Gone(frozenset(), frozenset({(partition.topic_id, partition.number)}))
    service._topics_changed(frozenset({"orders"}), gone)
    await asyncio.gather(*service._tasks)
    await shards.settled("readers")


async def looked(shards: Shards, key: str) -> None:
    """An interval has passed; what was found is decided."""
    service = shards.services[next(iter(shards.services))]
    service.tick(Instant(service._housekeeping._looked_at + 1_000))
    await asyncio.gather(*service._tasks)
    await shards.settled(key)


async def test_what_is_older_than_offsets_are_kept_goes_and_the_group_with_its_last_one() -> None:
    async with Shards([left_behind()], OFTEN) as shards:
        await shards.serve("readers")
        shards.store.found = old(orders(0), 5)
        await looked(shards, "readers")
        assert shards.rows("readers").offsets == {orders(1): 6}
        shards.store.found = old(orders(1), 6)
        await looked(shards, "readers")
        assert "readers" not in shards.database.tables["groups"]


async def test_a_commit_that_comes_while_it_is_looked_keeps_its_offset() -> None:
    reads_clicks = structs.replace(member("ann"), topic_count=(TopicCount("clicks"),))
    rows = replace(readers(ann=[0]), members={"ann": reads_clicks}, offsets={orders(0): 5})
    async with Shards([rows], OFTEN) as shards:
        ann = await shards.registered("readers", "ann", "clicks")
        service = await shards.serve("readers")
        service.tick(Instant(service._housekeeping._looked_at + 1_000))
        shards.store.found = old(orders(0), 5)
        # The same offset again: no version tells the two commits apart.
        shards.commit(ann, "readers", {orders(0): Position(5, 1)})
        await asyncio.gather(*service._tasks)
        await eventually(lambda: ann.judged)
        await shards.settled("readers")
        assert shards.rows("readers").offsets == {orders(0): 5}


async def test_offsets_of_a_topic_that_is_no_more_go_whoever_reads_it() -> None:
    async with Shards([replace(readers(ann=[0]), offsets={orders(0): 5})], OFTEN) as shards:
        await shards.serve("readers")
        shards.store.found = Outlived({}, {}, {"readers": frozenset({orders(0).topic_id})})
        await looked(shards, "readers")
        assert shards.rows("readers").offsets == {}
        assert "ann" in shards.rows("readers").members


async def test_a_topic_that_is_seen_to_go_takes_its_offsets_along_at_once() -> None:
    async with Shards([left_behind()]) as shards:
        service = await shards.serve("readers")
        service._topics_changed(frozenset({"orders"}), Gone(frozenset({UUID(int=77)}), frozenset()))
        service._topics_changed(frozenset({"orders"}), Gone(frozenset({orders(0).topic_id}), frozenset()))
        await shards.settled("readers")
        assert shards.rows("readers").offsets == {}
        assert shards.rows("readers").version == 5


async def test_a_partition_that_is_seen_to_go_takes_its_offset_along_and_no_other() -> None:
    rows = replace(left_behind(), offsets={orders(0): 5, orders(1): 6})
    async with Shards([rows]) as shards:
        service = await shards.serve("readers")
        shards.store.found = Outlived({}, {}, {}, {"readers": [(orders(1), 6)]})
        service._topics_changed(frozenset({"orders"}), Gone(frozenset(), frozenset({(UUID(int=77), 0)})))
        assert not service._tasks
        await seen_to_go(shards, orders(1))
        assert shards.rows("readers").offsets == {orders(0): 5}


async def test_what_was_committed_for_a_partition_that_came_under_the_same_number_stays() -> None:
    rows = replace(readers(ann=[0]), offsets={orders(0): 1_000})
    async with Shards([rows]) as shards:
        ann = await shards.registered("readers", "ann", "orders")
        await shards.serve("readers")
        shards.commit(ann, "readers", {orders(0): Position(3, 1)})
        await eventually(lambda: ann.judged)
        # The node learns only now that the partition is another; the rows say that the offset is of it.
        await seen_to_go(shards, orders(0))
        assert shards.rows("readers").offsets == {orders(0): 3}


async def test_partitions_that_go_and_a_tick_in_one_round_of_the_loop_are_one_look() -> None:
    """The first of two to end would end the watch over commits of the other."""
    async with Shards([left_behind()]) as shards:
        service = await shards.serve("readers")
        looks: list[int] = []

        def found(connection: object, shard: int, retention_minutes: int) -> Outlived:
            looks.append(shard)
            return Outlived({}, {}, {})

        shards.store.outlived = found  # type: ignore[method-assign]
        gone = Gone(frozenset(), frozenset({(orders(0).topic_id, 0)}))
        service._topics_changed(frozenset({"orders"}), gone)
        service.tick(service._housekeeping._looked_at)
        await asyncio.gather(*service._tasks)
        assert looks == [service.shard]


async def test_what_is_committed_after_an_offset_was_found_stays_even_if_it_is_the_same_number() -> None:
    rows = replace(readers(ann=[0, 1]), offsets={orders(0): 5, orders(1): 6})
    async with Shards([rows], OFTEN) as shards:
        ann = await shards.registered("readers", "ann", "orders")
        await shards.serve("readers")
        loop = asyncio.get_running_loop()

        def found(connection: object, shard: int, retention_minutes: int) -> Outlived:
            loop.call_soon_threadsafe(shards.commit, ann, "readers", {orders(0): Position(5, 1)})
            return Outlived({}, {}, {}, {"readers": [(orders(0), 5), (orders(1), 6)]})

        shards.store.outlived = found  # type: ignore[method-assign]
        await looked(shards, "readers")
        assert ann.judged
        assert shards.rows("readers").offsets == {orders(0): 5}


async def test_what_cannot_be_looked_for_is_looked_for_again() -> None:
    rows = replace(left_behind(), offsets={orders(0): 5})
    async with Shards([rows]) as shards:
        service = await shards.serve("readers")

        def away(connection: object, shard: int, retention_minutes: int) -> Outlived:
            raise LaneLost("the database is away")

        shards.store.outlived, find = away, shards.store.outlived  # type: ignore[method-assign]
        await seen_to_go(shards, orders(0))
        shards.store.outlived = find  # type: ignore[method-assign]
        shards.store.found = Outlived({}, {}, {}, {"readers": [(orders(0), 5)]})
        service.tick(service._housekeeping._looked_at)
        await asyncio.gather(*service._tasks)
        assert shards.rows("readers").offsets == {}
        service.tick(service._housekeeping._looked_at)
        assert not service._tasks


async def test_what_is_seen_to_go_during_a_look_that_fails_is_looked_for_again() -> None:
    rows = replace(left_behind(), offsets={orders(0): 5})
    async with Shards([rows], OFTEN) as shards:
        service, loop = await shards.serve("readers"), asyncio.get_running_loop()
        gone = Gone(frozenset(), frozenset({(orders(0).topic_id, 0)}))

        def away(connection: object, shard: int, retention_minutes: int) -> Outlived:
            loop.call_soon_threadsafe(service._topics_changed, frozenset({"orders"}), gone)
            raise LaneLost("the database is away")

        shards.store.outlived, find = away, shards.store.outlived  # type: ignore[method-assign]
        await looked(shards, "readers")
        shards.store.outlived = find  # type: ignore[method-assign]
        shards.store.found = Outlived({}, {}, {}, {"readers": [(orders(0), 5)]})
        service.tick(service._housekeeping._looked_at)
        await asyncio.gather(*service._tasks)
        assert shards.rows("readers").offsets == {}


async def test_positions_that_nobody_committed_of_a_partition_that_is_gone_are_forgotten() -> None:
    rows = replace(readers(ann=[0, 1]), offsets={orders(0): 5, orders(1): 6})
    async with Shards([rows]) as shards:
        await shards.registered("readers", "ann", "orders")
        state = shards.services[shard_of("readers")]._groups.states
        memory = structs.replace(state["readers"].memory, dirty={orders(0): 9, orders(1): 9})
        state["readers"] = structs.replace(state["readers"], memory=memory)
        await seen_to_go(shards, orders(0))
        assert dict(state["readers"].memory.dirty) == {orders(1): 9}


async def test_offsets_of_removed_partitions_that_are_found_go_unless_they_were_committed_anew() -> None:
    rows = replace(readers(ann=[0, 1]), offsets={orders(0): 5, orders(1): 6})
    async with Shards([rows], OFTEN) as shards:
        await shards.serve("readers")
        shards.store.found = Outlived({}, {}, {}, {"readers": [(orders(0), 5), (orders(1), 4)]})
        await looked(shards, "readers")
        assert shards.rows("readers").offsets == {orders(1): 6}


async def test_a_lease_that_was_lost_looks_for_nothing() -> None:
    async with Shards([left_behind()], OFTEN) as shards:
        service = await shards.serve("readers")
        assert shards.database.connect("b" * 16, "session").take(shards.held[service.shard].name, 1, "b" * 16)
        shards.store.found = old(orders(0), 5)
        service.tick(Instant(service._housekeeping._looked_at + 1_000))
        await asyncio.gather(*service._tasks)
        assert shards.rows("readers") == left_behind()


async def test_a_tool_deletes_a_group_without_members_and_no_other() -> None:
    async with Shards(settings=AT_ONCE) as shards:
        ann = KafkaClient(shards, "ann")
        await stable(ann)
        assert await ann.service.delete_group(KEY) is ErrorCode.NON_EMPTY_GROUP
        await ann.left(ann.asks_to_leave())
        assert await ann.service.delete_group(KEY) is ErrorCode.NONE
        assert await ann.service.delete_group(KEY) is ErrorCode.GROUP_ID_NOT_FOUND
        assert await ann.service.delete_group("") is ErrorCode.INVALID_GROUP_ID
        assert not shards.premises.callers.get(ann.service._inner_seat.id)


async def test_a_tool_deletes_offsets_that_nobody_needs() -> None:
    async with Shards([replace(readers(ann=[0]), offsets={orders(0): 5, click(): 6})]) as shards:
        service = await shards.serve("readers")
        refused = await service.delete_offsets("readers", [orders(0), click()])
        assert refused == {orders(0): ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC}
        assert shards.rows("readers").offsets == {orders(0): 5}
        assert await service.delete_offsets("nobody", [click()]) is ErrorCode.GROUP_ID_NOT_FOUND


async def test_a_tool_that_waits_hears_that_the_shard_went_away() -> None:
    async with Shards([left_behind()]) as shards:
        service = await shards.serve("readers")
        shards.freshness.freeze()
        asked = asyncio.create_task(service.delete_group("readers"))
        await asyncio.sleep(0)
        await service.give_up(None)
        assert await asked is ErrorCode.NOT_COORDINATOR
        assert await service.delete_offsets("readers", [orders(0)]) is ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize(
    "asks", [ShardService.delete_group, lambda one, key: one.delete_offsets(key, [orders(0)])]
)
async def test_what_a_tool_gave_up_while_time_stood_still_is_not_deleted_when_it_goes_on(asks: Any) -> None:
    """An hour later somebody may rely on the group again, and would read its topics from their beginning."""
    async with Shards([left_behind()]) as shards:
        service = await shards.serve("readers")
        shards.freshness.freeze()
        asked = asyncio.create_task(asks(service, "readers"))
        await asyncio.sleep(0)
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)
        shards.freshness.thaw()
        await shards.settled("readers")
        assert shards.rows("readers") == left_behind()


async def test_a_tool_hears_of_our_own_mistake() -> None:
    async with Shards([left_behind()]) as shards:
        service = await shards.serve("readers")
        shards.store.fails_for = "GroupDeleted"
        assert await service.delete_group("readers") is ErrorCode.UNKNOWN_SERVER_ERROR


def old(partition: Partition, offset: int) -> Outlived:
    """The group has been without members for a year, and this offset is as old."""
    year_ms = 365 * 86_400_000
    return Outlived({"readers": [AgedOffset(partition, offset, year_ms)]}, {"readers": year_ms}, {})


def click() -> Partition:
    return Partition("clicks", UUID(int=2), 0)
