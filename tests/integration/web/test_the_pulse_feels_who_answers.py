"""This room tests whether the web process feels that its database answers nobody, and that it is back."""

import asyncio
import gc
import os
import signal
import threading

import psycopg
import pytest
from django.db import OperationalError, connections

from groups.fingerprints import OVERVIEW
from web import pulse
from web.pulse import Pulse
from web.watching import Watching


def test_the_pulse_feels_a_frozen_backend_and_one_that_is_back(
    fresh_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As in the web process: the connection is kept.
    monkeypatch.setitem(connections.settings["default"], "CONN_MAX_AGE", 60)
    usual_ms = pulse.FELT_WITHIN_MS

    async def story() -> list[bool]:
        feeling = Pulse()
        # Whoever is busy with other work connects later than anybody is waited for.
        monkeypatch.setattr(pulse, "FELT_WITHIN_MS", 60_000)
        felt = [await feeling.beats()]
        monkeypatch.setattr(pulse, "FELT_WITHIN_MS", usual_ms)
        (frozen,) = backends_of(fresh_database)
        os.kill(frozen, signal.SIGSTOP)
        try:
            felt += [await feeling.beats(), await feeling.beats()]
        finally:
            os.kill(frozen, signal.SIGCONT)
        async with asyncio.timeout(20):
            while not await feeling.beats():
                await asyncio.sleep(0.05)
        await feeling.close()
        return felt

    assert asyncio.run(story()) == [True, False, False]


def test_an_error_that_nobody_waits_for_any_more_is_no_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    """As of a connection that a network swallows: the server is given up long before the attempt ends."""
    may_fail = threading.Event()
    complaints: list[str] = []

    def ask(_: Pulse) -> None:
        may_fail.wait()
        raise OperationalError("connection timeout expired")

    async def story() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, told: complaints.append(told["message"]))
        monkeypatch.setattr(pulse, "FELT_WITHIN_MS", 1)
        monkeypatch.setattr(Pulse, "_ask", ask)
        feeling = Pulse()
        assert not await feeling.beats()
        may_fail.set()
        asking = feeling._asking
        assert asking is not None
        await asyncio.wait({asking})
        await feeling.close()

    asyncio.run(story())
    gc.collect()
    assert complaints == []


def test_a_look_that_gets_no_answer_keeps_no_process(
    fresh_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A web process that was told to stop stayed for as long as the database said nothing."""
    monkeypatch.setitem(connections.settings["default"], "CONN_MAX_AGE", 60)

    async def story() -> list[threading.Thread]:
        watching = Watching()
        await watching.fingerprints(frozenset({OVERVIEW}))
        (frozen,) = backends_of(fresh_database)
        os.kill(frozen, signal.SIGSTOP)
        try:
            looking = asyncio.ensure_future(watching.fingerprints(frozenset({OVERVIEW})))
            await asyncio.sleep(0)
            await watching.close()
            await asyncio.wait({looking})
            threads = list(watching._looking._threads)
            for thread in threads:
                thread.join(60)
            looking.exception()
        finally:
            os.kill(frozen, signal.SIGCONT)
        return threads

    threads = asyncio.run(story())
    assert len(threads) == 1 and not threads[0].is_alive()


def backends_of(url: str) -> list[int]:
    """The process ids that serve this database, but for the asking one's."""
    with psycopg.connect(url, autocommit=True) as connection:
        rows = connection.execute(
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        ).fetchall()
    return [pid for (pid,) in rows]
