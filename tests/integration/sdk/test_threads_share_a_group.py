"""The coordinator deals partitions to the threads of its consumers, asyncio and blocking, in one group."""

import asyncio
from collections.abc import Callable

from muster import BlockingConsumer, Consumer, Record
from tests.integration.coordinator.control_plane import ControlPlane, eventually_async
from tests.integration.sdk.brokers import LoneBroker
from tests.integration.sdk.conftest import PARTITIONS
from tests.integration.sdk.test_consumers_consume import fill

NewConsumer = Callable[..., Consumer]


async def test_two_threads_of_ann_and_two_of_ben_read_everything_once_and_in_order(
    plane: ControlPlane, group: str, topic: LoneBroker
) -> None:
    values = fill(topic, 1_000)
    seen: list[Record] = []
    token, nodes = plane.token(), list(plane.addresses.values())
    subscription = {topic.topic: 2}

    async def note(record: Record) -> None:
        seen.append(record)
        await asyncio.sleep(0)

    async with Consumer(group, subscription, nodes=nodes, token=token, auto_offset_reset="earliest") as ann:
        running = asyncio.create_task(ann.run(note))
        await eventually_async(lambda: len(seen) == 1_000, "ann reads")
        assert sorted(map(len, ann.threads.values())) == [2, 2]
        with BlockingConsumer(
            group, subscription, nodes=nodes, token=token, auto_offset_reset="earliest"
        ) as ben:
            beside = asyncio.create_task(asyncio.to_thread(ben.run, seen.append))
            await eventually_async(lambda: len(ben.assignment) == PARTITIONS // 2, "ben gets his share")
            values |= fill(topic, 1_000, first=1_000)
            await eventually_async(lambda: len(seen) >= 2_000, "everything is read")
            assert len(ben.threads) == len(ann.threads) == 2
            await asyncio.to_thread(ben.close)
            await beside
        await ann.close()
        await running
    assert {record.value for record in seen} == values and len(seen) == len(values)
    for partition in range(PARTITIONS):
        offsets = [record.offset for record in seen if record.partition == partition]
        assert offsets == list(range(500))
    assert plane.committed(group) == dict.fromkeys(range(PARTITIONS), 500)
