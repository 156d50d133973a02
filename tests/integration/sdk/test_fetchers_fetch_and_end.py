"""The SDK's fetchers against a real broker: what they hand out, and that nothing comes after their end."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from muster.client.broker_questions import EARLIEST, LATEST, Leader
from muster.client.errors import NoOffset
from muster.client.fetching import Fetching, FetchOptions
from muster.client.record import Record
from muster.client.tenure import UNKNOWN, Tenure
from tests.integration.sdk.brokers import LoneBroker, topic_id

WITHIN_S = 90.0


class Fetchers:
    """A `Fetching` that runs, and what it said about offsets out of range."""

    def __init__(self, broker: LoneBroker, reset_to: int | None, **options: Any) -> None:
        self.out_of_range: list[Tenure] = []
        self.fetching = Fetching(
            FetchOptions("tests", reset_to=reset_to, **options), self.out_of_range.append, lambda: None
        )
        self.fetching.learn_brokers({1: broker.address})
        self.running = asyncio.create_task(self.fetching.run())

    def start(self, partition: int = 0, offset: int = 0, topic: str = "orders") -> Tenure:
        tenure = Tenure(topic, topic_id(topic), partition, 1, offset)
        self.fetching.start(tenure)
        return tenure

    async def take(self, count: int) -> list[Record]:
        """The next `count` records, of whatever partitions."""
        records: list[Record] = []
        async with asyncio.timeout(WITHIN_S):
            while len(records) < count:
                tenure = await self.fetching.fill(lambda tenure: True)
                if tenure is None:
                    continue
                assert not tenure.ended
                found = list(tenure.ready)
                tenure.ready.clear()
                tenure.delivered_to = found[-1].offset + 1
                records.extend(found)
        return records

    async def end(self) -> None:
        self.running.cancel()
        await asyncio.gather(self.running, return_exceptions=True)


@pytest.fixture
async def fetchers(broker: LoneBroker) -> AsyncIterator[Fetchers]:
    running = Fetchers(broker, EARLIEST)
    yield running
    await running.end()


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
async def test_records_come_in_order_however_they_are_compressed(
    broker: LoneBroker, fetchers: Fetchers, compression: str
) -> None:
    values = [b"value %d" % number for number in range(500)]
    broker.produce("orders", values, compression=compression)
    fetchers.start()
    records = await fetchers.take(500)
    assert [record.value for record in records] == values
    assert [record.offset for record in records] == list(range(500))


async def test_a_fetcher_starts_in_the_middle_of_a_batch(broker: LoneBroker, fetchers: Fetchers) -> None:
    broker.produce("orders", [b"%d" % number for number in range(100)])
    fetchers.start(offset=37)
    assert [record.offset for record in await fetchers.take(63)] == list(range(37, 100))


async def test_partitions_take_turns(broker: LoneBroker, fetchers: Fetchers) -> None:
    for partition in range(3):
        broker.produce("orders", [b"%d" % partition] * 10, partition=partition)
        fetchers.start(partition)
    assert (
        sorted(record.value for record in await fetchers.take(30) if record.value)
        == [b"0"] * 10 + [b"1"] * 10 + [b"2"] * 10
    )


async def test_records_that_are_produced_later_come_without_asking_again(
    broker: LoneBroker, fetchers: Fetchers
) -> None:
    fetchers.start()
    broker.produce("orders", [b"first"])
    assert len(await fetchers.take(1)) == 1
    await asyncio.to_thread(broker.produce, "orders", [b"second"])
    assert (await fetchers.take(1))[0].value == b"second"


async def test_nothing_comes_after_the_end_though_it_was_buffered(
    broker: LoneBroker, fetchers: Fetchers
) -> None:
    broker.produce("orders", [b"%d" % number for number in range(100)])
    broker.produce("clicks", [b"click"])
    ended = fetchers.start()
    async with asyncio.timeout(WITHIN_S):
        while not ended.has_batches:
            await asyncio.sleep(0.01)
    fetchers.fetching.stop(ended.key)
    fetchers.start(topic="clicks")
    assert [record.value for record in await fetchers.take(1)] == [b"click"]
    assert ended.ended and not ended.has_batches


async def test_a_partition_that_found_the_buffer_full_is_fetched_when_the_others_have_ended(
    broker: LoneBroker,
) -> None:
    broker.produce("orders", [b"%1000d" % number for number in range(10)], partition=0)
    broker.produce("orders", [b"waits"], partition=1)
    fetchers = Fetchers(broker, EARLIEST, buffer_max_bytes=1_000)
    hoarder = fetchers.start(0)
    async with asyncio.timeout(WITHIN_S):
        while not hoarder.has_batches:
            await asyncio.sleep(0.01)
        waiting = fetchers.start(1)
        while waiting.leader is None:
            await asyncio.sleep(0.01)
    # Its pump has looked and found no room, and nothing of its own will ever be consumed.
    await asyncio.sleep(0)
    fetchers.fetching.stop(hoarder.key)
    assert [record.value for record in await fetchers.take(1)] == [b"waits"]
    await fetchers.end()


async def test_a_partition_of_another_broker_is_fetched_when_there_is_room_again(
    broker: LoneBroker, tmp_path: Path
) -> None:
    (tmp_path / "second").mkdir()
    second = LoneBroker(tmp_path / "second", clicks=1)
    second.start()
    broker.produce("orders", [b"%1000d" % number for number in range(10)])
    second.produce("clicks", [b"click"])
    fetchers = Fetchers(broker, EARLIEST, buffer_max_bytes=1_000)
    hoarder = fetchers.start()
    async with asyncio.timeout(WITHIN_S):
        while not hoarder.has_batches:
            await asyncio.sleep(0.01)
    fetchers.fetching.learn_brokers({1: broker.address, 2: second.address})
    waiting = Tenure("clicks", topic_id("clicks"), 0, 1, 0)
    waiting.leader = Leader(2, hoarder.wanted().leader_epoch)
    fetchers.fetching.start(waiting)
    fetchers.fetching._wake_pump(waiting)
    await asyncio.sleep(0.01)
    records = await fetchers.take(11)
    assert b"click" in [record.value for record in records]
    await fetchers.end()
    second.stop()


async def test_an_answer_on_its_way_to_an_ended_fetcher_is_ignored(
    broker: LoneBroker, fetchers: Fetchers
) -> None:
    first = fetchers.start()
    broker.produce("orders", [b"a"])
    assert len(await fetchers.take(1)) == 1
    fetchers.fetching.stop(first.key)
    second = fetchers.start(offset=1)
    await asyncio.to_thread(broker.produce, "orders", [b"b"])
    assert [record.offset for record in await fetchers.take(1)] == [1]
    assert first.fetched_to == 1 and second.fetched_to == 2


async def test_without_an_offset_a_fetcher_begins_where_auto_offset_reset_says(broker: LoneBroker) -> None:
    broker.produce("orders", [b"old"] * 5)
    for reset_to, begins_at in ((EARLIEST, 0), (LATEST, 5)):
        fetchers = Fetchers(broker, reset_to)
        tenure = fetchers.start(offset=UNKNOWN)
        async with asyncio.timeout(WITHIN_S):
            while tenure.finished_to == UNKNOWN:
                await asyncio.sleep(0.01)
        assert tenure.finished_to == begins_at
        await fetchers.end()


async def test_without_an_offset_and_without_a_reset_the_application_is_told(broker: LoneBroker) -> None:
    fetchers = Fetchers(broker, None)
    fetchers.start(offset=UNKNOWN)
    with pytest.raises(BaseExceptionGroup) as problem:
        await asyncio.wait_for(fetchers.running, WITHIN_S)
    assert problem.group_contains(NoOffset)


async def test_an_offset_out_of_range_is_reported_and_not_skipped(
    broker: LoneBroker, fetchers: Fetchers
) -> None:
    broker.produce("orders", [b"only"])
    tenure = fetchers.start(offset=1_000)
    async with asyncio.timeout(WITHIN_S):
        while not fetchers.out_of_range:
            await asyncio.sleep(0.01)
    assert fetchers.out_of_range[0] is tenure


async def test_fetching_goes_on_when_a_killed_broker_returns(broker: LoneBroker, fetchers: Fetchers) -> None:
    broker.produce("orders", [b"before"])
    fetchers.start()
    assert len(await fetchers.take(1)) == 1
    broker.kill()
    await asyncio.to_thread(broker.start)
    fetchers.fetching.learn_brokers({1: broker.address})
    await asyncio.to_thread(broker.produce, "orders", [b"after"])
    assert [record.value for record in await fetchers.take(1)] == [b"after"]


async def test_an_answer_that_was_asked_for_behind_a_corrupt_batch_leaves_no_gap(broker: LoneBroker) -> None:
    broker.produce("orders", [b"%d" % number for number in range(10)])
    fetchers = Fetchers(broker, EARLIEST, wait_ms=5_000)
    tenure = fetchers.start()
    async with asyncio.timeout(WITHIN_S):
        # The next request is on its way, for what comes behind the batch.
        while tenure.fetched_to < 10 or not all(one._turn.locked() for one in fetchers.fetching._connections):
            await asyncio.sleep(0.01)
    corrupt = bytearray(tenure._batches[0])
    corrupt[-1] ^= 0xFF
    tenure._batches[0] = memoryview(corrupt)
    taking = asyncio.create_task(fetchers.take(20))
    await asyncio.to_thread(broker.produce, "orders", [b"%d" % number for number in range(10, 20)])
    assert [record.offset for record in await taking] == list(range(20))
    await fetchers.end()
