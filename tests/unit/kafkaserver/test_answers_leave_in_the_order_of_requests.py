"""Replies leave in the order of their requests, however late and in whatever order they are resolved."""

import asyncio
from collections.abc import Callable

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafkaserver.limits import ServerLimits
from kafkaserver.replies import Reply
from muster.kafkawire.api_table import RequestHeader
from tests.unit.kafkaserver.served import answer, request, served, until


def _echo(header: RequestHeader, frame: memoryview, reply: Reply) -> None:
    reply.send(answer(header.correlation_id, bytes(frame[header.body_start :])))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.permutations(range(6)))
def test_late_answers_wait_for_earlier_ones(order: list[int]) -> None:
    async def story() -> None:
        parked: dict[int, Reply] = {}

        def park(header: RequestHeader, _frame: memoryview, reply: Reply) -> None:
            parked[header.correlation_id] = reply

        async with served(park) as (_, port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"".join(request(number) for number in range(6)))
            await until(lambda: len(parked) == 6)
            for number in order:
                parked[number].send(answer(number, b"%d" % number))
            wanted = b"".join(answer(number, b"%d" % number) for number in range(6))
            assert await reader.readexactly(len(wanted)) == wanted
            writer.close()
            await writer.wait_closed()

    asyncio.run(story())


async def test_a_request_that_has_no_answer_holds_nobody_up() -> None:
    """acks=0: the next answer is that of the next request."""

    def silent_first(header: RequestHeader, _frame: memoryview, reply: Reply) -> None:
        if header.correlation_id == 0:
            reply.send()
        else:
            reply.send(answer(header.correlation_id))

    async with served(silent_first) as (_, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request(0) + request(1))
        assert await reader.readexactly(8) == answer(1)
        writer.close()
        await writer.wait_closed()


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, 60_000), min_size=1, max_size=6), st.lists(st.integers(1, 70_000), min_size=1))
def test_frames_are_found_however_the_stream_is_cut(sizes: list[int], cuts: list[int]) -> None:
    async def story() -> None:
        stream = b"".join(request(n, bytes([n]) * size) for n, size in enumerate(sizes))
        wanted = b"".join(answer(n, bytes([n]) * size) for n, size in enumerate(sizes))
        async with served(_echo) as (_, port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            position = 0
            for cut in [*cuts, len(stream)]:
                writer.write(stream[position : position + cut])
                await writer.drain()
                position += cut
            assert await reader.readexactly(len(wanted)) == wanted
            writer.close()
            await writer.wait_closed()

    asyncio.run(story())


async def test_a_client_that_parks_too_much_is_read_no_further_until_answers_leave() -> None:
    parked: list[tuple[int, Reply]] = []

    def park(header: RequestHeader, _frame: memoryview, reply: Reply) -> None:
        parked.append((header.correlation_id, reply))

    async with served(park, ServerLimits(parked_replies=3)) as (server, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"".join(request(number) for number in range(7)))
        await until(lambda: len(parked) == 3)
        await asyncio.sleep(0.02)
        assert server.counters.requests == 3
        answered = 0
        while answered < 7:
            await until(lambda: len(parked) > answered)  # noqa: B023
            number, reply = parked[answered]
            reply.send(answer(number))
            answered += 1
        wanted = b"".join(answer(number) for number in range(7))
        assert await reader.readexactly(len(wanted)) == wanted
        writer.close()
        await writer.wait_closed()


async def test_answers_that_fill_the_outbox_and_leave_at_once_do_not_stop_the_reading() -> None:
    async with served(_echo, ServerLimits(outbox_bytes=100)) as (_, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"".join(request(number, b"x" * 200) for number in range(50)))
        wanted = b"".join(answer(number, b"x" * 200) for number in range(50))
        async with asyncio.timeout(10):
            assert await reader.readexactly(len(wanted)) == wanted
        writer.close()
        await writer.wait_closed()


async def test_a_reply_for_a_client_that_left_is_dropped() -> None:
    parked: list[Reply] = []
    park: Callable[[RequestHeader, memoryview, Reply], None] = lambda _h, _f, reply: parked.append(reply)  # noqa: E731
    async with served(park) as (server, port):
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request(1))
        await until(lambda: len(parked) == 1)
        writer.close()
        await writer.wait_closed()
        await until(lambda: server.connection_count == 0)
        assert not parked[0].is_wanted
        parked[0].send(answer(1))
