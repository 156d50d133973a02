"""When more come back than can be answered in time, those who gave up cost next to nothing."""

import asyncio
import base64
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext, suppress
from typing import Any

import uvicorn

from access.bounded_http import LARGEST_HEAD_BYTES, BoundedHttp
from node.websocket import TextWebSocket
from tests.unit.coordinator.shards import eventually

REQUEST = (
    "GET / HTTP/1.1\r\nHost: node\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    f"Sec-WebSocket-Key: {base64.b64encode(bytes(16)).decode()}\r\nSec-WebSocket-Version: 13\r\n\r\n"
).encode()


class Application:
    """Counts whom it was asked about."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        self.asked.append(scope["client"][1])
        await receive()
        await send({"type": "websocket.accept"})
        await receive()


@asynccontextmanager
async def served(application: Any, http: type[BoundedHttp] = BoundedHttp) -> AsyncIterator[uvicorn.Server]:
    config = uvicorn.Config(
        application,
        host="127.0.0.1",
        port=0,
        http=http,
        ws=TextWebSocket,
        ws_ping_interval=None,
        lifespan="off",
        loop="none",
        log_config=None,
    )
    server = uvicorn.Server(config)
    server.capture_signals = nullcontext  # type: ignore[method-assign, assignment]
    serving = asyncio.create_task(server.serve())
    await eventually(lambda: server.started)
    yield server
    await eventually(lambda: not server.server_state.connections)
    server.should_exit = True
    await serving


async def test_only_who_still_waits_is_answered() -> None:
    application = Application()
    async with served(application) as server:
        address = server.servers[0].sockets[0].getsockname()
        # Nothing is accepted before this coroutine waits: all have their turn when the first have gone.
        impatient = [socket.create_connection(address) for _ in range(3)]
        with socket.create_connection(address) as patient:
            for one in (*impatient, patient):
                one.sendall(REQUEST)
            for one in impatient:
                one.close()
            port = patient.getsockname()[1]
            await eventually(lambda: port in application.asked)
            assert application.asked == [port]


async def test_a_handshake_whose_head_is_too_large_is_hung_up_on() -> None:
    mistakes: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: mistakes.append(context))
    application = Application()
    async with served(application) as server:
        reader, writer = await asyncio.open_connection(*server.servers[0].sockets[0].getsockname())
        writer.write(REQUEST[:-2] + b"X-Much: " + b"x" * LARGEST_HEAD_BYTES + b"\r\n\r\n")
        with suppress(ConnectionResetError):
            assert await reader.read() == b""
        writer.close()
    assert (application.asked, mistakes) == ([], [])
