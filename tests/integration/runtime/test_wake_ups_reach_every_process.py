"""A notification reaches every listener; after a lost connection everything counts as woken."""

import asyncio
import uuid

import psycopg
from structlog.testing import capture_logs

from runtime import cluster, wake
from runtime.ports import EVERYTHING, VersionConflict
from runtime.postgres import LaneConnection, Postgres, open_connection
from runtime.wake import Coalescer, Listener
from tests.conformance.databases import LANES
from tests.integration.poolers import pooler


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


async def test_nobody_goes_on_listening_in_the_database_of_another_cluster(fresh_database: str) -> None:
    """A node whose address led there for a moment heard nothing of its own any more, and nobody saw it."""
    heard: asyncio.Queue[tuple[str, str]] = asyncio.Queue()
    loop, refused = asyncio.get_running_loop(), asyncio.Event()
    postgres, ours = Postgres(fresh_database, "node-1"), uuid.uuid4()

    def check(connection: LaneConnection) -> None:
        try:
            postgres.check(connection)
        except cluster.WrongDatabase:
            loop.call_soon_threadsafe(refused.set)
            raise

    connection = open_connection(fresh_database, "muster-test")
    cluster.initialise(connection, ours, LANES)
    name = "muster:test:listener"
    listener = Listener(fresh_database, name, lambda *words: heard.put_nowait(words), check)
    listener.start()
    async with asyncio.timeout(20):
        assert await heard.get() == (EVERYTHING, "")
        connection.execute("UPDATE cluster SET cluster_id = gen_random_uuid()")
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s", [name]
        )
        await refused.wait()
        assert heard.empty()
        connection.execute("UPDATE cluster SET cluster_id = %s", [ours])
        assert await heard.get() == (EVERYTHING, "")
    await listener.stop()
    connection.close()


async def test_a_look_that_the_server_undid_is_taken_again(fresh_database: str) -> None:
    """A standby cancels what is in the way of its replay: its thread ended, and nothing was heard."""
    heard: asyncio.Queue[tuple[str, str]] = asyncio.Queue()
    undone = [VersionConflict("canceling statement due to conflict with recovery")]

    def check(connection: LaneConnection) -> None:
        if undone:
            raise undone.pop()

    name = "muster:test:listener"
    listener = Listener(fresh_database, name, lambda *words: heard.put_nowait(words), check)
    listener.start()
    async with asyncio.timeout(20):
        assert await heard.get() == (EVERYTHING, "")
    await listener.stop()


async def test_nobody_listens_behind_a_pooler(fresh_database: str) -> None:
    """Web that was told of a pooler alone heard nothing, was listed nowhere, and did not say so."""
    heard: asyncio.Queue[tuple[str, str]] = asyncio.Queue()
    with pooler(fresh_database) as url, capture_logs() as lines:
        listener = Listener(url, "muster-web-listen", lambda *words: heard.put_nowait(words))
        listener.start()
        async with asyncio.timeout(20):
            while not lines:
                await asyncio.sleep(0.01)
        await listener.stop()
    assert "name PostgreSQL itself" in lines[0]["error"]
    assert heard.empty()


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
