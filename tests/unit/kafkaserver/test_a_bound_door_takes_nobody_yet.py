"""A door that only holds its address refuses clients at once, so that they ask another broker."""

import asyncio

import pytest

from kafkaserver.replies import Reply
from kafkaserver.server import KafkaServer
from muster.kafkawire.api_table import RequestHeader
from tests.unit.kafkaserver.served import LIMITS, answer, request


def echo(header: RequestHeader, _frame: memoryview, reply: Reply) -> None:
    reply.send(answer(header.correlation_id))


async def test_clients_are_refused_until_it_accepts() -> None:
    server = KafkaServer("test", echo, LIMITS)
    port = server.bind("127.0.0.1", 0)
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)
    server.accept()
    server.accept()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request(1))
    assert await reader.readexactly(len(answer(1))) == answer(1)
    writer.close()
    await server.drain(grace_ms=0)


async def test_nobody_else_gets_the_address_meanwhile() -> None:
    first, second = KafkaServer("first", echo, LIMITS), KafkaServer("second", echo, LIMITS)
    port = first.bind("127.0.0.1", 0)
    first.accept()
    with pytest.raises(OSError):
        second.listen("127.0.0.1", port)
    await first.drain(grace_ms=0)


async def test_a_door_that_never_accepted_is_drained() -> None:
    server = KafkaServer("test", echo, LIMITS)
    server.bind("127.0.0.1", 0)
    await server.drain(grace_ms=0)
    server.accept()
    assert server.connection_count == 0
