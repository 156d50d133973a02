"""This room wakes whoever reads rows again: names over NOTIFY, which may be lost, doubled or late (law 2)."""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import Any

import psycopg
import structlog

from runtime.cluster import WrongDatabase, refuse_pooler
from runtime.ports import EVERYTHING, Connection, ConnectionLost, lost_where_nothing_is_done
from runtime.postgres import LaneConnection, open_connection

CHANNEL = "muster"
LONGEST_PAYLOAD_BYTES = 7_000
"""PostgreSQL refuses 8,000; a key that is too long wakes by its name alone."""

RECONNECT_S = 0.1
TRIES_A_LINE = 300
"""An outage is said once, then every half minute: ten lines a second fill a disk in a night."""

COALESCE_MS = 50
"""At most 20 notifications a second for one name and key."""

log = structlog.get_logger(__name__)


def send(connection: Connection, name: str, key: str = "") -> None:
    """Notify on this connection, in a transaction of its own: inside a turn it would queue all commits."""
    payload = f"{name} {key}"
    if len(payload.encode()) > LONGEST_PAYLOAD_BYTES:
        payload = f"{name} "
    connection.execute("SELECT pg_notify(%s, %s)", (CHANNEL, payload))


def notify(name: str, key: str = "") -> None:
    """Notify from Django's own connection (web, commands); call it after the commit."""
    from django.db import connection

    with connection.cursor() as cursor:
        send(cursor, name, key)


class Coalescer:
    """Gathers wake-ups of one process and sends each name and key at most once in COALESCE_MS.

    `send` is called on the loop with all that wait; it may fail, and nothing is lost but time.
    """

    def __init__(self, send: Callable[[list[tuple[str, str]]], None]) -> None:
        self._send = send
        self._waiting: dict[tuple[str, str], None] = {}
        self._timer: asyncio.TimerHandle | None = None

    def wake(self, name: str, key: str = "") -> None:
        """Notify soon: at once if nothing was sent lately."""
        self._waiting[(name, key)] = None
        if self._timer is None:
            self._flush()
            self._timer = asyncio.get_running_loop().call_later(COALESCE_MS / 1000, self._due)

    def _due(self) -> None:
        self._timer = None
        if self._waiting:
            self._flush()
            self._timer = asyncio.get_running_loop().call_later(COALESCE_MS / 1000, self._due)

    def _flush(self) -> None:
        waiting, self._waiting = list(self._waiting), {}
        self._send(waiting)

    def stop(self) -> None:
        """Send nothing more."""
        if self._timer is not None:
            self._timer.cancel()


class Listener:
    """One LISTEN connection in a thread of its own; hears every wake-up of the cluster.

    `on_wake(name, key)` is called on the loop that ran `start`; with EVERYTHING after each connect, because
    what was notified before it is lost. `check` raises WrongDatabase or ConnectionLost where nobody notifies
    us: whoever listened in another database would hear nothing for as long as that lives. Nor does anybody
    behind a pooler, which gives the session to others.
    """

    def __init__(
        self,
        url: str,
        application_name: str,
        on_wake: Callable[[str, str], None],
        check: Callable[[LaneConnection], None] = lambda _: None,
    ) -> None:
        self._url = url
        self._application_name = application_name
        self._on_wake = on_wake
        self._check = check
        self._stopping = threading.Event()
        self._connection: psycopg.Connection[Any] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._listen, name="listener", daemon=True)

    def start(self) -> None:
        """Begin to listen; wake-ups come on the running loop."""
        self._loop = asyncio.get_running_loop()
        self._thread.start()

    async def run(self) -> None:
        """Listen until cancelled."""
        self.start()
        try:
            await asyncio.Event().wait()
        finally:
            await self.stop()

    async def stop(self) -> None:
        """Stop listening; returns when the thread has ended."""
        self._stopping.set()
        await asyncio.to_thread(self._thread.join, 3)

    def _listen(self) -> None:
        tries = 0
        while not self._stopping.is_set():
            try:
                with contextlib.closing(open_connection(self._url, self._application_name)) as connection:
                    with lost_where_nothing_is_done():
                        refuse_pooler(connection, connection.info.backend_pid)
                        self._check(connection)
                    connection.execute(f"LISTEN {CHANNEL}")
                    tries = 0
                    self._tell(EVERYTHING, "")
                    self._hear(connection)
            except (psycopg.Error, ConnectionLost, WrongDatabase) as error:
                if tries % TRIES_A_LINE == 0:
                    log.warning("listener lost its connection", error=str(error), tries=tries)
                tries += 1
                self._stopping.wait(RECONNECT_S)

    def _hear(self, connection: psycopg.Connection[Any]) -> None:
        while not self._stopping.is_set():
            for notification in connection.notifies(timeout=0.5):
                name, _, key = notification.payload.partition(" ")
                self._tell(name, key)
                if self._stopping.is_set():
                    return

    def _tell(self, name: str, key: str) -> None:
        assert self._loop is not None
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._on_wake, name, key)
