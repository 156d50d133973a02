"""A pool of workers that is no consumer group shares its tasks (001): the coordinator carries bytes only."""

from muster.kafkawire.api_table import ApiKey
from tests.unit.coordinator.shards import eventually
from tests.unit.gateway.doors import KEY, Door, kafka_door
from tests.unit.gateway.pools import (
    REBALANCE_IN_PROGRESS,
    PoolMember,
    Worker,
    hand_out,
    join_together,
    share_out,
)

TASKS = [f"sink-{number}" for number in range(6)]
INCONSISTENT_GROUP_PROTOCOL = 23


async def workers(door: Door, count: int) -> list[Worker]:
    return [Worker(await door.peer()) for _ in range(count)]


def all_tasks(*pool: Worker) -> list[str]:
    return sorted(task for worker in pool for task in worker.tasks)


def moved(before: dict[str, list[str]], *pool: Worker) -> int:
    return sum(len(set(worker.tasks) - set(before.get(worker.member_id, []))) for worker in pool)


def standing(*pool: Worker) -> dict[str, list[str]]:
    return {worker.member_id: worker.tasks for worker in pool}


async def test_workers_come_and_go_and_tasks_stay_where_they_can() -> None:
    async with kafka_door() as door:
        ann, ben, cleo = await workers(door, 3)
        await share_out(TASKS, ann)
        before = standing(ann)
        await ben.asks_to_join()
        await eventually(lambda: door.shards.rows(KEY).phase.value == "PreparingRebalance")
        assert await ann.beats() == REBALANCE_IN_PROGRESS
        # Ben's Join is held back; one that he repeats takes its place.
        ben.sends_join()
        assert await ben.hears_of_join() == REBALANCE_IN_PROGRESS
        ann.sends_join()
        assert await ann.hears_of_join() == await ben.hears_of_join() == 0
        assert ann.leads and not ben.told
        await hand_out(TASKS, ann, ben)
        assert all_tasks(ann, ben) == TASKS and moved(before, ann, ben) == 3

        before = standing(ann, ben)
        await share_out(TASKS, ann, ben, cleo)
        assert all_tasks(ann, ben, cleo) == TASKS and moved(before, ann, ben, cleo) == 2

        before = standing(ann, cleo)
        await ben.leaves()
        assert await ann.beats() == REBALANCE_IN_PROGRESS
        await share_out(TASKS, ann, cleo)
        assert all_tasks(ann, cleo) == TASKS and moved(before, ann, cleo) == 2


async def test_whoever_leads_next_goes_on_from_what_the_others_say() -> None:
    async with kafka_door() as door:
        ann, ben, cleo = await workers(door, 3)
        await share_out(TASKS, ann, ben, cleo)
        before = standing(ben, cleo)
        await ann.leaves()
        await share_out(TASKS, ben, cleo)
        assert all_tasks(ben, cleo) == TASKS and moved(before, ben, cleo) == 2


async def test_bytes_travel_as_they_are_and_the_pool_is_shown_by_its_type() -> None:
    async with kafka_door() as door:
        strange = bytes(range(256))
        ann = PoolMember(await door.peer(), "connect", strange)
        assert await join_together(ann) is ann
        assert ann.told == {ann.member_id: strange}
        ann.sends_sync({ann.member_id: strange[::-1]})
        assert await ann.hears_of_sync() == 0
        assert ann.given == strange[::-1]
        asked = {"groups": (KEY,), "include_authorized_operations": False}
        [group] = (await ann.peer.ask(ApiKey.DESCRIBE_GROUPS, 5, **asked)).groups
        assert (group.protocol_type, group.protocol_data) == ("connect", "sticky")
        assert [bytes(one.member_assignment) for one in group.members] == [strange[::-1]]


async def test_a_consumer_cannot_come_into_a_pool() -> None:
    async with kafka_door() as door:
        (ann,) = await workers(door, 1)
        await share_out(TASKS, ann)
        eve = PoolMember(await door.peer(), "consumer")
        eve.sends_join()
        assert await eve.hears_of_join() == INCONSISTENT_GROUP_PROTOCOL
        assert await ann.beats() == 0
