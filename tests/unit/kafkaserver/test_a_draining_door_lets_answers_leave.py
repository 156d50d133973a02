"""A door that stops takes nothing new, lets answers leave within its grace, and closes everything."""

import asyncio

import pytest

from kafkaserver.replies import Reply
from kafkaserver.server import KafkaServer
from muster.kafkawire.api_table import RequestHeader
from tests.unit.kafkaserver.served import LIMITS, answer, request, until


async def test_an_answer_that_comes_within_the_grace_still_leaves() -> None:
    parked: list[Reply] = []

    def park(header: RequestHeader, _frame: memoryview, reply: Reply) -> None:
        parked.append(reply)

    server = KafkaServer("test", park, LIMITS)
    port = server.listen("127.0.0.1", 0)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request(1))
    await until(lambda: len(parked) == 1)
    draining = asyncio.create_task(server.drain(grace_ms=5_000))
    await until(lambda: server.is_draining)
    writer.write(request(2))
    parked[0].send(answer(1))
    await draining
    assert await reader.read() == answer(1)
    assert len(parked) == 1
    with pytest.raises(OSError):
        await asyncio.open_connection("127.0.0.1", port)
    writer.close()


async def test_what_is_never_answered_is_closed_after_the_grace() -> None:
    server = KafkaServer("test", lambda _header, _frame, _reply: None, LIMITS)
    port = server.listen("127.0.0.1", 0)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request(1))
    await until(lambda: server.counters.requests == 1)
    await server.drain(grace_ms=20)
    assert await reader.read() == b""
    assert server.connection_count == 0
    writer.close()
