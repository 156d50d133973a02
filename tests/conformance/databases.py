"""This room gives the contract's tests both databases, and ways to break their connections."""

import contextlib
import socket
import threading
import time
import uuid
from typing import Protocol
from urllib.parse import urlsplit, urlunsplit

from runtime import cluster
from runtime.database import Database, Link
from runtime.memory import MemoryDatabase
from runtime.postgres import Postgres, PostgresLink, open_connection
from tests.conformance.counters import TABLES

COMMITS = (b"COMMIT", b"WITH written AS")
"""What the end of a turn, and a batch, which is one statement, look like on their way."""

BOUND_S = 60.0
LANES = ["coordinator/0", "coordinator/1", "coordinator/4"]


class Breakable(Protocol):
    """A database whose next COMMIT can be made to end in the dark."""

    @property
    def database(self) -> Database:
        """Where the tests' links come from."""

    def lose_answer(self) -> None:
        """The next COMMIT is executed, and its answer lost."""

    def lose_request(self) -> None:
        """The next COMMIT is lost."""

    def direct(self) -> Link:
        """A connection of somebody else, that no fault touches."""

    def wait_until_blocked(self) -> None:
        """Return when one transaction waits for another."""

    def close(self) -> None:
        """End every connection."""


class BreakableMemory:
    """The database in memory."""

    def __init__(self) -> None:
        self.database = MemoryDatabase(LANES)

    def lose_answer(self) -> None:
        for link in self.database.links:
            link.lose_answer = True

    def lose_request(self) -> None:
        for link in self.database.links:
            link.lose_request = True

    def direct(self) -> Link:
        return self.database.connect("somebody", "test")

    def wait_until_blocked(self) -> None:
        """One lock for all: whoever comes later waits."""

    def close(self) -> None:
        for link in self.database.links:
            link.close()


class BreakablePostgres:
    """The real one, behind a proxy that can cut a connection at its COMMIT."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._links: list[PostgresLink] = []
        link = PostgresLink(open_connection(url, "muster-test"))
        link.transaction(lambda connection: cluster.initialise(connection, uuid.uuid4(), LANES))
        link.call(lambda connection: connection.execute(TABLES))
        link.close()
        self.proxy = Proxy(url)
        self.database = Postgres(self.proxy.url, "node-1")

    def lose_answer(self) -> None:
        self.proxy.cut_at_commit(forward=True)

    def lose_request(self) -> None:
        self.proxy.cut_at_commit(forward=False)

    def direct(self) -> Link:
        link = PostgresLink(open_connection(self._url, "muster-test"))
        self._links.append(link)
        return link

    def wait_until_blocked(self) -> None:
        blocked = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        watcher, give_up_at = self.direct(), time.monotonic() + BOUND_S
        while watcher.call(lambda connection: connection.execute(blocked).fetchone()) == (0,):
            assert time.monotonic() < give_up_at, "nobody waits for a lock"
            time.sleep(0.005)

    def close(self) -> None:
        self.proxy.close()
        for link in self._links:
            link.close()


class Proxy:
    """Forwards TCP to PostgreSQL, and can cut one connection around its COMMIT."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._target = (parts.hostname or "127.0.0.1", parts.port or 5432)
        self._listener = socket.create_server(("127.0.0.1", 0))
        port = self._listener.getsockname()[1]
        netloc = f"{parts.username}:{parts.password}@127.0.0.1:{port}"
        self.url = urlunsplit(parts._replace(netloc=netloc))
        self._cut: bool | None = None
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def cut_at_commit(self, *, forward: bool) -> None:
        """Cut the first connection that sends COMMIT, after or before it was forwarded."""
        with self._lock:
            self._cut = forward

    def close(self) -> None:
        """Cut everything."""
        self._listener.close()
        for one in list(self._sockets):
            _cut(one)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._target)
                self._sockets += [client, server]
                threading.Thread(target=self._forward, args=(client, server), daemon=True).start()
                threading.Thread(target=self._return, args=(server, client), daemon=True).start()

    def _forward(self, client: socket.socket, server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := client.recv(65536):
                with self._lock:
                    cut = self._cut if any(word in data for word in COMMITS) else None
                    if cut is not None:
                        self._cut = None
                if cut is not None:
                    # The client hears nothing any more, before the server can have answered.
                    _cut(client)
                    if cut:
                        server.sendall(data)
                        server.shutdown(socket.SHUT_WR)
                        return
                    break
                server.sendall(data)
        _cut(client)
        _cut(server)

    def _return(self, server: socket.socket, client: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := server.recv(65536):
                client.sendall(data)
        _cut(server)
        _cut(client)


def _cut(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()
