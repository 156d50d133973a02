"""`from muster import Consumer` against a real node, worker and broker."""

import asyncio
from collections.abc import Callable

import pytest

from muster import Consumer, ConsumerRefused, Record
from muster.kernel.error_codes import ErrorCode
from tests.integration.coordinator.control_plane import ControlPlane, eventually_async
from tests.integration.sdk.brokers import LoneBroker
from tests.integration.sdk.conftest import PARTITIONS
from tests.integration.sdk.processes import commits_gone_back, watch_commits

NewConsumer = Callable[..., Consumer]

WITHIN_S = 60.0


def fill(broker: LoneBroker, count: int, first: int = 0) -> set[bytes]:
    """`count` records over all partitions; their values."""
    values = [b"%d" % number for number in range(first, first + count)]
    for partition in range(PARTITIONS):
        broker.produce(broker.topic, values[partition::PARTITIONS], partition=partition)
    return set(values)


async def take(consumer: Consumer, count: int) -> list[Record]:
    """The next `count` records; the last one is still in hand."""
    records: list[Record] = []
    async with asyncio.timeout(WITHIN_S):
        async for record in consumer:
            records.append(record)
            if len(records) == count:
                break
    return records


async def test_one_consumer_gets_every_record_in_order(topic: LoneBroker, new_consumer: NewConsumer) -> None:
    values = fill(topic, 1_000)
    async with new_consumer("ann") as consumer:
        records = await take(consumer, 1_000)
    assert {record.value for record in records} == values
    for partition in range(PARTITIONS):
        offsets = [record.offset for record in records if record.partition == partition]
        assert offsets == list(range(250))


async def test_what_was_finished_is_committed_at_the_end(
    plane: ControlPlane, group: str, topic: LoneBroker, new_consumer: NewConsumer
) -> None:
    fill(topic, 400)
    async with new_consumer("ann") as consumer:
        await take(consumer, 400)
    assert plane.committed(group) == dict.fromkeys(range(PARTITIONS), 100)
    assert plane.query("SELECT count(*) FROM group_member WHERE group_name = %s", group) == [(0,)]


async def test_a_commit_is_durable_when_it_returns_and_includes_the_record_in_hand(
    plane: ControlPlane, group: str, topic: LoneBroker, new_consumer: NewConsumer
) -> None:
    fill(topic, 400)
    async with new_consumer("ann", auto_commit=False) as consumer:
        await take(consumer, 400)
        await consumer.commit()
        assert plane.committed(group) == dict.fromkeys(range(PARTITIONS), 100)


async def test_without_auto_commit_nothing_is_committed_that_was_not_asked_for(
    plane: ControlPlane, group: str, topic: LoneBroker, new_consumer: NewConsumer
) -> None:
    fill(topic, 40)
    async with new_consumer("ann", auto_commit=False) as consumer:
        await take(consumer, 40)
    assert plane.committed(group) == {}


async def test_the_next_consumer_goes_on_where_the_last_one_committed(
    topic: LoneBroker, new_consumer: NewConsumer
) -> None:
    fill(topic, 200)
    async with new_consumer("ann") as consumer:
        await take(consumer, 200)
    later = fill(topic, 100, first=200)
    async with new_consumer("ben") as consumer:
        records = await take(consumer, 100)
    assert {record.value for record in records} == later


