"""A listener hears of each partition that comes and goes, while it can still do something about it."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from muster import Consumer, ListenerFailed, PartitionsLost, RebalanceListener, Record, State
from muster.client.listening import Places
from muster.messages.member import LeaveRequest, StopFetcherResponse
from tests.unit.client.stage import Stage, cancelled, places, quiet, staged, take, until


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with staged(tmp_path) as running:
        running.coordinator.shares = [places(0, 1)]
        await running.fill(5, partitions=2)
        yield running


class Diary(RebalanceListener):
    """Writes down what it hears; `consumer` is the one that tells it."""

    def __init__(self) -> None:
        self.consumer: Consumer | None = None
        self.heard: list[tuple[str, set[int]]] = []
        self.go_on = asyncio.Event()
        self.go_on.set()

    async def on_assigned(self, partitions: Places) -> None:
        await self.note("assigned", partitions)

    async def on_revoked(self, partitions: Places) -> None:
        await self.note("revoked", partitions)

    def on_lost(self, partitions: Places) -> None:
        self.heard.append(("lost", {number for _, number in partitions}))

    async def note(self, what: str, partitions: Places) -> None:
        self.heard.append((what, {number for _, number in partitions}))
        await self.go_on.wait()


async def test_assigned_revoked_and_at_the_end_revoked_again(stage: Stage) -> None:
    diary = Diary()
    async with stage.consumer(listener=diary, session_timeout_ms=3_000) as consumer:
        await take(consumer, 10)
        await stage.coordinator.stop(("orders", 1))
        await stage.coordinator.stopped()
        await stage.coordinator.start(places(0, 2))
        await until(lambda: len(consumer.assignment) == 2)
    assert diary.heard == [("assigned", {0, 1}), ("revoked", {1}), ("assigned", {2}), ("revoked", {0, 2})]


async def test_nothing_is_handed_out_before_the_listener_has_sought_its_place(stage: Stage) -> None:
    class FromMyDatabase(Diary):
        async def on_assigned(self, partitions: Places) -> None:
            assert self.consumer is not None
            await super().on_assigned(partitions)
            for topic, number in partitions:
                self.consumer.seek(topic, number, 3)

    diary = FromMyDatabase()
    diary.go_on.clear()
    async with stage.consumer(listener=diary) as consumer:
        diary.consumer = consumer
        assert await quiet(consumer)
        diary.go_on.set()
        assert sorted(await take(consumer, 4)) == [(0, 3), (0, 4), (1, 3), (1, 4)]


async def test_what_it_commits_when_partitions_are_revoked_is_accepted_before_they_go(stage: Stage) -> None:
    class Committing(Diary):
        async def on_revoked(self, partitions: Places) -> None:
            assert self.consumer is not None
            await self.consumer.commit()
            await super().on_revoked(partitions)

    diary = Committing()
    stage.coordinator.shares = [places(0)]
    async with stage.consumer(listener=diary) as consumer:
        diary.consumer = consumer
        await take(consumer, 3)
        await stage.coordinator.stop(("orders", 0))
        # The record in hand is waited for: it is finished by asking for the next.
        await until(lambda: not consumer.assignment)
        reading = asyncio.create_task(anext(consumer))
        await stage.coordinator.stopped()
        assert stage.coordinator.committed == {("orders", 0): 3}
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)


async def test_a_listener_that_does_not_return_holds_up_no_hand_over(stage: Stage) -> None:
    diary = Diary()
    async with stage.consumer(listener=diary, session_timeout_ms=600):
        await until(lambda: diary.heard)
        diary.go_on.clear()
        await stage.coordinator.stop(("orders", 1))
        await stage.coordinator.hears(StopFetcherResponse)
        assert diary.heard[-1] == ("revoked", {1})
        diary.go_on.set()


async def test_what_went_before_the_listener_had_its_turn_is_lost(stage: Stage) -> None:
    diary = Diary()
    diary.go_on.clear()
    async with stage.consumer(listener=diary, session_timeout_ms=600):
        await until(lambda: diary.heard)
        await stage.coordinator.stop(("orders", 1))
        await stage.coordinator.stopped()
        diary.go_on.set()
        await until(lambda: len(diary.heard) == 2)
        assert diary.heard == [("assigned", {0, 1}), ("lost", {1})]


async def test_partitions_that_others_may_have_are_lost(stage: Stage) -> None:
    diary = Diary()
    async with stage.consumer(listener=diary) as consumer:
        await take(consumer, 10)
        # Without a StopFetcher: the member was away for too long.
        await stage.coordinator.start(places(1, 2))
        await until(lambda: len(diary.heard) == 3)
        assert diary.heard[1:] == [("lost", {0}), ("assigned", {2})]
        with pytest.raises(PartitionsLost):
            await consumer.commit()


async def test_an_exception_of_the_listener_ends_the_consumer_and_is_raised(stage: Stage) -> None:
    class Broken(RebalanceListener):
        def on_assigned(self, partitions: Places) -> None:
            raise KeyError("no such table")

    async with stage.consumer(listener=Broken()) as consumer:
        with pytest.raises(ListenerFailed, match=r"on_assigned .* KeyError\('no such table'\)") as told:
            await take(consumer, 1)
        assert isinstance(told.value.__cause__, KeyError)


async def test_a_listener_that_waits_for_what_was_cancelled_has_failed_too(stage: Stage) -> None:
    class Waiting(RebalanceListener):
        async def on_assigned(self, partitions: Places) -> None:
            await cancelled()

    async with stage.consumer(listener=Waiting()) as consumer:
        with pytest.raises(ListenerFailed, match=r"on_assigned .* CancelledError"):
            await take(consumer, 1)


async def test_when_the_consumer_fails_what_it_had_is_lost(stage: Stage) -> None:
    class BrokenLater(Diary):
        async def on_revoked(self, partitions: Places) -> None:
            raise RuntimeError("disk full")

    diary = BrokenLater()
    async with stage.consumer(listener=diary) as consumer:
        await until(lambda: diary.heard)
        await stage.coordinator.stop(("orders", 1))
        with pytest.raises(ListenerFailed):
            await take(consumer, 20)
    assert diary.heard == [("assigned", {0, 1}), ("lost", {0})]


async def test_a_consumer_that_fails_leaves_and_commits_nothing_by_itself(stage: Stage) -> None:
    class Broken(Diary):
        async def on_assigned(self, partitions: Places) -> None:
            await super().on_assigned(partitions)
            if len(self.heard) > 1:
                raise RuntimeError("disk full")

    async with stage.consumer(listener=Broken(), auto_commit=True) as consumer:
        await take(consumer, 5)
        await stage.coordinator.start(places(0, 1, 2))
        with pytest.raises(ListenerFailed):
            await take(consumer, 20)
        assert consumer.state is State.FAILED
        await stage.coordinator.hears(LeaveRequest)
        with pytest.raises(ListenerFailed):
            await take(consumer, 1)
    assert stage.coordinator.committed == {}


@pytest.mark.parametrize("commits", [False, True])
async def test_when_the_consumer_fails_nobody_else_gets_what_a_handler_still_has(
    stage: Stage, commits: bool
) -> None:
    class Broken(Diary):
        async def on_assigned(self, partitions: Places) -> None:
            await super().on_assigned(partitions)
            if len(self.heard) > 1:
                raise RuntimeError("disk full")

    works, goes_on = asyncio.Event(), asyncio.Event()
    diary = Broken()
    async with stage.consumer(listener=diary) as consumer:

        async def handle(_: Record) -> None:
            works.set()
            await goes_on.wait()
            if commits:
                await consumer.commit()

        running = asyncio.create_task(consumer.run(handle))
        await works.wait()
        await stage.coordinator.start(places(0, 1, 2))
        await until(lambda: consumer.state is State.FAILED and not consumer.assignment)
        await stage.coordinator.ping()
        assert not any(isinstance(one, LeaveRequest) for one in stage.coordinator.heard)
        goes_on.set()
        await stage.coordinator.hears(LeaveRequest)
        with pytest.raises(ListenerFailed):
            await running
    assert diary.heard[-1] == ("lost", {0, 1, 2})
    assert sum(stage.coordinator.committed.values()) == commits


async def test_a_listener_cannot_close_its_consumer(stage: Stage) -> None:
    class Closing(Diary):
        async def on_assigned(self, partitions: Places) -> None:
            assert self.consumer is not None
            with pytest.raises(RuntimeError, match="a listener cannot close"):
                await self.consumer.close()
            await super().on_assigned(partitions)

    diary = Closing()
    async with stage.consumer(listener=diary) as consumer:
        diary.consumer = consumer
        await take(consumer, 1)


async def test_what_is_no_listener_is_refused(stage: Stage) -> None:
    with pytest.raises(ValueError, match="extends RebalanceListener"):
        stage.consumer(listener=print)
