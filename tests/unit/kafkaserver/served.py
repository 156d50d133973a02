"""This room runs a Kafka door on a real socket for tests, with a handler of the test's own."""

import asyncio
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from kafkaserver.limits import ServerLimits
from kafkaserver.replies import Handler, Session
from kafkaserver.server import KafkaServer

LIMITS = ServerLimits(request_bytes=64 * 1024)


@asynccontextmanager
async def served(
    handler: Handler, limits: ServerLimits = LIMITS, session: Callable[[str], Session] | None = None
) -> AsyncIterator[tuple[KafkaServer, int]]:
    """(server, port) of a door that is open inside the block."""
    server = KafkaServer("test", handler, limits, session=session, is_for_short_requests=True)
    port = server.listen("127.0.0.1", 0)
    try:
        yield server, port
    finally:
        await server.drain(grace_ms=0)


def request(correlation_id: int, body: bytes = b"", *, key: int = 18, version: int = 0) -> bytes:
    """A whole request frame; ApiVersions 0 by default, whose body nobody reads here."""
    payload = struct.pack(">hhih", key, version, correlation_id, -1) + body
    return struct.pack(">i", len(payload)) + payload


def answer(correlation_id: int, body: bytes = b"") -> bytes:
    """A whole reply frame."""
    return struct.pack(">ii", 4 + len(body), correlation_id) + body


async def until(condition: Callable[[], bool], within_s: float = 5.0) -> None:
    """Wait for `condition`; fail if it does not come true."""
    async with asyncio.timeout(within_s):
        while not condition():
            await asyncio.sleep(0.005)
