"""Malformed and oversize frames, too many and too idle connections end with a closed socket and a count."""

import asyncio
import contextlib
import gc
import socket
import struct
import tracemalloc
import weakref
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from kafkaserver.guard import Guard
from kafkaserver.limits import ServerLimits
from kafkaserver.replies import Reply
from kafkaserver.server import KafkaServer
from kafkaserver.strangers import IN_ALL, OF_ONE_ADDRESS
from muster.client.broker_connection import BrokerConnection
from muster.client.securing import Security
from muster.kafkawire.api_table import RequestHeader
from muster.kafkawire.errors import MalformedFrame
from tests.unit.kafkaserver.served import LIMITS, answer, request, served, until
from tests.unit.kafkaserver.test_callers_may_what_their_tokens_say import TOKEN, row


def _echo(header: RequestHeader, _frame: memoryview, reply: Reply) -> None:
    reply.send(answer(header.correlation_id))


async def _sent_and_closed(port: int, data: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    try:
        async with asyncio.timeout(5):
            return await reader.read()
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


@pytest.mark.parametrize("length", [-1, -(2**31), 64 * 1024 + 1, 2**31 - 1])
async def test_a_length_outside_the_limit_closes_the_connection(length: int) -> None:
    async with served(_echo) as (server, port):
        assert await _sent_and_closed(port, struct.pack(">i", length)) == b""
        assert (server.counters.oversize, server.connection_count) == (1, 0)


@pytest.mark.parametrize(
    "frame",
    [
        struct.pack(">i", 3) + b"abc",
        request(1, key=999),
        request(1, key=0, version=2),
        struct.pack(">ihhih", 10, 18, 0, 1, 500),
    ],
    ids=["no header", "unknown key", "Produce 2", "client id behind the frame"],
)
async def test_a_malformed_frame_closes_the_connection(frame: bytes) -> None:
    async with served(_echo) as (server, port):
        await _sent_and_closed(port, frame)
        assert (server.counters.malformed, server.connection_count) == (1, 0)


async def test_strangers_write_a_line_a_second_at_most() -> None:
    async with served(_echo) as (server, port):
        began = server.loop.time()
        with capture_logs() as said:
            for number in range(30):
                await _sent_and_closed(port, request(1, key=999) if number % 2 else struct.pack(">i", -1))
        seconds = server.loop.time() - began
        assert (server.counters.malformed, server.counters.oversize) == (15, 15)
    lines = [line for line in said if line["event"] == "kafka_frame_refused"]
    assert lines[0]["refused"] == 1 and len(lines) <= 1 + seconds


async def test_a_body_that_its_handler_cannot_read_closes_the_connection_only_of_its_sender() -> None:
    def refuse(header: RequestHeader, _frame: memoryview, reply: Reply) -> None:
        if header.correlation_id == 1:
            raise MalformedFrame("not what it says")
        reply.send(answer(header.correlation_id))

    async with served(refuse) as (server, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        await _sent_and_closed(port, request(1))
        writer.write(request(2))
        assert await reader.readexactly(8) == answer(2)
        assert server.counters.malformed == 1
        writer.close()


async def test_our_own_mistake_closes_one_connection_and_is_counted_apart() -> None:
    def fail(_header: RequestHeader, _frame: memoryview, _reply: Reply) -> None:
        raise ZeroDivisionError

    async with served(fail) as (server, port):
        await _sent_and_closed(port, request(1))
        assert (server.counters.failed, server.counters.malformed) == (1, 0)


async def test_a_promise_of_many_bytes_takes_no_memory_until_they_come() -> None:
    limits = ServerLimits(request_bytes=100 * 1024 * 1024)
    async with served(_echo, limits) as (server, port):
        tracemalloc.start()
        try:
            writers = []
            for _ in range(10):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(struct.pack(">i", 100 * 1024 * 1024) + b"a few bytes")
                writers.append(writer)
            await until(lambda: server.connection_count == 10)
            await asyncio.sleep(0.05)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < 256 * 1024
        for writer in writers:
            writer.close()


async def test_one_connection_too_many_is_closed_at_once() -> None:
    async with served(_echo, ServerLimits(connections=2)) as (server, port):
        kept = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
        await until(lambda: server.connection_count == 2)
        assert await _sent_and_closed(port, b"") == b""
        assert server.counters.refused == 1
        for reader, writer in kept:
            writer.write(request(1))
            assert await reader.readexactly(8) == answer(1)
            writer.close()


async def test_one_address_has_so_many_connections_and_no_more() -> None:
    async with served(_echo, ServerLimits(connections_of_one_address=2)) as (server, port):
        kept = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
        await until(lambda: server.connection_count == 2)
        assert await _sent_and_closed(port, b"") == b""
        assert (server.counters.refused, server.connection_count) == (1, 2)
        # Its neighbour is another address, and who hangs up makes room.
        elsewhere = await asyncio.open_connection("127.0.0.1", port, local_addr=("127.0.0.2", 0))
        await until(lambda: server.connection_count == 3)
        kept.pop(0)[1].close()
        await until(lambda: server.connection_count == 2)
        for reader, writer in (*kept, elsewhere, await asyncio.open_connection("127.0.0.1", port)):
            writer.write(request(1))
            assert await reader.readexactly(8) == answer(1)
            writer.close()


async def test_a_silent_connection_is_closed_and_a_waiting_one_is_not() -> None:
    parked: list[Reply] = []

    def park(header: RequestHeader, _frame: memoryview, reply: Reply) -> None:
        parked.append(reply)

    async with served(park, ServerLimits(idle_ms=40)) as (server, port):
        silent_reader, silent = await asyncio.open_connection("127.0.0.1", port)
        waiting_reader, waiting = await asyncio.open_connection("127.0.0.1", port)
        waiting.write(request(1))
        await until(lambda: server.counters.idle == 1)
        assert await silent_reader.read() == b""
        parked[0].send(answer(1))
        assert await waiting_reader.readexactly(8) == answer(1)
        silent.close()
        waiting.close()


async def test_who_takes_not_one_byte_of_its_answers_is_idle() -> None:
    def answer_much(header: RequestHeader, _frame: memoryview, reply: Reply) -> None:
        reply.send(answer(header.correlation_id, bytes(16 * 1024 * 1024)))

    async with served(answer_much, ServerLimits(idle_ms=100)) as (server, port):
        # Not one byte is read: the kernel's buffers fill, and then nothing happens any more.
        with socket.create_connection(("127.0.0.1", port)) as deaf:
            deaf.sendall(request(1))
            await until(lambda: server.counters.requests == 1)
            await until(lambda: server.counters.idle == 1)
            assert server.connection_count == 0


class _Session:
    """What a door keeps for a connection (replies.Session)."""

    known = None

    def repeated(self, received: bytes) -> None: ...

    def admitted(self, identity: object) -> None: ...

    def ended(self) -> None: ...


async def test_no_timer_holds_on_to_whoever_came_and_went_without_a_word() -> None:
    """A door with a gate waits five seconds for a proof; a stranger who is gone is not waited for."""
    sessions: weakref.WeakSet[_Session] = weakref.WeakSet()

    def session(_peer: str) -> _Session:
        sessions.add(made := _Session())
        return made

    gated = KafkaServer("test", _echo, LIMITS, Guard(sasl=True).gate, session)
    port = gated.listen("127.0.0.1", 0)
    with socket.create_connection(("127.0.0.1", port)):
        await until(lambda: gated.connection_count == 1)
        assert len(sessions) == 1
    await until(lambda: gated.connection_count == 0)
    gc.collect()
    assert len(sessions) == 0
    await gated.drain(grace_ms=0)


async def _come(port: int, count: int) -> "list[tuple[asyncio.StreamReader, asyncio.StreamWriter]]":
    return [await asyncio.open_connection("127.0.0.1", port) for _ in range(count)]


async def test_of_too_many_strangers_of_one_address_the_oldest_goes_and_who_is_known_stays() -> None:
    guard = Guard(sasl=True)
    guard.know((row(),))
    limits = replace(LIMITS, strangers_of_one_address=2)
    gated = KafkaServer("test", _echo, limits, guard.gate)
    port = gated.listen("127.0.0.1", 0)
    known = await BrokerConnection.open(f"127.0.0.1:{port}", "ann", Security("SASL_PLAINTEXT", TOKEN))
    assert gated.stranger_count == 0
    half_open = await _come(port, 3)
    assert await half_open[0][0].read() == b""
    assert (gated.stranger_count, gated.connection_count) == (2, 3)
    # Whoever means well comes in beside them.
    other = await BrokerConnection.open(f"127.0.0.1:{port}", "ann", Security("SASL_PLAINTEXT", TOKEN))
    assert (gated.stranger_count, gated.connection_count) == (1, 3)
    assert gated.counters.crowding == {OF_ONE_ADDRESS: 2}
    for connection in (known, other):
        connection.close()
    for _, writer in half_open:
        writer.close()
    await until(lambda: gated.connection_count == 0)
    assert gated.stranger_count == 0
    await gated.drain(grace_ms=0)


async def test_strangers_fill_half_of_a_door_and_no_more() -> None:
    gated = KafkaServer("test", _echo, replace(LIMITS, connections=6), Guard(sasl=True).gate)
    port = gated.listen("127.0.0.1", 0)
    half_open = await _come(port, 5)
    for reader, _ in half_open[:2]:
        assert await reader.read() == b""
    assert (gated.stranger_count, gated.counters.crowding) == (3, {IN_ALL: 2})
    for _, writer in half_open:
        writer.close()
    await gated.drain(grace_ms=0)


async def test_who_says_nothing_in_time_is_counted() -> None:
    gated = KafkaServer("test", _echo, replace(LIMITS, admission_ms=20), Guard(sasl=True).gate)
    port = gated.listen("127.0.0.1", 0)
    [(reader, writer)] = await _come(port, 1)
    assert await reader.read() == b""
    assert (gated.counters.late, gated.stranger_count) == (1, 0)
    writer.close()
    await gated.drain(grace_ms=0)


@settings(max_examples=40, deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes_are_answered_or_refused_and_the_door_stays_open(data: bytes) -> None:
    async def story() -> None:
        async with served(_echo) as (server, port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(data)
            writer.write_eof()
            async with asyncio.timeout(5):
                with contextlib.suppress(ConnectionResetError):
                    await reader.read()
            writer.close()
            assert server.counters.failed == 0
            again_reader, again = await asyncio.open_connection("127.0.0.1", port)
            again.write(request(9))
            assert await again_reader.readexactly(8) == answer(9)
            again.close()

    asyncio.run(story())
