"""An HTTP door holds nobody who takes no answer, asks thousands of things at once, or speaks no HTTP."""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from access import bounded_http
from access.bounded_http import MOST_PIPELINED, BoundedHttp, bounded

ASK = b"GET / HTTP/1.1\r\nHost: here\r\n\r\n"
LARGE = 16 * 1024 * 1024
"""More than the kernel takes for anybody."""


class Door:
    """A server on this loop whose every answer is `size` bytes; what it was asked."""

    def __init__(self, size: int, http: type[BoundedHttp] = BoundedHttp) -> None:
        self.size = size
        self.asked = 0
        self.state = ServerState()
        self._settings = uvicorn.Config(
            self._answer, http=http, interface="asgi3", lifespan="off", log_config=None
        )
        self._settings.load()
        self._made = partial(http, self._settings, self.state, {})

    async def _answer(self, scope: Any, receive: Any, send: Any) -> None:
        self.asked += 1
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": bytes(self.size)})

    @asynccontextmanager
    async def served(self) -> AsyncIterator[tuple[str, int]]:
        server = await asyncio.get_running_loop().create_server(self._made, "127.0.0.1", 0)
        try:
            async with asyncio.timeout(30):
                yield server.sockets[0].getsockname()
                await self.empty()
        finally:
            server.close()

    async def empty(self) -> None:
        while self.state.connections:
            await asyncio.sleep(0.01)


def narrow(address: tuple[str, int]) -> socket.socket:
    """A connection whose own side takes next to nothing."""
    opened = socket.socket()
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    opened.connect(address)
    opened.setblocking(False)
    return opened


async def untaken(door: Door, address: tuple[str, int], ask: bytes = ASK) -> socket.socket:
    """A connection that has asked for something, and takes nothing of the answer."""
    asked, opened = door.asked, narrow(address)
    opened.send(ask)
    while door.asked == asked:
        await asyncio.sleep(0.01)
    return opened


@pytest.mark.parametrize("ask", [ASK, ASK.replace(b"Host", b"Connection: close\r\nHost")], ids=["", "closed"])
async def test_whoever_takes_no_answer_is_hung_up_on(monkeypatch: pytest.MonkeyPatch, ask: bytes) -> None:
    monkeypatch.setattr(bounded_http, "UNREAD_WITHIN_MS", 50)
    door = Door(LARGE)
    async with door.served() as address:
        with await untaken(door, address, ask):
            await door.empty()


async def test_whoever_takes_it_slowly_gets_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_http, "UNREAD_WITHIN_MS", 500)
    door = Door(LARGE)
    loop, got = asyncio.get_running_loop(), 0
    async with door.served() as address:
        with socket.create_connection(address) as slow:
            slow.setblocking(False)
            slow.send(ASK.replace(b"Host", b"Connection: close\r\nHost"))
            # Two seconds for all of it, and for a third of what the kernel keeps more than one look.
            while part := await loop.sock_recv(slow, 65_536):
                got += len(part)
                await asyncio.sleep(0.008)
    assert got > LARGE


async def test_of_those_who_take_no_answer_the_oldest_makes_room() -> None:
    door = Door(LARGE, bounded(2))
    async with door.served() as address:
        opened = [await untaken(door, address) for _ in range(3)]
        while len(door.state.connections) > 2:
            await asyncio.sleep(0.01)
        for one in opened:
            one.close()


async def test_a_few_requests_at_once_are_answered_in_turn() -> None:
    door = Door(1)
    async with door.served() as address:
        reader, writer = await asyncio.open_connection(*address)
        writer.write(ASK * (MOST_PIPELINED + 1))
        heard = b""
        while heard.count(b"HTTP/1.1 200 OK") < MOST_PIPELINED + 1:
            heard += await reader.read(65_536)
        writer.close()
    assert door.asked == MOST_PIPELINED + 1


async def test_whoever_asks_thousands_of_things_at_once_is_hung_up_on() -> None:
    door = Door(1)
    async with door.served() as address:
        reader, writer = await asyncio.open_connection(*address)
        writer.write(ASK * 3_000)
        with pytest.raises(ConnectionError):
            while await reader.read(65_536):
                pass
            raise ConnectionResetError
        writer.close()
    assert door.asked <= 2 * MOST_PIPELINED


async def test_a_stranger_writes_no_log(caplog: pytest.LogCaptureFixture) -> None:
    door = Door(1)
    with caplog.at_level(logging.DEBUG):
        async with door.served() as address:
            for said in (b"\x16\x03\x01\x02\x00\x01\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n"):
                for _ in range(5):
                    reader, writer = await asyncio.open_connection(*address)
                    writer.write(said)
                    assert (await reader.read()).startswith(b"HTTP/1.1 400 ")
                    writer.close()
            reader, writer = await asyncio.open_connection(*address)
            upgrade = b"GET / HTTP/1.1\r\nConnection: upgrade, close\r\nUpgrade: h2c\r\n\r\n"
            writer.write(upgrade)
            assert (await reader.read()).startswith(b"HTTP/1.1 200 ")
            writer.close()
    assert [one.message for one in caplog.records if one.name == "uvicorn.error"] == []


async def test_who_asks_more_and_takes_nothing_frees_no_place() -> None:
    door = Door(LARGE, bounded(2))
    async with door.served() as address:
        opened = []
        for _ in range(3):
            opened.append(await untaken(door, address))
            asked = door.asked
            opened[-1].send(ASK)
            while door.asked == asked:
                await asyncio.sleep(0.01)
        while len(door.state.connections) > 2:
            await asyncio.sleep(0.01)
        for one in opened:
            one.close()


async def test_of_those_who_begin_to_ask_once_more_the_oldest_makes_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bounded_http, "HEAD_WITHIN_MS", 60_000)
    door = Door(1, bounded(2))
    async with door.served() as address:
        opened = []
        for _ in range(3):
            reader, writer = await asyncio.open_connection(*address)
            writer.write(ASK)
            await reader.readuntil(b"\r\n0\r\n\r\n")
            opened.append((reader, writer))
        for _, writer in opened:
            writer.write(ASK[:5])
        with suppress(ConnectionResetError):
            assert await opened[0][0].read() == b""
        for _, writer in opened:
            writer.close()


async def test_whoever_has_not_taken_an_answer_gets_no_websocket() -> None:
    door = Door(LARGE)
    async with door.served() as address:
        with await untaken(door, address) as opened:
            opened.send(
                b"GET / HTTP/1.1\r\nHost: here\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
            )
            await door.empty()
    assert door.asked == 1
