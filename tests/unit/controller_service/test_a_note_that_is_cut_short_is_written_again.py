"""High watermarks are noted now and then, and removals wait for it: a note that fails ends neither."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from controller import service as services
from controller.service import PROGRESS_INTERVAL_MS
from muster.kernel.instants import Instant
from muster.messages.link.from_broker import BrokerPing, HighWatermark
from tests.unit.controller_service.stage import ORDERS, HereAndNow, linked

SAID = HighWatermark(topic_id=ORDERS, partition=0, high_watermark=5)


class SilentDatabase(HereAndNow):
    """The same, with a database that is asked and says nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.notes: asyncio.Queue[str] = asyncio.Queue()

    async def query(self, function: Callable[[Any], Any]) -> Any:
        if "_note_progress" not in function.__qualname__:
            return await super().query(function)
        self.notes.put_nowait("begun")
        await asyncio.Event().wait()


async def test_a_removal_that_waits_no_longer_leaves_the_note_to_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else nothing would be noted any more, and later removals would not see what groups have yet to read."""
    monkeypatch.setattr(services, "LOOK_INTERVAL_S", 0)
    here = SilentDatabase()
    service, links, _ = await linked(here)
    removal = asyncio.create_task(service._hear_how_far_logs_are())
    await asyncio.sleep(0)
    for link in links.values():
        service.link_heard(link, BrokerPing(number=1, metadata_version=5, high_watermarks=(SAID,)))
    async with asyncio.timeout(10):
        await here.notes.get()
        removal.cancel()
        await asyncio.gather(removal, return_exceptions=True)
        service.tick(Instant(here.time + PROGRESS_INTERVAL_MS))
        await here.notes.get()
    for link in links.values():
        link.hang_up("the end")


class SpoiltDatabase(HereAndNow):
    """The same, with a database that refuses one of the notes, and so all of them."""

    def __init__(self) -> None:
        super().__init__()
        self.refused = 0

    async def query(self, function: Callable[[Any], Any]) -> Any:
        if "_note_progress" not in function.__qualname__:
            return await super().query(function)
        self.refused += 1
        raise ValueError("out of range")


async def test_a_note_that_the_database_refuses_ends_no_removal_and_is_not_written_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(services, "LOOK_INTERVAL_S", 0)
    here = SpoiltDatabase()
    service, links, _ = await linked(here)
    removal = asyncio.create_task(service._hear_how_far_logs_are())
    await asyncio.sleep(0)
    for link in links.values():
        service.link_heard(link, BrokerPing(number=1, metadata_version=5, high_watermarks=(SAID,)))
    async with asyncio.timeout(10):
        await removal
    service.tick(Instant(here.time + PROGRESS_INTERVAL_MS))
    assert (here.refused, service._progress.is_being_written) == (1, False)
    for link in links.values():
        link.hang_up("the end")