async def test_a_hand_over_loses_and_doubles_nothing(
    plane: ControlPlane, group: str, topic: LoneBroker, new_consumer: NewConsumer
) -> None:
    seen: list[Record] = []
    values = fill(topic, 2_000)

    async def consume(consumer: Consumer) -> None:
        async for record in consumer:
            seen.append(record)
            await asyncio.sleep(0)

    async with new_consumer("ann") as ann:
        tasks = [asyncio.create_task(consume(ann))]
        await eventually_async(lambda: len(seen) > 200, "ann reads")
        async with new_consumer("ben") as ben:
            tasks.append(asyncio.create_task(consume(ben)))
            await eventually_async(lambda: len(ben.assignment) == PARTITIONS // 2, "ben gets its share")
            values |= fill(topic, 1_000, first=2_000)
            await eventually_async(lambda: len(seen) >= 3_000, "everything is read", WITHIN_S)
        await eventually_async(lambda: len(ann.assignment) == PARTITIONS, "ann gets everything back")
    await asyncio.gather(*tasks)
    assert {record.value for record in seen} == values
    assert len(seen) == len(values)


async def test_closing_from_another_task_ends_the_iteration_after_the_record_in_hand(
    plane: ControlPlane, group: str, topic: LoneBroker, new_consumer: NewConsumer
) -> None:
    fill(topic, 4)
    consumed: list[Record] = []
    in_hand, go_on = asyncio.Event(), asyncio.Event()

    async def consume(consumer: Consumer) -> None:
        async for record in consumer:
            in_hand.set()
            await go_on.wait()
            consumed.append(record)

    async with new_consumer("ann") as consumer:
        reading = asyncio.create_task(consume(consumer))
        await in_hand.wait()
        closing = asyncio.create_task(consumer.close())
        await asyncio.sleep(0.05)
        assert not closing.done()
        go_on.set()
        await closing
        await reading
    assert len(consumed) == 1
    assert plane.committed(group)[consumed[0].partition] == 1


async def test_a_consumer_that_is_refused_for_good_raises(new_consumer: NewConsumer) -> None:
    async with new_consumer("ann", session_timeout_ms=10) as consumer:
        with pytest.raises(ConsumerRefused) as refusal:
            await take(consumer, 1)
    assert refusal.value.error_code is ErrorCode.INVALID_SESSION_TIMEOUT


async def test_an_offset_that_no_log_has_is_reset_and_reading_goes_on(
    plane: ControlPlane, group: str, topic: LoneBroker, new_consumer: NewConsumer
) -> None:
    fill(topic, 40)
    async with new_consumer("ann") as consumer:
        await take(consumer, 40)
    plane.execute(
        "UPDATE committed_offset SET committed_offset = 1000 WHERE group_name = %s AND partition = 0", group
    )
    # The owner answers from its cache: a restart of the group's owner makes it read the row.
    plane.nodes["node-1"].kill()
    # In this thread: a child dies with the thread that started it.
    plane.start_node()
    await asyncio.to_thread(plane.wait_until_serving)
    async with new_consumer("ben") as consumer:
        records = await take(consumer, 10)
    assert [(record.partition, record.offset) for record in records] == [(0, offset) for offset in range(10)]


async def test_reading_goes_on_when_the_broker_was_killed_and_returns(
    plane: ControlPlane, topic: LoneBroker, new_consumer: NewConsumer
) -> None:
    fill(topic, 40)
    async with new_consumer("ann") as consumer:
        await take(consumer, 40)
        topic.kill()
        await asyncio.to_thread(topic.start)
        # It has another port now; the coordinator tells it when no broker answers any more.
        plane.add_broker(1, topic.address)
        later = await asyncio.to_thread(fill, topic, 40, 40)
        assert {record.value for record in await take(consumer, 40)} == later


async def test_a_ping_takes_nothing_back_that_was_committed_while_it_was_in_hand(
    plane: ControlPlane, group: str, topic: LoneBroker, new_consumer: NewConsumer
) -> None:
    watch_commits(plane)
    fill(topic, 4)
    async with new_consumer("ann", session_timeout_ms=2_000) as consumer:
        [record] = await take(consumer, 1)
        await consumer.commit()
        session = consumer._conversation.session
        answered = session._answered[0]
        async with asyncio.timeout(WITHIN_S):
            # Longer than the interval in which what came with pings is committed.
            while session._answered[0] < answered + 3:
                await asyncio.sleep(0.05)
        assert plane.committed(group)[record.partition] == 1
    assert commits_gone_back(plane, group) == []
