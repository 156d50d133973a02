"""While the database stands still, web keeps a bounded number of those who ask whether they may watch."""

import asyncio
import threading
from collections.abc import Iterator

import pytest

from web import watching
from web.live import Unknown
from web.watching import Watching

BOUND = 5


class Database:
    """Answers nobody until it `goes_on`."""

    def __init__(self) -> None:
        self.goes_on = threading.Event()
        self.asked = 0

    def person(self, scope: object) -> str:
        self.asked += 1
        assert self.goes_on.wait(10)
        return "mira"


@pytest.fixture
def database(monkeypatch: pytest.MonkeyPatch) -> Iterator[Database]:
    standing_still = Database()
    monkeypatch.setattr(watching, "_person", standing_still.person)
    monkeypatch.setattr(watching, "MOST_WAITING", BOUND)
    monkeypatch.setattr(watching, "close_old_connections", lambda: None)
    yield standing_still
    standing_still.goes_on.set()


async def test_whoever_gave_up_is_kept_and_counted_until_the_database_goes_on(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread's queue forgets nobody by itself: strangers that come again would fill it without end."""
    door, at_once = Watching(), watching.HANDSHAKES_AT_ONCE
    patient = [asyncio.create_task(door.person_of({})) for _ in range(at_once)]
    async with asyncio.timeout(10):
        while database.asked < at_once:
            await asyncio.sleep(0)
    monkeypatch.setattr(watching, "ANSWER_WITHIN_MS", 1)
    for _ in range(4 * BOUND):
        with pytest.raises(Unknown):
            await door.person_of({})
    assert door._greeting._work_queue.qsize() == BOUND - at_once
    monkeypatch.setattr(watching, "ANSWER_WITHIN_MS", 10_000)
    database.goes_on.set()
    assert await asyncio.gather(*patient) == ["mira"] * at_once
    async with asyncio.timeout(10):
        while door._waiting:
            await asyncio.sleep(0)
    assert await door.person_of({}) == "mira"
    assert database.asked == at_once + 1, "nobody asks about who gave up"
    await door.close()
