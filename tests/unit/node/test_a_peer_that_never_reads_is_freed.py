"""A peer that reads nothing costs a socket and a buffer until it is hung up on, and not much longer."""

import asyncio
import base64
import socket

import pytest

from coordinator import connections
from coordinator.door import ConsumerDoor
from coordinator.service import build
from coordinator.sockets import ConsumerSocket
from tests.unit.coordinator.shards import KnowingNode, eventually
from tests.unit.node.test_a_handshake_is_answered_to_whoever_still_waits import served

KEY = base64.b64encode(bytes(16)).decode()
REQUEST = (
    "GET /ws/consumer/ HTTP/1.1\r\nHost: node\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    f"Sec-WebSocket-Key: {KEY}\r\nSec-WebSocket-Version: 13\r\nAuthorization: Bearer ann\r\n\r\n"
)


async def test_a_peer_that_never_reads_is_freed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "CLOSE_WITHIN_S", 0.05)
    node = KnowingNode()
    door = ConsumerDoor(node, build(node))
    async with served(ConsumerSocket.as_asgi(door=door)) as server:
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
