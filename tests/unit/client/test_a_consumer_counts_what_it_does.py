"""Metrics are plain attributes, batches are asked for at once, and commits say what is asked of them."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from muster import CommitUnanswered, PartitionNotAssigned, TopicPartition
from muster.kernel.error_codes import ErrorCode
from muster.messages.member import CommitOffsetsRequest
from tests.unit.client.stage import Stage, places, staged, take, until


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with staged(tmp_path) as running:
        running.coordinator.shares = [places(0)]
        await running.fill(10)
        yield running


async def test_records_lag_rebalances_commits_and_reconnects(stage: Stage) -> None:
    async with stage.consumer() as consumer:
        await take(consumer, 4)
        metrics = consumer.metrics
        assert (metrics.records, metrics.rebalances, metrics.reconnects) == (4, 1, 0)
        assert metrics.lag == {TopicPartition("orders", 0): 6}
        await consumer.commit()
        await stage.coordinator.start(places(0, 1))
        await until(lambda: metrics.rebalances == 2)
        await stage.coordinator.hang_up()
        await until(lambda: metrics.reconnects == 1)
        assert (metrics.commits, metrics.commits_failed) == (1, 0)


async def test_a_commit_asks_again_for_what_may_pass_and_counts_it(stage: Stage) -> None:
    stage.coordinator.commit_errors = [ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR]
    async with stage.consumer() as consumer:
        await take(consumer, 4)
        await consumer.commit()
        assert stage.coordinator.committed == {("orders", 0): 4}
        assert (consumer.metrics.commits, consumer.metrics.commit_retries) == (1, 2)


async def test_a_commit_that_nobody_answers_ends_at_its_deadline_and_may_be_asked_again(stage: Stage) -> None:
    async with stage.consumer() as consumer:
        await take(consumer, 4)
        stage.coordinator.answers_commits = False
        with pytest.raises(CommitUnanswered, match="no answer within 50 ms"):
            await consumer.commit(timeout_ms=50)
        stage.coordinator.answers_commits = True
        await consumer.commit()
        assert (consumer.metrics.commits, consumer.metrics.commits_failed) == (1, 1)


async def test_a_commit_that_is_cancelled_hurts_nobody(stage: Stage) -> None:
    async with stage.consumer() as consumer:
        await take(consumer, 4)
        stage.coordinator.answers_commits = False
        committing = asyncio.create_task(consumer.commit())
        asked = await stage.coordinator.hears(CommitOffsetsRequest)
        committing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await committing
        # The answer comes all the same.
        await stage.coordinator._commit(asked)  # type: ignore[arg-type]
        [tenure] = consumer._conversation.fetching.tenures()
        await until(lambda: tenure.committed_to == 4)
        assert await take(consumer, 1) == [(0, 4)]


async def test_offsets_that_were_handed_out_can_be_committed_by_name(stage: Stage) -> None:
    async with stage.consumer() as consumer:
        await take(consumer, 4)
        place = TopicPartition("orders", 0)
        await consumer.commit({("orders", 0): 2})
        assert stage.coordinator.committed == {("orders", 0): 2}
        with pytest.raises(ValueError, match="handed out up to 4"):
            await consumer.commit({place: 5})
        with pytest.raises(PartitionNotAssigned, match="nothing was committed"):
            await consumer.commit({place: 3, TopicPartition("orders", 2): 1})
        assert stage.coordinator.committed == {("orders", 0): 2}
        with pytest.raises(ValueError, match="an offset is a whole number, not '3'"):
            await consumer.commit({place: "3"})  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="names no partitions; write"):
            await consumer.commit([("orders", 0, 3)])  # type: ignore[arg-type]
        await consumer.commit()
        assert stage.coordinator.committed == {("orders", 0): 4}


async def test_a_batch_is_finished_as_one(stage: Stage) -> None:
    async with stage.consumer(auto_commit=True) as consumer:
        first = await consumer.next_batch(4)
        assert [record.offset for record in first] == [0, 1, 2, 3]
        await stage.coordinator.ping()
        assert stage.coordinator.committed.get(("orders", 0), 0) == 0
        assert [record.offset for record in await consumer.next_batch()] == [4, 5, 6, 7, 8, 9]
        await stage.coordinator.ping()
        assert stage.coordinator.committed == {("orders", 0): 4}
        assert await consumer.next_batch(timeout_ms=20) == []
        await stage.coordinator.ping()
        assert stage.coordinator.committed == {("orders", 0): 10}
