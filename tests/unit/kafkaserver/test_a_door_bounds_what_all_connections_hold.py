"""Requests that have begun, answers, parked work and descriptors are bounded over all connections."""

import asyncio
import contextlib
import gc
import os
import resource
import socket
import time
from collections.abc import Iterator

from kafkaserver.limits import ServerLimits
from kafkaserver.replies import Reply
from kafkaserver.server import KafkaServer
from kafkaserver.sockets import Connection
from muster.kafkawire.api_table import RequestHeader
from tests.unit.kafkaserver.served import answer, request, served, until

LARGE = b"x" * 150_000


def echo(header: RequestHeader, _frame: memoryview, reply: Reply) -> None:
    reply.send(answer(header.correlation_id))


async def test_frames_that_together_are_too_large_are_served_one_after_the_other() -> None:
    """Three half frames hold more than the bound, so that none could end if all of them waited."""
    limits = ServerLimits(requests_in_memory_bytes=100_000)
    async with served(echo, limits) as (server, port):
        clients = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
        for number, (_, writer) in enumerate(clients):
            writer.write(request(number, LARGE)[:40_000])
        await until(lambda: server.memory.is_short)
        for number, (_, writer) in enumerate(clients):
            writer.write(request(number, LARGE)[40_000:])
        async with asyncio.timeout(5):
            for number, (reader, writer) in enumerate(clients):
                assert await reader.readexactly(8) == answer(number)
                writer.close()
        await until(lambda: server.connection_count == 0)
        assert server.memory.held_bytes == 0


async def test_small_requests_are_served_while_memory_is_short() -> None:
    async with served(echo, ServerLimits(requests_in_memory_bytes=50_000)) as (server, port):
        _, slow = await asyncio.open_connection("127.0.0.1", port)
        slow.write(request(1, LARGE)[:120_000])
        await until(lambda: server.memory.is_short)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request(2))
        assert await reader.readexactly(8) == answer(2)
        slow.close()
        writer.close()


async def test_a_frame_that_comes_too_slowly_while_memory_is_short_gives_way() -> None:
    limits = ServerLimits(requests_in_memory_bytes=50_000, memory_turn_ms=20)
    async with served(echo, limits) as (server, port):
        reader, slow = await asyncio.open_connection("127.0.0.1", port)
        slow.write(request(1, LARGE)[:40_000])
        await until(lambda: server.memory.is_short)
        slow.write(request(1, LARGE)[40_000:120_000])
        async with asyncio.timeout(5):
            assert await reader.read() == b""
        assert server.counters.greedy == 1
        slow.close()


async def test_the_time_of_a_turn_that_is_over_ends_no_later_one() -> None:
    async with served(echo, ServerLimits(requests_in_memory_bytes=50_000)) as (server, port):
        _, slow = await asyncio.open_connection("127.0.0.1", port)
        slow.write(request(1, LARGE)[:120_000])
        await until(lambda: server.memory.is_short)
        (connection,) = server._connections
        server.memory.take(connection, 50_000)
        server.memory.frame_served(connection)
        server.memory.take(connection, 50_000)
        assert server.memory.has_turn(connection)
        closed = []
        for turn in (1, 2):
            server._end_turn(turn)
            closed.append(connection.is_closed)
        assert closed == [False, True], "the first turn is over, the second has its own time"
        slow.close()


async def test_the_time_of_a_turn_keeps_no_connection_in_memory_that_is_closed() -> None:
    async with served(echo, ServerLimits(requests_in_memory_bytes=50_000)) as (server, port):
        _, slow = await asyncio.open_connection("127.0.0.1", port)
        slow.write(request(1, LARGE)[:40_000])
        await until(lambda: server.memory.is_short)
        slow.write(request(1, LARGE)[40_000:120_000])
        await until(lambda: server.memory.turns > 0)
        [peer] = [one.peer for one in server._connections]
        slow.close()
        await until(lambda: not server.connection_count)
        gc.collect()
        # By type: a proxy of what is gone, left by any other test, cannot be asked what it is an instance of.
        assert not [one for one in gc.get_objects() if type(one) is Connection and one.peer == peer]


