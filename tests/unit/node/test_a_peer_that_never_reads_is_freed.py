"""A peer that reads nothing costs a socket and a buffer until it is hung up on, and not much longer."""

import asyncio
import base64
import socket
from contextlib import nullcontext
from typing import Any

import pytest
import uvicorn

from access.grants import Role
from access.tokens import Caller
from coordinator import connections
from coordinator.door import ConsumerDoor
from coordinator.service import build
from coordinator.sockets import ConsumerSocket
from muster.kernel.instants import Instant
from node.websocket import TextWebSocket
from tests.unit.coordinator.shards import Node, eventually

KEY = base64.b64encode(bytes(16)).decode()
REQUEST = (
    "GET /ws/consumer/ HTTP/1.1\r\nHost: node\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    f"Sec-WebSocket-Key: {KEY}\r\nSec-WebSocket-Version: 13\r\nAuthorization: Bearer ann\r\n\r\n"
)


class KnowingNode(Node):
    """Everybody may consume."""

    kafka_callers = None
    kafka_callers_at = Instant(0)

    def verify_token(self, presented: str) -> Any:
        return Caller(presented, Role.CONSUMER, presented)


async def test_a_peer_that_never_reads_is_freed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "CLOSE_WITHIN_S", 0.05)
    node = KnowingNode()
    door = ConsumerDoor(node, build(node))
    config = uvicorn.Config(
        ConsumerSocket.as_asgi(door=door),
        host="127.0.0.1",
        port=0,
        ws=TextWebSocket,
        ws_ping_interval=None,
        ws_per_message_deflate=False,
        lifespan="off",
        loop="none",
        log_config=None,
    )
    server = uvicorn.Server(config)
    server.capture_signals = nullcontext  # type: ignore[method-assign, assignment]
    serving = asyncio.create_task(server.serve())
    await eventually(lambda: server.started)
    address = server.servers[0].sockets[0].getsockname()
    with socket.socket() as peer:
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        peer.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(peer, address)
        await loop.sock_sendall(peer, REQUEST.encode())
        await eventually(lambda: door._connections.all())
        [opened] = door._connections.all()
        while not opened.closing:
            opened.say_text("x" * 1_000_000)
            await asyncio.sleep(0)
        await eventually(lambda: not server.server_state.connections)
        assert len(door._connections) == 0
    server.should_exit = True
    await serving
