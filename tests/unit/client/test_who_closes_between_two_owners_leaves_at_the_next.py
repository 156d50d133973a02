"""A coordinator that goes while a consumer closes takes neither its last commit nor its farewell with it."""

import asyncio
import logging
from pathlib import Path

import pytest

from muster import RebalanceListener
from muster.client.record import TopicPartition
from muster.kernel.error_codes import ErrorCode
from muster.messages.member import CommitOffsetsRequest, LeaveRequest
from tests.unit.client.stage import places, staged, take


@pytest.mark.parametrize("goes", ["hangs up", "says that it is none any more"])
async def test_the_last_commit_and_the_farewell_are_said_to_the_next_owner(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, goes: str
) -> None:
    async with staged(tmp_path) as stage:
        coordinator = stage.coordinator
        coordinator.shares = [places(0)]
        await stage.fill(2)
        async with stage.consumer(auto_commit=True) as ann:
            assert await take(ann, 2) == [(0, 0), (0, 1)]
            if goes == "hangs up":
                coordinator.answers_commits = False
            else:
                coordinator.commit_errors = [ErrorCode.NOT_COORDINATOR]
            ann._conversation.processing.main.finish()
            closing = asyncio.create_task(ann.close())
            await coordinator.hears(CommitOffsetsRequest)
            if goes == "hangs up":
                coordinator.answers_commits = True
                await coordinator.hang_up()
            await asyncio.wait_for(closing, 20)
        assert isinstance(await coordinator.hears(LeaveRequest), LeaveRequest)
        assert coordinator.committed == {("orders", 0): 2}
    assert not [one for one in caplog.records if one.levelno >= logging.WARNING]


async def test_who_closes_while_no_coordinator_is_there_leaves_at_the_next_one(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        coordinator = stage.coordinator
        coordinator.shares = [places(0)]
        await stage.fill(2)
        async with stage.consumer(auto_commit=True) as ann:
            assert await take(ann, 2) == [(0, 0), (0, 1)]
            await coordinator.hang_up()
        assert isinstance(await coordinator.hears(LeaveRequest), LeaveRequest)
        assert coordinator.committed == {("orders", 0): 2}


async def test_what_a_listener_commits_meanwhile_is_committed_at_the_next_owner(tmp_path: Path) -> None:
    class Commits(RebalanceListener):
        async def on_revoked(self, partitions: frozenset[TopicPartition]) -> None:
            await stage.coordinator.hang_up()
            await ann.commit()

    async with staged(tmp_path) as stage:
        stage.coordinator.shares = [places(0)]
        await stage.fill(2)
        async with stage.consumer(listener=Commits()) as ann:
            assert await take(ann, 2) == [(0, 0), (0, 1)]
        assert isinstance(await stage.coordinator.hears(LeaveRequest), LeaveRequest)
        assert stage.coordinator.committed == {("orders", 0): 2}