async def test_who_holds_most_answers_in_memory_is_hung_up_on() -> None:
    def generous(header: RequestHeader, _frame: memoryview, reply: Reply) -> None:
        reply.send(answer(header.correlation_id, bytes(header.correlation_id)))

    limits = ServerLimits(answers_in_memory_bytes=20_000_000)
    async with served(generous, limits) as (server, port):
        modest = socket.create_connection(("127.0.0.1", port))
        greedy = socket.create_connection(("127.0.0.1", port))
        modest.sendall(request(11_000_000))
        await until(lambda: server.counters.requests == 1)
        greedy.sendall(request(18_000_000))
        await until(lambda: server.counters.greedy == 1)
        with contextlib.suppress(ConnectionResetError):
            while greedy.recv(1 << 20):
                pass
        assert server.connection_count == 1
        modest.close()
        greedy.close()


async def test_a_connection_with_an_answer_that_it_does_not_take_is_read_no_further() -> None:
    def generous(header: RequestHeader, _frame: memoryview, reply: Reply) -> None:
        reply.send(answer(header.correlation_id, bytes(8_000_000)))

    async with served(generous) as (server, port):
        client = socket.create_connection(("127.0.0.1", port))
        client.sendall(b"".join(request(number) for number in range(20)))
        await until(lambda: server.counters.requests > 0)
        await asyncio.sleep(0.02)
        assert server.counters.requests == 1
        client.close()


async def test_whoever_waits_is_told_when_the_connection_has_ended() -> None:
    gone: list[int] = []

    def park(header: RequestHeader, _frame: memoryview, reply: Reply) -> None:
        reply.park(7, lambda: gone.append(header.correlation_id))

    async with served(park) as (server, port):
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request(1) + request(2))
        await until(lambda: server.parked_elements == 14)
        writer.close()
        await until(lambda: gone == [1, 2])
        assert server.parked_elements == 0


async def test_a_connection_that_waits_for_too_many_partitions_is_read_no_further() -> None:
    parked: list[Reply] = []

    def park(_header: RequestHeader, _frame: memoryview, reply: Reply) -> None:
        reply.park(60, lambda: None)
        parked.append(reply)

    async with served(park, ServerLimits(parked_elements=100)) as (server, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"".join(request(number) for number in range(3)))
        await until(lambda: len(parked) == 2)
        await asyncio.sleep(0.02)
        assert server.counters.requests == 2
        parked[0].send(answer(0))
        await until(lambda: len(parked) == 3)
        for number in (1, 2):
            parked[number].send(answer(number))
        assert await reader.readexactly(24) == b"".join(answer(number) for number in range(3))
        writer.close()


async def test_one_connection_with_heavy_requests_lets_the_others_have_their_turn() -> None:
    served_in_order: list[int] = []

    def heavy(header: RequestHeader, _frame: memoryview, reply: Reply) -> None:
        served_in_order.append(header.correlation_id)
        if header.correlation_id < 100:
            until_s = time.monotonic() + 0.03
            while time.monotonic() < until_s:
                pass
        reply.send(answer(header.correlation_id))

    async with served(heavy) as (_, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        other_reader, other = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"".join(request(number) for number in range(10)))
        other.write(request(100))
        assert await other_reader.readexactly(8) == answer(100)
        await reader.readexactly(80)
        assert served_in_order.index(100) < 10
        assert [number for number in served_in_order if number < 100] == list(range(10))
        writer.close()
        other.close()


async def test_a_door_that_stops_serves_nothing_that_it_has_held_back() -> None:
    parked: list[Reply] = []

    def park(_header: RequestHeader, _frame: memoryview, reply: Reply) -> None:
        parked.append(reply)

    server = KafkaServer("test", park, ServerLimits(parked_replies=1))
    port = server.listen("127.0.0.1", 0)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request(1) + request(2))
    await until(lambda: len(parked) == 1)
    server.stop_taking()
    parked[0].send(answer(1))
    await server.drain(grace_ms=1_000)
    assert await reader.read() == answer(1)
    assert server.counters.requests == 1
    writer.close()


async def test_nobody_is_accepted_for_a_while_when_descriptors_are_used_up() -> None:
    async with served(echo, ServerLimits(accept_pause_ms=50)) as (server, port):
        clients = [socket.create_connection(("127.0.0.1", port)) for _ in range(3)]
        with no_descriptor_left():
            await until(lambda: server.counters.accept_pauses > 0)
            await asyncio.sleep(0.02)
            assert server.counters.accept_pauses < 5
        for client in clients:
            client.setblocking(False)
            await asyncio.get_running_loop().sock_sendall(client, request(1))
            assert await asyncio.get_running_loop().sock_recv(client, 8) == answer(1)
            client.close()


@contextlib.contextmanager
def no_descriptor_left() -> Iterator[None]:
    """This process cannot open anything inside the block."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest_free = os.dup(0)
    os.close(lowest_free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
