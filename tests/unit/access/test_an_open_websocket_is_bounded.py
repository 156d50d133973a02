"""A page's websocket answers a few pings, and its socket ends although its peer reads nothing."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvicorn

from access import bounded_websocket
from access.bounded_websocket import MOST_FRAGMENTS, PINGS_A_SECOND, BoundedWebSocket

REQUEST = (
    b"GET / HTTP/1.1\r\nHost: here\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
PING = b"\x89\x81\0\0\0\0p"
PONG = b"\x8a\x01p"


async def listens(scope: Any, receive: Any, send: Any) -> None:
    await receive()
    await send({"type": "websocket.accept"})
    while (await receive())["type"] != "websocket.disconnect":
        pass


async def talks(scope: Any, receive: Any, send: Any) -> None:
    """Says more than a kernel takes, and is cut short by nobody's reading."""
    await receive()
    await send({"type": "websocket.accept"})
    await send({"type": "websocket.send", "bytes": bytes(16 * 1024 * 1024)})
    receiving = asyncio.ensure_future(receive())
    await asyncio.wait([receiving], timeout=0.01)
    receiving.cancel()


@asynccontextmanager
async def served(application: Any) -> AsyncIterator[uvicorn.Server]:
    config = uvicorn.Config(
        application, port=0, ws=BoundedWebSocket, ws_ping_interval=None, lifespan="off", log_config=None
    )
    server = uvicorn.Server(config)
    config.load()
    server.lifespan = config.lifespan_class(config)
    async with asyncio.timeout(20):
        await server.startup()
        yield server
        await server.shutdown()


async def opened(server: uvicorn.Server) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection(*server.servers[0].sockets[0].getsockname())
    writer.write(REQUEST)
    assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101 ")
    return reader, writer


async def test_a_few_pings_are_answered_and_many_are_not() -> None:
    async with served(listens) as server:
        reader, writer = await opened(server)
        writer.write(PING * PINGS_A_SECOND)
        assert await reader.readexactly(PINGS_A_SECOND * len(PONG)) == PONG * PINGS_A_SECOND
        # In one piece: however slow the machine is, they are looked at within a second.
        writer.write(PING * (PINGS_A_SECOND + 1))
        heard = await reader.read()
        assert heard.endswith(struct.pack(">H", 1008) + b"too many pings")
        writer.close()


async def test_a_message_comes_in_few_pieces() -> None:
    begun, nothing = b"\x01\x80\0\0\0\0", b"\0\x80\0\0\0\0"
    async with served(listens) as server:
        reader, writer = await opened(server)
        writer.write(begun + nothing * (MOST_FRAGMENTS - 1) + PING)
        assert await reader.readexactly(len(PONG)) == PONG
        writer.write(nothing)
        heard = await reader.read()
        assert heard.endswith(struct.pack(">H", 1008) + b"too many fragments")
        writer.close()


async def test_a_peer_that_reads_nothing_keeps_its_socket_not_much_longer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bounded_websocket, "CLOSE_WITHIN_MS", 50)
    async with served(talks) as server:
        with socket.socket() as never_reads:
            never_reads.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            never_reads.setblocking(False)
            loop = asyncio.get_running_loop()
            await loop.sock_connect(never_reads, server.servers[0].sockets[0].getsockname())
            await loop.sock_sendall(never_reads, REQUEST)
            while not server.server_state.connections:
                await asyncio.sleep(0.001)
            while server.server_state.connections:
                await asyncio.sleep(0.01)


async def test_whoever_does_not_wait_for_the_handshake_writes_no_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    begun, may_go_on = asyncio.Event(), asyncio.Event()

    async def hesitates(scope: Any, receive: Any, send: Any) -> None:
        begun.set()
        await may_go_on.wait()
        await send({"type": "websocket.accept"})

    async with served(hesitates) as server:
        for said in (PING * (PINGS_A_SECOND + 1), b"\x81\x01a"):
            begun.clear()
            reader, writer = await asyncio.open_connection(*server.servers[0].sockets[0].getsockname())
            writer.write(REQUEST)
            await begun.wait()
            writer.write(said)
            with pytest.raises(ConnectionError):
                await reader.read()
                raise ConnectionResetError
            writer.close()
        may_go_on.set()
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == []
