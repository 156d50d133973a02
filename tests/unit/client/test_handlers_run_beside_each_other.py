"""`run` calls one handler at a time for each thread, and each partition keeps its order."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from muster import Consumer, Record
from muster.client.tenure import Stream
from muster.messages.member import LeaveRequest
from tests.unit.client.ann import ann_who_has_read
from tests.unit.client.stage import Stage, cancelled, places, staged, until
from tests.unit.client.test_a_poisoned_batch_is_named_and_can_be_passed import at
from tests.unit.client_core.test_a_member_obeys_its_coordinator import start
from tests.unit.kafkawire.made_batches import made_batch


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with staged(tmp_path, {"orders": 4, "clicks": 1}) as running:
        await running.fill(20, partitions=4)
        yield running


class Desk:
    """Handlers that hold their record until the test lets them go on."""

    def __init__(self) -> None:
        self.begun: list[Record] = []
        self.ended: list[Record] = []
        self.held: set[int] = set()
        self.news = asyncio.Condition()

    async def handle(self, record: Record) -> None:
        self.begun.append(record)
        async with self.news:
            await self.news.wait_for(lambda: record.partition not in self.held)
        self.ended.append(record)

    async def let_go(self, *partitions: int) -> None:
        async with self.news:
            self.held -= set(partitions)
            self.news.notify_all()

    def offsets(self, partition: int) -> list[int]:
        return [record.offset for record in self.ended if record.partition == partition]


async def test_threads_go_on_beside_one_that_is_slow_and_each_partition_keeps_its_order(stage: Stage) -> None:
    stage.coordinator.shares = [places(0, 2), places(1, 3)]
    desk = Desk()
    desk.held = {0}
    async with stage.consumer({"orders": 2}) as consumer:
        running = asyncio.create_task(consumer.run(desk.handle))
        await until(lambda: len(desk.offsets(1)) == len(desk.offsets(3)) == 20)
        assert len([one for one in desk.begun if one.partition == 0]) == 1
        assert consumer.threads.keys() == {f"{consumer.consumer_id}-0", f"{consumer.consumer_id}-1"}
        await desk.let_go(0)
        await until(lambda: len(desk.ended) == 80)
        await consumer.close()
        await running
    for partition in range(4):
        assert desk.offsets(partition) == list(range(20))


async def test_each_topic_has_threads_of_its_own(stage: Stage) -> None:
    await stage.fill(1, topic="clicks")
    stage.coordinator.shares = [places(0) | places(0, topic="clicks")]
    topics: list[str] = []
    both = asyncio.Event()

    async def handle(record: Record) -> None:
        topics.append(record.topic)
        if set(topics) == {"orders", "clicks"}:
            both.set()
        await both.wait()

    async with stage.consumer(["orders", "clicks"]) as consumer:
        running = asyncio.create_task(consumer.run(handle))
        await asyncio.wait_for(both.wait(), 20)
        await consumer.close()
        await running


async def test_a_partition_that_is_dealt_to_another_thread_waits_for_the_record_in_hand(stage: Stage) -> None:
    stage.coordinator.shares = [places(0), places(1)]
    desk = Desk()
    desk.held = {0}
    async with stage.consumer({"orders": 2}) as consumer:
        running = asyncio.create_task(consumer.run(desk.handle))
        await until(lambda: len(desk.offsets(1)) == 20 and desk.begun)
        await stage.coordinator.start(places(1), places(0))
        await until(lambda: ("orders", 0) in consumer.threads.get(f"{consumer.consumer_id}-1", ()))
        # The other thread is idle, and has looked by then.
        await stage.coordinator.ping()
        await stage.coordinator.ping()
        assert [one.offset for one in desk.begun if one.partition == 0] == [0]
        await desk.let_go(0)
        await until(lambda: len(desk.offsets(0)) == 20)
        await consumer.close()
        await running
    assert desk.offsets(0) == list(range(20))


async def test_a_commit_in_a_handler_says_nothing_of_what_others_have_in_hand(stage: Stage) -> None:
    stage.coordinator.shares = [places(0), places(1)]
    desk = Desk()
    desk.held = {0}
    async with stage.consumer({"orders": 2}) as consumer:

        async def handle(record: Record) -> None:
            if record.partition == 1 and record.offset == 5:
                await until(lambda: [one for one in desk.begun if one.partition == 0])
                await consumer.commit()
            await desk.handle(record)

        running = asyncio.create_task(consumer.run(handle))
        await until(lambda: ("orders", 1) in stage.coordinator.committed)
        assert stage.coordinator.committed["orders", 1] == 6
        assert stage.coordinator.committed.get(("orders", 0), 0) == 0
        await desk.let_go(0)
        await until(lambda: len(desk.ended) == 40)
        await consumer.commit()
        assert stage.coordinator.committed == {("orders", 0): 20, ("orders", 1): 20}
        await consumer.close()
        await running


async def test_what_a_handler_raises_ends_the_run_and_its_record_comes_again(stage: Stage) -> None:
    stage.coordinator.shares = [places(0), places(1)]
    desk = Desk()
    desk.held = {1}
    async with stage.consumer({"orders": 2}) as consumer:

        async def handle(record: Record) -> None:
            if record.partition == 0 and record.offset == 3 and not fixed:
                await until(lambda: [one for one in desk.begun if one.partition == 1])
                raise ZeroDivisionError
            await desk.handle(record)

        fixed = False
        with pytest.raises(ZeroDivisionError):
            await consumer.run(handle)
        await consumer.commit()
        assert stage.coordinator.committed["orders", 0] == 3
        fixed = True
        await desk.let_go(1)
        running = asyncio.create_task(consumer.run(handle))
        await until(lambda: len(desk.ended) == 40)
        await consumer.close()
        await running
    assert desk.offsets(0) == desk.offsets(1) == list(range(20))


async def test_a_handler_that_waits_for_what_was_cancelled_has_failed_too(stage: Stage) -> None:
    stage.coordinator.shares = [places(0)]

    async def handle(record: Record) -> None:
        if record.offset == 3:
            await cancelled()

    async with stage.consumer() as consumer:
        with pytest.raises(RuntimeError, match="a handler ended as cancelled"):
            await asyncio.wait_for(consumer.run(handle), 10)
        await consumer.commit()
        assert stage.coordinator.committed["orders", 0] == 3


async def test_closing_waits_for_the_records_in_hand_and_the_run_returns(stage: Stage) -> None:
    stage.coordinator.shares = [places(0), places(1)]
    desk = Desk()
    desk.held = {0, 1}
    async with stage.consumer({"orders": 2}, auto_commit=True) as consumer:
        running = asyncio.create_task(consumer.run(desk.handle))
        await until(lambda: len(desk.begun) == 2)
        closing = asyncio.create_task(consumer.close())
        await until(lambda: not consumer.assignment)
        assert not any(isinstance(one, LeaveRequest) for one in stage.coordinator.heard)
        await desk.let_go(0, 1)
        await closing
        await running
    assert stage.coordinator.committed == {("orders", 0): 1, ("orders", 1): 1}


async def test_a_handler_may_close_its_consumer(stage: Stage) -> None:
    stage.coordinator.shares = [places(0)]
    seen: list[int] = []

    async with stage.consumer() as consumer:

        async def handle(record: Record) -> None:
            seen.append(record.offset)
            if record.offset == 4:
                await consumer.commit()
                await consumer.close()

        await consumer.run(handle)
    assert seen == list(range(5))
    assert stage.coordinator.committed == {("orders", 0): 5}


async def test_handlers_go_on_where_an_iteration_stopped(stage: Stage) -> None:
    stage.coordinator.shares = [places(0), places(1)]
    desk = Desk()
    async with stage.consumer({"orders": 2}) as consumer:
        iterated = [await anext(consumer)]
        iterated += await consumer.next_batch(3)
        running = asyncio.create_task(consumer.run(desk.handle))
        await until(lambda: len(iterated) + len(desk.ended) == 40)
        await consumer.commit()
        assert stage.coordinator.committed == {("orders", 0): 20, ("orders", 1): 20}
        await consumer.close()
        await running
    for partition in range(2):
        offsets = [one.offset for one in [*iterated, *desk.ended] if one.partition == partition]
        assert offsets == list(range(20))


async def test_a_plain_function_is_a_handler_too_and_nobody_iterates_beside_it(stage: Stage) -> None:
    stage.coordinator.shares = [places(0)]
    seen: list[int] = []
    async with stage.consumer() as consumer:
        running = asyncio.create_task(consumer.run(lambda record: seen.append(record.offset)))
        await until(lambda: len(seen) == 20)
        with pytest.raises(RuntimeError, match="one task iterates"):
            await anext(consumer)
        await consumer.close()
        await running


@pytest.mark.parametrize("threads", [0, 1_001, True, "2"])
async def test_a_number_of_threads_that_no_coordinator_takes_is_refused(threads: object) -> None:
    with pytest.raises(ValueError, match="1 to 1000 threads"):
        Consumer("readers", {"orders": threads}, nodes=["ws://one"], token="t")


async def test_who_still_holds_a_record_of_a_tenure_that_was_resumed_hands_out_no_more_of_it() -> None:
    ann = ann_who_has_read(0)
    [tenure] = ann.tenures()
    tenure.accept(bytes(at(40, made_batch([b"v"] * 3))))
    processing = ann.conversation.processing
    slow = processing.open_hand(Stream("orders", "ann-0"))
    tenure.stream = Stream("orders", "ann-0")
    processing.may_fetch = lambda now: True
    assert await asyncio.wait_for(slow.next_record(), 5) is not None
    late = ann.is_late()
    ann.registers(late, known=True)
    assert ann.starts(start(2, 40), late) is tenure
    tenure.accept(bytes(at(40, made_batch([b"v"] * 3))))
    tenure.open_some()
    assert slow.take() is None
