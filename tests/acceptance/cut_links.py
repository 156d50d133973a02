"""This room is a small TCP proxy before each door of a cluster: its links can be cut, or hang, and be mended.

Brokers say first who they are, so one of them loses the others while they keep each other.
Everything runs on an event loop in a thread of its own.
"""

import asyncio
import contextlib
import re
import threading
from collections.abc import Coroutine
from dataclasses import dataclass, field
from enum import Enum
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from broker.core.peer_proof import _INTRODUCTION, _MAGIC
from muster.kafkawire.framing import LENGTH_BYTES
from standalone.children import free_ports

T = TypeVar("T")
EVERYBODY: Final = ""
CHUNK_BYTES: Final = 256 * 1024
BEARER: Final = re.compile(rb"Bearer (\d+):")


class Cut(Enum):
    """How a link is broken."""

    CLOSED = "closed"
    """Those that stand are reset, new ones are closed at once: the kernel of the other side is there."""
    SILENT = "silent"
    """Nothing passes in either direction, nothing is closed; what was sent arrives when it is mended."""

    ONE_WAY = "one way"
    """What is asked arrives, and no answer comes back before it is mended."""


@dataclass
class _Door:
    """One door: where it leads, and who may not pass."""

    name: str
    target: tuple[str, int]
    port: int = 0
    cuts: dict[str, Cut] = field(default_factory=dict)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    links: "set[_Link]" = field(default_factory=set)

    def cut_of(self, link: "_Link") -> Cut | None:
        """How this link is broken."""
        return self.cuts.get(link.source) or self.cuts.get(EVERYBODY)


@dataclass(eq=False)
class _Link:
    near: asyncio.StreamWriter
    source: str = EVERYBODY
    """Who came, once that was said."""
    far: asyncio.StreamWriter | None = None

    def reset(self) -> None:
        for writer in (self.near, self.far):
            if writer is not None:
                writer.transport.abort()


class Proxies:
    """Doors by name."""

    def __init__(self) -> None:
        self._doors: dict[str, _Door] = {}
        self._servers: list[asyncio.Server] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxies", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._run(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def open(self, name: str, target_port: int) -> int:
        """The port of a new door before 127.0.0.1:target_port."""
        door = _Door(name, ("127.0.0.1", target_port), free_ports(1)[0])
        self._doors[name] = door
        self._run(self._listen(door))
        return door.port

    def cut(self, name: str, how: Cut, source: str = EVERYBODY) -> None:
        """Break the links of this broker, or of everybody, to that door."""
        self._run(self._set(self._doors[name], source, how))

    def mend(self) -> None:
        """Every link may stand again."""
        for door in self._doors.values():
            for source in list(door.cuts):
                self._run(self._set(door, source, None))

    # ------------------------------------------------------------------------------ on the loop

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    async def _listen(self, door: _Door) -> None:
        async def came(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            with contextlib.suppress(OSError):
                await self._pass(door, reader, writer)
            await _closed(writer)

        self._servers.append(await asyncio.start_server(came, "127.0.0.1", door.port))

    async def _set(self, door: _Door, source: str, how: Cut | None) -> None:
        if how is None:
            del door.cuts[source]
        else:
            door.cuts[source] = how
        if how is Cut.CLOSED:
            for link in list(door.links):
                if source == EVERYBODY or source == link.source:
                    link.reset()
        changed, door.changed = door.changed, asyncio.Event()
        changed.set()

    async def _pass(self, door: _Door, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = _Link(writer)
        if door.cut_of(link) is Cut.CLOSED:
            return
        far_reader, far = await asyncio.open_connection(*door.target)
        link.far = far
        door.links.add(link)
        there = asyncio.ensure_future(self._pump(door, link, reader, far, (Cut.SILENT,)))
        back = asyncio.ensure_future(self._pump(door, link, far_reader, writer, (Cut.SILENT, Cut.ONE_WAY)))
        try:
            await asyncio.wait((there, back), return_when=asyncio.FIRST_COMPLETED)
        finally:
            there.cancel()
            back.cancel()
            door.links.discard(link)
            await _closed(far)

    async def _pump(
        self,
        door: _Door,
        link: _Link,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        held_by: tuple[Cut, ...],
    ) -> None:
        """Returns when one side has ended, or neither can be reached."""
        with contextlib.suppress(OSError):
            while data := await reader.read(CHUNK_BYTES):
                link.source = link.source or introduced(data)
                if door.cut_of(link) is Cut.CLOSED:
                    return
                while door.cut_of(link) in held_by:
                    await door.changed.wait()
                writer.write(data)
                await writer.drain()

    async def _end(self) -> None:
        for server in self._servers:
            server.close()
        for door in self._doors.values():
            door.cuts.clear()
            door.changed.set()
            for link in list(door.links):
                link.reset()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def introduced(first: bytes) -> str:
    """Which broker says this first, to a node or to another broker; EVERYBODY: no broker does."""
    if first[LENGTH_BYTES:].startswith(_MAGIC):
        return f"broker-{_INTRODUCTION.unpack_from(first, LENGTH_BYTES)[1]}"
    to_node = BEARER.search(first)
    return f"broker-{int(to_node[1])}" if to_node else EVERYBODY


async def _closed(writer: asyncio.StreamWriter) -> None:
    """Close it, and return when its socket is closed; one that was reset already is."""
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
