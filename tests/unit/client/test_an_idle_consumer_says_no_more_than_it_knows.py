"""A consumer without a partition says why, and blames others of its group only where nothing else is left."""

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from muster import Consumer, State
from tests.unit.client.stage import Stage, staged


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with staged(tmp_path) as stage:
        yield stage


async def said_until(consumer: Consumer, last: str) -> list[str]:
    """Each text of a state that is idle, up to this one."""
    said: list[str] = []
    async with asyncio.timeout(20):
        while last not in said:
            if consumer.state is State.IDLE:
                said.append(consumer.state_text)
            await asyncio.sleep(0.001)
    return list(dict.fromkeys(said))


async def test_of_a_topic_that_is_missing_it_never_says_that_others_have_it(stage: Stage) -> None:
    async with stage.consumer(["flights"]) as consumer:
        said = await said_until(consumer, "there is no topic flights yet")
    assert said[-2:] == ["no partition is assigned to it so far", "there is no topic flights yet"]
    assert not [text for text in said if "others" in text]


async def test_of_a_topic_that_is_there_it_says_so_once_it_has_looked(stage: Stage) -> None:
    async with stage.consumer() as consumer:
        said = await said_until(
            consumer, "no partition is assigned to it; the others of its group have them all"
        )
    assert said[-2] == "no partition is assigned to it so far"


async def test_of_patterns_it_says_that_they_may_match_nothing(stage: Stage) -> None:
    async with stage.consumer([re.compile("flights-.*")]) as consumer:
        await said_until(
            consumer,
            "no partition is assigned to it; the others of its group have them all, or no topic matches its"
            " patterns",
        )
