"""A notification reaches every listener; after a lost connection everything counts as woken."""

import asyncio

import psycopg

from runtime import wake
from runtime.ports import EVERYTHING
from runtime.wake import Coalescer, Listener


async def test_a_name_and_its_key_are_heard(fresh_database: str) -> None:
    heard: asyncio.Queue[tuple[str, str]] = asyncio.Queue()
    listener = Listener(fresh_database, "muster:test:listener", lambda *words: heard.put_nowait(words))
    listener.start()
    async with asyncio.timeout(20):
        assert await heard.get() == (EVERYTHING, "")
        with psycopg.connect(fresh_database, autocommit=True) as connection:
            wake.send(connection, "group", "departures of the day")
            assert await heard.get() == ("group", "departures of the day")
            wake.send(connection, "group", "x" * 9_000)
            assert await heard.get() == ("group", "")
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE application_name = 'muster:test:listener'"
            )
            assert await heard.get() == (EVERYTHING, "")
        await listener.stop()


async def test_many_wake_ups_of_one_name_become_few() -> None:
    sent: list[list[tuple[str, str]]] = []
    coalescer = Coalescer(sent.append)
    for _ in range(100):
        coalescer.wake("group", "orders")
        coalescer.wake("group", "clicks")
    async with asyncio.timeout(5):
        while len(sent) < 2:
            await asyncio.sleep(0.01)
    assert sent[0] == [("group", "orders")]
    assert sorted(sent[1]) == [("group", "clicks"), ("group", "orders")]
    coalescer.stop()
