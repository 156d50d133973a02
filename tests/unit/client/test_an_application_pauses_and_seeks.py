"""Pausing and seeking move one consumer's own reading, and only commits make it durable for the next one."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from muster import Consumer, PartitionNotAssigned, PartitionsLost
from muster.messages.partitions import Position
from tests.unit.client.ann import ann_who_has_read
from tests.unit.client.stage import Stage, places, quiet, staged, take, until
from tests.unit.client_core.test_a_member_obeys_its_coordinator import orders, start


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with staged(tmp_path) as running:
        running.coordinator.shares = [places(0, 1)]
        await running.fill(5, partitions=2)
        yield running


async def test_a_paused_partition_is_not_handed_out_and_goes_on_where_it_was(stage: Stage) -> None:
    async with stage.consumer() as consumer:
        [first] = await take(consumer, 1)
        other = 1 - first[0]
        consumer.pause(("orders", first[0]))
        assert consumer.paused == {("orders", first[0])}
        assert await take(consumer, 5) == [(other, offset) for offset in range(5)]
        assert await quiet(consumer)
        consumer.resume()
        assert await take(consumer, 4) == [(first[0], offset) for offset in range(1, 5)]


async def test_pausing_all_of_them_or_none_if_one_is_not_assigned(stage: Stage) -> None:
    async with stage.consumer() as consumer:
        await take(consumer, 1)
        with pytest.raises(PartitionNotAssigned, match="orders-3"):
            consumer.pause(("orders", 0), ("orders", 3))
        assert not consumer.paused
        consumer.pause()
        assert consumer.paused == consumer.assignment == places(0, 1)
        assert await quiet(consumer)


async def test_a_pause_ends_with_the_partition(stage: Stage) -> None:
    async with stage.consumer() as consumer:
        await take(consumer, 1)
        consumer.pause(("orders", 1))
        await stage.coordinator.stop(("orders", 1))
        await stage.coordinator.stopped()
        with pytest.raises(PartitionNotAssigned):
            consumer.resume(("orders", 1))
        await stage.coordinator.start(places(0, 1))
        await until(lambda: len(consumer.assignment) == 2)
        assert not consumer.paused
        assert (1, 0) in await take(consumer, 9)


async def test_a_paused_partition_gives_its_room_to_the_others(stage: Stage) -> None:
    async with stage.consumer() as consumer:
        await take(consumer, 1)
        fetching = consumer._conversation.fetching
        consumer.pause()
        [full, waits] = fetching.tenures()
        full.accept(b"")
        full.buffered_bytes = 1 << 30
        consumer.resume(waits.place)
        await until(lambda: not full.buffered_bytes)
        assert full.fetched_to == full.delivered_to


async def test_a_pause_outlives_a_break_that_nobody_else_used() -> None:
    ann = ann_who_has_read(1)
    [tenure] = ann.tenures()
    tenure.paused = True
    late = ann.is_late()
    ann.registers(late, known=True)
    assert ann.starts(start(2, 40), late).paused


async def test_a_pause_that_was_ended_during_a_break_is_over_behind_it() -> None:
    ann = ann_who_has_read(1)
    consumer = Consumer("readers", ["orders"], nodes=["ws://one"], token="mst_")
    consumer._conversation = ann.conversation
    consumer.pause()
    late = ann.is_late()
    consumer.resume()
    ann.registers(late, known=True)
    assert not ann.starts(start(2, 40), late).paused


async def test_a_pause_does_not_outlive_a_break_in_which_another_may_have_had_it() -> None:
    ann = ann_who_has_read(1)
    [tenure] = ann.tenures()
    tenure.paused = True
    late = ann.is_late()
    ann.registers(late)
    assert not ann.starts(start(9, 40, generation=9), late).paused


async def test_seeking_back_and_ahead_while_a_record_is_in_hand(stage: Stage) -> None:
    stage.coordinator.shares = [places(0)]
    async with stage.consumer() as consumer:
        await take(consumer, 4)
        consumer.seek("orders", 0, 1)
        assert consumer.position("orders", 0) == 1
        assert await take(consumer, 2) == [(0, 1), (0, 2)]
        consumer.seek("orders", 0, 4)
        assert await take(consumer, 1) == [(0, 4)]
        consumer.seek_to_beginning(("orders", 0))
        assert await take(consumer, 1) == [(0, 0)]
        consumer.seek_to_end()
        await until(lambda: consumer.position("orders", 0) == 5)
        await stage.produce([b"new"])
        assert await take(consumer, 1) == [(0, 5)]


@pytest.mark.parametrize("offset", [-1, 2**63, 1.5])
async def test_what_no_offset_can_be_is_refused_and_ends_nothing(stage: Stage, offset: Any) -> None:
    async with stage.consumer() as consumer:
        record = await anext(consumer)
        for move in (consumer.seek, consumer.skip, consumer.standby.seek):
            with pytest.raises(ValueError, match="a whole number of at"):
                move(record.topic, record.partition, offset)
        with pytest.raises(ValueError, match="timestamp_ms"):
            await consumer.offsets_for_time(offset)
        await anext(consumer)


async def test_a_commit_after_a_seek_makes_it_durable_though_nothing_was_read(stage: Stage) -> None:
    stage.coordinator.shares = [places(0)]
    async with stage.consumer() as consumer:
        await take(consumer, 4)
        await consumer.commit()
        assert stage.coordinator.committed == {("orders", 0): 4}
        consumer.seek("orders", 0, 1)
        await consumer.commit()
        assert stage.coordinator.committed == {("orders", 0): 1}


async def test_a_commit_that_was_asked_for_before_a_seek_says_nothing_of_it() -> None:
    ann = ann_who_has_read(5)
    [tenure] = ann.tenures()
    committing, said = await ann.commits()
    ann.conversation.fetching.seek(tenure, 40)
    ann.answers(said)
    await committing
    assert tenure.sought and tenure.has_uncommitted
    committing, said = await ann.commits()
    assert dict(ann.positions_in(said)) == {orders(0): Position(40, 1)}
    ann.answers(said)
    await committing
    assert not tenure.has_uncommitted


async def test_a_seek_outlives_a_break_that_nobody_else_used() -> None:
    ann = ann_who_has_read(0)
    [tenure] = ann.tenures()
    ann.conversation.fetching.seek(tenure, 10)
    late = ann.is_late()
    ann.registers(late, known=True)
    assert ann.starts(start(2, 40), late) is tenure
    assert tenure.delivered_to == 10


async def test_a_seek_that_is_lost_is_told_by_the_next_commit() -> None:
    ann = ann_who_has_read(0)
    ann.conversation.fetching.seek(ann.tenures()[0], 10)
    late = ann.is_late()
    ann.registers(late)
    ann.hears(start(9, generation=9), late)
    with pytest.raises(PartitionsLost):
        await ann.conversation.commit()


async def test_an_offset_that_the_log_does_not_have_ends_no_session(stage: Stage) -> None:
    async with stage.consumer() as consumer:
        await take(consumer, 10)
        consumer.seek("orders", 0, 1_000_000)
        assert await take(consumer, 5) == [(0, offset) for offset in range(5)]
        assert consumer.metrics.reconnects == 0


async def test_a_seek_during_a_hand_over_is_refused_and_hurts_nobody(stage: Stage) -> None:
    async with stage.consumer() as consumer:
        [(partition, _)] = await take(consumer, 1)
        await stage.coordinator.stop(("orders", partition))
        await until(lambda: len(consumer.assignment) == 1)
        with pytest.raises(PartitionNotAssigned):
            consumer.seek("orders", partition, 3)
        await consumer.commit()
        assert stage.coordinator.committed["orders", partition] == 1
        assert [one for one, _ in await take(consumer, 5)] == [1 - partition] * 5
        await stage.coordinator.stopped()


async def test_where_a_log_begins_is_not_told_to_who_has_sought_another_place_meanwhile(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.coordinator.shares = [places(0)]
    async with stage.consumer() as consumer:
        await take(consumer, 1)
        fetching = consumer._conversation.fetching
        asked, go_on = asyncio.Event(), asyncio.Event()
        ask = fetching._ask

        async def slowly(connection: object, question: object, wait_ms: int) -> object:
            answer = await ask(connection, question, wait_ms)  # type: ignore[arg-type]
            if not wait_ms:
                asked.set()
                await go_on.wait()
            return answer

        monkeypatch.setattr(fetching, "_ask", slowly)
        consumer.seek_to_end(("orders", 0))
        await asyncio.wait_for(asked.wait(), 20)
        consumer.seek("orders", 0, 3)
        go_on.set()
        assert await take(consumer, 1) == [(0, 3)]


async def test_ends_of_logs_are_asked_of_any_partition(stage: Stage) -> None:
    async with stage.consumer() as consumer:
        await take(consumer, 1)
        assert await consumer.end_offsets() == {("orders", 0): 5, ("orders", 1): 5}
        assert await consumer.beginning_offsets(("orders", 3)) == {("orders", 3): 0}
        await stage.produce([b"later"] * 100)
        # Record n of a made batch has the time 1,000 + n; the batch begins at 5.
        assert await consumer.offsets_for_time(1_050, ("orders", 0)) == {("orders", 0): 55}
        assert await consumer.offsets_for_time(2_000, ("orders", 0)) == {("orders", 0): -1}
