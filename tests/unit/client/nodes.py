"""This room is nodes for the SDK's discovery: real websocket servers that answer, refuse or hang as told."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from muster.messages import codec
from muster.messages.member import ClusterMetadataRequest, ClusterMetadataResponse, NodeInfo


class Nodes:
    """Some nodes by name; `coordinator` is the name of the one they all call the coordinator."""

    def __init__(self) -> None:
        self.addresses: dict[str, str] = {}
        self.coordinator = ""
        self.status = HTTPStatus.OK
        self.hanging: set[str] = set()
        self.delay_s = 0.0
        """So long each handshake lies before it is looked at."""
        self.handshakes: Counter[str] = Counter()
        self.questions: Counter[str] = Counter()
        self.open: Counter[str] = Counter()
        self._over = asyncio.Event()
        self._servers: dict[str, Server] = {}

    async def start(self, name: str) -> None:
        """A node that listens, on a port of its own, or where it was before."""
        port = int(self.addresses[name].rpartition(":")[2]) if name in self.addresses else 0

        async def heard(connection: ServerConnection) -> None:
            self.open[name] += 1
            while frame := await _next_frame(connection):
                message = codec.decode_from_member(frame)
                assert isinstance(message, ClusterMetadataRequest)
                self.questions[name] += 1
                nodes = tuple(NodeInfo(number, one) for number, one in enumerate(self.addresses.values()))
                answer = ClusterMetadataResponse(
                    correlation_id=message.correlation_id,
                    coordinator_address=self.addresses.get(self.coordinator, ""),
                    nodes=nodes,
                )
                await connection.send(codec.encode(answer).decode())
            self.open[name] -= 1

        async def handshake(connection: ServerConnection, request: Request) -> Response | None:
            self.handshakes[name] += 1
            if name in self.hanging:
                await self._over.wait()
            await asyncio.sleep(self.delay_s)
            if self.status is not HTTPStatus.OK:
                return connection.respond(self.status, "")
            return None

        server = await serve(heard, "127.0.0.1", port, process_request=handshake, ping_interval=None)
        [socket] = server.sockets
        self.addresses[name] = f"ws://127.0.0.1:{socket.getsockname()[1]}"
        self._servers[name] = server

    async def stop(self, name: str) -> None:
        """The node's process is gone."""
        server = self._servers.pop(name)
        server.close(close_connections=True)
        for connection in list(server.connections):
            connection.transport.abort()
        await server.wait_closed()

    async def end(self) -> None:
        """All of them are gone."""
        self._over.set()
        for name in list(self._servers):
            await self.stop(name)


@asynccontextmanager
async def running(*names: str) -> AsyncIterator[Nodes]:
    """Nodes that answer, until the test is over."""
    nodes = Nodes()
    try:
        for name in names:
            await nodes.start(name)
        yield nodes
    finally:
        await nodes.end()


async def _next_frame(connection: ServerConnection) -> str | bytes:
    """Empty: the peer is gone, however it went."""
    try:
        return await connection.recv()
    except ConnectionClosed:
        return b""
