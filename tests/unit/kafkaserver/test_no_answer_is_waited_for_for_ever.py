"""A mistake of ours costs one client its connection: nobody waits behind an answer that will never leave."""

import asyncio
import socket
from datetime import timedelta

import pytest

from kafkaserver.later import Later
from kafkaserver.outbox import Outbox
from kafkaserver.producer_ids import ProducerIdBlock, ProducerIds
from kafkaserver.replies import Reply
from kafkaserver.tls import TlsSocket
from muster.kafkawire.api_table import ApiKey, RequestHeader, build, encode_request, request_class
from tests.unit.kafkaserver.served import answer, request, served, until


async def test_whose_answer_is_given_up_is_hung_up_on() -> None:
    later = Later()
    given_up: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def work() -> None:
        await given_up

    def handle(_header: RequestHeader, _frame: memoryview, reply: Reply) -> None:
        later.start(reply, work())

    async with served(handle) as (server, port), asyncio.timeout(10):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request(1))
        await until(lambda: server.counters.requests == 1)
        given_up.cancel()
        assert await reader.read() == b""
        writer.close()
        await writer.wait_closed()


async def test_whose_answer_is_forgotten_is_hung_up_on() -> None:
    later = Later()

    async def forget() -> None:
        """Return without a word."""

    def handle(_header: RequestHeader, _frame: memoryview, reply: Reply) -> None:
        later.start(reply, forget())

    async with served(handle) as (_, port), asyncio.timeout(10):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request(1))
        assert await reader.read() == b""
        writer.close()
        await writer.wait_closed()


async def test_who_was_answered_keeps_his_connection_whatever_becomes_of_the_rest() -> None:
    later = Later()
    over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def answer_and_go_on(number: int, reply: Reply) -> None:
        reply.send(answer(number))
        if number == 1:
            await over

    def handle(header: RequestHeader, _frame: memoryview, reply: Reply) -> None:
        later.start(reply, answer_and_go_on(header.correlation_id, reply))

    async with served(handle) as (_, port), asyncio.timeout(10):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request(1))
        assert await reader.readexactly(len(answer(1))) == answer(1)
        over.cancel()
        writer.write(request(2))
        assert await reader.readexactly(len(answer(2))) == answer(2)
        writer.close()
        await writer.wait_closed()


async def test_who_waits_for_a_block_of_producer_ids_that_is_given_up_is_hung_up_on() -> None:
    given_up: asyncio.Future[ProducerIdBlock] = asyncio.get_running_loop().create_future()

    async def take() -> ProducerIdBlock:
        return await given_up

    ids = ProducerIds(take)
    async with served(ids.handle) as (server, port), asyncio.timeout(10):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        body = build(
            request_class(ApiKey.INIT_PRODUCER_ID, 0),
            transactional_id=None,
            transaction_timeout=timedelta(seconds=1),
        )
        writer.write(encode_request(ApiKey.INIT_PRODUCER_ID, 0, 1, "ann", body))
        await until(lambda: server.counters.requests == 1 and ids._refill is not None)
        given_up.cancel()
        assert await reader.read() == b""
        writer.close()
        await writer.wait_closed()


async def test_a_door_that_stops_lets_other_answers_leave_behind_what_it_gives_up() -> None:
    later, asked = Later(), asyncio.Event()

    def handle(header: RequestHeader, _frame: memoryview, reply: Reply) -> None:
        if header.correlation_id == 1:
            reply.send(answer(1))
            asked.set()
        else:
            later.start(reply, asyncio.sleep(3600))
            later.stop()

    async with served(handle) as (server, port), asyncio.timeout(10):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request(1) + request(2))
        await asked.wait()
        assert await reader.readexactly(len(answer(1))) == answer(1)
        assert server.connection_count == 1
        writer.close()
        await writer.wait_closed()


async def test_whoever_is_answered_beside_one_that_fails_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """They leave together in one round of the loop; it is not told of them a second time."""
    send_to = Outbox.send_to

    def send_but_the_second(outbox: Outbox, connection: socket.socket | TlsSocket) -> bool:
        if answer(2) in outbox._pieces:
            raise RuntimeError("a mistake of ours")
        return send_to(outbox, connection)

    monkeypatch.setattr(Outbox, "send_to", send_but_the_second)
    replies: dict[int, Reply] = {}

    def handle(header: RequestHeader, _frame: memoryview, reply: Reply) -> None:
        replies[header.correlation_id] = reply

    async with served(handle) as (server, port), asyncio.timeout(10):
        clients = [await asyncio.open_connection("127.0.0.1", port) for _ in range(8)]
        for number, (_, writer) in enumerate(clients):
            writer.write(request(number))
        await until(lambda: len(replies) == len(clients))
        for number, reply in replies.items():
            reply.send(answer(number))
        for number, (reader, _) in enumerate(clients):
            assert await reader.read(8) == (b"" if number == 2 else answer(number))
        assert server.counters.failed == 1
        for _, writer in clients:
            writer.close()
            await writer.wait_closed()
