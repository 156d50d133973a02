"""A member reads the log that its partition has now: another one may have come under the same number."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from muster.client.broker_questions import EARLIEST, LATEST
from muster.client.errors import NoOffset
from muster.client.fetching import Fetching, FetchOptions
from muster.client.history import MOST_EPOCHS, History, Parting
from muster.client.tenure import Tenure
from tests.unit.client.stage import Stage, places, staged, take, until

WITHIN_S = 20


def old(count: int) -> list[bytes]:
    return [b"old %d" % number for number in range(count)]


def new(count: int) -> list[bytes]:
    return [b"new %d" % number for number in range(count)]


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with staged(tmp_path, {"orders": 1}) as made:
        yield made


@asynccontextmanager
async def fetching(stage: Stage, reset_to: int | None, offset: int) -> AsyncIterator[tuple[Fetching, Tenure]]:
    """Fetches partition 0 from `offset` on."""
    made = Fetching(FetchOptions("tests", reset_to=reset_to), lambda tenure: None, lambda: None)
    made.learn_brokers({1: stage.address})
    running = asyncio.create_task(made.run(), name="fetching")
    tenure = Tenure("orders", stage.ids["orders"], 0, 1, offset)
    made.start(tenure)
    try:
        yield made, tenure
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def values(made: Fetching, count: int) -> list[Any]:
    found: list[Any] = []
    async with asyncio.timeout(WITHIN_S):
        while len(found) < count:
            tenure = await made.fill(lambda tenure: True)
            if tenure is not None:
                records = list(tenure.ready)
                tenure.ready.clear()
                tenure.delivered_to = tenure.finished_to = records[-1].offset + 1
                found += [record.value for record in records]
    return found


async def test_a_partition_that_was_removed_and_added_again_is_read_from_its_beginning(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    stage.coordinator.shares = [places(0)]
    # What was read ends the old log, what is unread is of the new one alone.
    await stage.produce(old(10))
    async with stage.consumer() as consumer:
        assert len(await take(consumer, 10)) == 10
        await consumer.commit()
        consumer.pause()
        stage.controller.renew(stage.ids["orders"], 0)
        await stage.produce(new(20))
        consumer.resume()
        async with asyncio.timeout(WITHIN_S):
            records = [await anext(consumer) for _ in range(20)]
        assert [(record.offset, record.value) for record in records] == list(enumerate(new(20)))
        await consumer.commit()
    assert stage.coordinator.committed == {("orders", 0): 20}
    assert "the log is another one from offset 0 on; 10 was next" in caplog.text


async def test_so_it_is_where_the_new_log_is_still_empty_and_latest_would_skip(stage: Stage) -> None:
    await stage.produce(old(10))
    async with fetching(stage, LATEST, 0) as (made, tenure):
        assert await values(made, 10) == old(10)
        stage.controller.renew(stage.ids["orders"], 0)
        await until(lambda: tenure.delivered_to == 0)
        await stage.produce(new(3))
        assert await values(made, 3) == new(3)


async def test_so_it_is_where_the_member_has_read_no_batch_yet(stage: Stage) -> None:
    await stage.produce(old(10))
    async with fetching(stage, EARLIEST, 10) as (made, tenure):
        await until(lambda: tenure.high_watermark == 10)
        tenure.paused = True
        stage.controller.renew(stage.ids["orders"], 0)
        await stage.produce(new(20))
        tenure.paused = False
        made.look_again(tenure)
        assert await values(made, 20) == new(20)


async def test_what_was_only_fetched_ahead_is_dropped(stage: Stage) -> None:
    await stage.produce(old(10))
    async with fetching(stage, EARLIEST, 0) as (made, tenure):
        await until(lambda: tenure.fetched_to == 10)
        stage.controller.renew(stage.ids["orders"], 0)
        await until(lambda: tenure.fetched_to == 0)
        await stage.produce(new(3))
        assert await values(made, 3) == new(3)


async def test_without_a_reset_the_application_is_told(stage: Stage) -> None:
    await stage.produce(old(10))
    async with fetching(stage, None, 0) as (made, _):
        assert await values(made, 10) == old(10)
        [running] = [task for task in asyncio.all_tasks() if task.get_name() == "fetching"]
        stage.controller.renew(stage.ids["orders"], 0)
        with pytest.raises(BaseExceptionGroup) as problem:
            await asyncio.wait_for(asyncio.shield(running), WITHIN_S)
    assert problem.group_contains(NoOffset, match="offset 0 on; 10 was next")


async def test_an_election_that_loses_nothing_changes_nothing(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    await stage.produce(old(10))
    async with fetching(stage, EARLIEST, 10) as (made, tenure):
        await until(lambda: tenure.high_watermark == 10)
        for epoch in (2, 3, 4):
            stage.controller.elect(stage.ids["orders"], 0)
            await stage.produce(new(3))
            assert await values(made, 3) == new(3)
            assert tenure.history.last_epoch == epoch
    assert "another one" not in caplog.text


async def test_all_is_read_that_another_history_has_in_the_place_of_what_was_read(stage: Stage) -> None:
    """The leader of epochs 1 and 3 was read to 60, that of epoch 2 to 20 only: 2 elections lost records."""
    await stage.produce(old(20))
    stage.controller.elect(stage.ids["orders"], 0)
    await stage.produce(new(80))
    for _ in (3, 4):
        stage.controller.elect(stage.ids["orders"], 0)
    async with fetching(stage, EARLIEST, 60) as (made, tenure):
        tenure.history.note(0, 1)
        tenure.history.note(40, 3)
        assert await values(made, 80) == new(80)


def history(*epochs: tuple[int, int]) -> History:
    made = History()
    for offset, epoch in epochs:
        made.note(offset, epoch)
    return made


@pytest.mark.parametrize(
    ("told", "parts_at"),
    [
        # The leader lacks the end of the last epoch.
        (Parting(5, 18), 18),
        # It knows nothing of epoch 5, and its epoch 4 is not the one that was read.
        (Parting(4, 30), 15),
        (Parting(3, 30), 10),
        (Parting(3, 8), 8),
        # Nothing that was read is there.
        (Parting(1, 30), 0),
    ],
)
def test_what_was_read_and_is_there_ends_where_either_ends(told: Parting, parts_at: int) -> None:
    assert history((0, 3), (10, 4), (15, 5)).parts_at(told) == parts_at


def test_what_is_fetched_again_is_of_the_epoch_that_it_is_of_then() -> None:
    made = history((0, 3), (10, 4), (15, 5))
    made.cut(15)
    assert made.last_epoch == 4
    made.cut(0)
    assert made.last_epoch == -1
    made.forget(2)
    assert made.last_epoch == 2


def test_a_long_history_is_not_kept() -> None:
    made = History()
    for number in range(1_000):
        made.note(10 * number, number)
    assert made.last_epoch == 999 and len(made._epochs) == MOST_EPOCHS
    made.cut(0)
    assert made.last_epoch == 999 - MOST_EPOCHS


def test_what_was_read_before_is_still_known_where_it_goes_on() -> None:
    made = history((0, 3), (40, 5))
    assert made.until(40, 4).last_epoch == 3
    assert made.until(0, 4).last_epoch == 4
