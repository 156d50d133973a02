"""A consumer that stands by reads along what another owns, commits nothing of it, hears when it changes."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from threading import Thread

import pytest

from muster import BlockingConsumer, Consumer, PartitionNotAssigned, RebalanceListener
from muster.client.listening import Places
from muster.messages.member import CommitOffsetsRequest, RegisterConsumerRequest, TopicPartitions
from tests.unit.client.stage import Stage, places, staged, take, until

ORDERS = "orders"


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with staged(tmp_path) as running:
        running.coordinator.shares = [places(0)]
        running.coordinator.standbys = places(1)
        await running.fill(5, partitions=3)
        yield running


async def read_along(consumer: Consumer, count: int) -> list[tuple[int, int]]:
    async with asyncio.timeout(20):
        found = [await anext(consumer.standby) for _ in range(count)]
    return [(record.partition, record.offset) for record in found]


def standing(named: tuple[TopicPartitions, ...]) -> dict[str, tuple[int, ...]]:
    return {one.topic: one.partitions for one in named}


async def test_it_reads_along_from_what_is_committed_and_commits_its_own_alone(stage: Stage) -> None:
    stage.coordinator.committed[ORDERS, 1] = 3
    async with stage.consumer(stands_by=True, rack="b") as consumer:
        assert await read_along(consumer, 2) == [(1, 3), (1, 4)]
        assert await take(consumer, 5) == [(0, number) for number in range(5)]
        asked = await stage.coordinator.hears(RegisterConsumerRequest)
        assert isinstance(asked, RegisterConsumerRequest) and (asked.rack, asked.stands_by) == ("b", True)
        assert {number for _, number in consumer.assignment} == {0}
        assert {number for _, number in consumer.standby.assignment} == {1}
        await consumer.commit()
        commit = await stage.coordinator.hears(CommitOffsetsRequest)
        assert isinstance(commit, CommitOffsetsRequest)
        assert [one.partition for topic in commit.offset_info for one in topic.partitions] == [0]
        answer = await stage.coordinator.ping()
        assert standing(answer.standby_info) == {ORDERS: (1,)}
        assert [one.partition for topic in answer.offset_info for one in topic.partitions] == [0]


async def test_what_it_stood_by_for_begins_where_the_group_is_when_it_becomes_its_own(stage: Stage) -> None:
    stage.coordinator.committed[ORDERS, 1] = 2
    async with stage.consumer(stands_by=True) as consumer:
        assert await read_along(consumer, 3) == [(1, 2), (1, 3), (1, 4)]
        stage.coordinator.standbys = places(2)
        await stage.coordinator.start(places(1))
        assert await take(consumer, 3) == [(1, 2), (1, 3), (1, 4)]
        assert await read_along(consumer, 1) == [(2, 0)]


async def test_it_goes_on_where_it_was_when_others_change(stage: Stage) -> None:
    async with stage.consumer(stands_by=True) as consumer:
        assert await read_along(consumer, 2) == [(1, 0), (1, 1)]
        stage.coordinator.standbys = places(1, 2)
        await stage.coordinator.start(places(0))
        found = await read_along(consumer, 8)
        assert [one for one in found if one[0] == 1] == [(1, 2), (1, 3), (1, 4)]


async def test_a_listener_hears_of_the_whole_and_may_seek(stage: Stage) -> None:
    heard: list[set[int]] = []

    class FromMyIndex(RebalanceListener):
        def on_standby(self, partitions: Places) -> None:
            heard.append({number for _, number in partitions})
            for topic, number in partitions:
                consumer.standby.seek(topic, number, 4)

    consumer = stage.consumer(stands_by=True, listener=FromMyIndex())
    async with consumer:
        assert await read_along(consumer, 1) == [(1, 4)]
        stage.coordinator.standbys = set()
        await stage.coordinator.start(places(0))
        await until(lambda: heard == [{1}, set()])
        with pytest.raises(PartitionNotAssigned, match="stand by for orders-1"):
            consumer.standby.seek(ORDERS, 1, 0)


async def test_the_iteration_ends_with_the_consumer(stage: Stage) -> None:
    async with stage.consumer(stands_by=True) as consumer:
        found = [(1, number) for number in range(5)]
        assert await read_along(consumer, 5) == found
        waiting = asyncio.create_task(anext(consumer.standby, None))
        await asyncio.sleep(0)
    assert await waiting is None
    assert consumer.standby.assignment == frozenset()


async def test_a_program_without_a_loop_reads_along_in_a_thread(stage: Stage) -> None:
    found: list[tuple[int, int]] = []
    consumer = BlockingConsumer(
        "readers",
        [ORDERS],
        nodes=[stage.coordinator.address],
        token="mst_",
        auto_offset_reset="earliest",
        stands_by=True,
    )

    def live() -> None:
        with consumer:
            reader = Thread(target=read)
            reader.start()
            for _ in range(5):
                next(consumer)
            while len(found) < 5:
                pass
            assert {number for _, number in consumer.standby.assignment} == {1}
        reader.join()

    def read() -> None:
        found.extend((record.partition, record.offset) for record in consumer.standby)

    async with asyncio.timeout(20):
        await asyncio.to_thread(live)
    assert found == [(1, number) for number in range(5)]
