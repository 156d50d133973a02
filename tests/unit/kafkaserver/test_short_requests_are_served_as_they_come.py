"""A door that keeps something for its clients serves what comes whole at once, and misses nothing else."""

import asyncio
import socket
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkaserver.limits import ServerLimits
from kafkaserver.replies import Reply
from kafkaserver.server import KafkaServer
from kafkaserver.short_requests import RECEIVED_BYTES, ShortRequests
from muster.kafkawire.api_table import RequestHeader
from tests.unit.kafkaserver.interrupted import interrupted
from tests.unit.kafkaserver.served import LIMITS, answer, request, served, until

AGAIN = b"the same again"


class Again:
    """Answers one request, whatever its number, with its own bytes, unless `trouble` is in the way."""

    def __init__(self) -> None:
        self.request_bytes = len(request(0, AGAIN))
        self.judged = 0
        self.trouble = False

    def answer(self, frame: memoryview) -> bytes | None:
        return self.answers(len(frame).to_bytes(4, "big") + bytes(frame))

    def answers(self, received: bytes) -> bytes | None:
        size, same = self.request_bytes, request(0, AGAIN)
        said = [received[place : place + size] for place in range(0, len(received), size)]
        if not said or any(one[:8] + bytes(4) + one[12:] != same for one in said):
            return None
        if self.trouble:
            raise ValueError("a mistake")
        self.judged += 1
        return b"".join(answer(int.from_bytes(one[8:12], "big"), AGAIN) for one in said)


class Keeps:
    """What the door keeps for one connection."""

    def __init__(self, known: Again | None = None) -> None:
        self.known = known

    def repeated(self, received: bytes) -> None:
        """Everything but what is known is read."""

    def admitted(self, identity: object) -> None:
        """Nobody asks."""

    def ended(self) -> None:
        """Nothing is left."""


def echo(header: RequestHeader, frame: memoryview, reply: Reply) -> None:
    reply.send(answer(header.correlation_id, bytes(frame[header.body_start :])))


async def hears(reader: asyncio.StreamReader, wanted: bytes) -> None:
    async with asyncio.timeout(10):
        assert await reader.readexactly(len(wanted)) == wanted


SIZES = st.one_of(st.integers(0, 200), st.integers(RECEIVED_BYTES - 40, 2 * RECEIVED_BYTES), st.just(60_000))


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.one_of(st.none(), SIZES), min_size=1, max_size=12),
    st.lists(st.one_of(st.integers(1, 400), st.just(RECEIVED_BYTES), st.just(70_000)), min_size=1),
)
def test_frames_are_found_however_the_stream_is_cut(said: list[int | None], cuts: list[int]) -> None:
    """None is the request that is known."""
    bodies = [AGAIN if size is None else bytes([number]) * size for number, size in enumerate(said)]

    async def story() -> None:
        stream = b"".join(request(number, body) for number, body in enumerate(bodies))
        async with served(echo, session=lambda _: Keeps(Again())) as (server, port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            position = 0
            for cut in [*cuts, len(stream)]:
                writer.write(stream[position : position + cut])
                await writer.drain()
                # So that a part is received by itself.
                await asyncio.sleep(0)
                position += cut
            await hears(reader, b"".join(answer(number, body) for number, body in enumerate(bodies)))
            assert server.counters.requests == len(bodies)
            writer.close()
            await writer.wait_closed()

    asyncio.run(story())


async def test_what_is_known_and_comes_together_is_judged_once_and_each_is_answered() -> None:
    known = Again()
    async with served(echo, session=lambda _: Keeps(known)) as (server, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"".join(request(number, AGAIN) for number in range(5)))
        await hears(reader, b"".join(answer(number, AGAIN) for number in range(5)))
        assert (known.judged, server.counters.requests) == (1, 5)
        writer.close()
        await writer.wait_closed()


async def test_what_is_known_is_answered_behind_what_waits() -> None:
    parked: list[Reply] = []

    def park(_header: RequestHeader, _frame: memoryview, reply: Reply) -> None:
        parked.append(reply)

    async with served(park, session=lambda _: Keeps(Again())) as (_, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request(1, b"wait"))
        await until(lambda: len(parked) == 1)
        writer.write(request(2, AGAIN))
        # It is read as any other, so that its place is behind the first.
        await until(lambda: len(parked) == 2)
        parked[1].send(answer(2))
        parked[0].send(answer(1))
        await hears(reader, answer(1) + answer(2))
        writer.close()
        await writer.wait_closed()


async def test_who_takes_no_answers_is_read_no_further_and_loses_none() -> None:
    async with served(echo, ServerLimits(outbox_bytes=1_000), lambda _: Keeps(Again())) as (server, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1)
        taken: socket.socket = writer.get_extra_info("socket")
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        many = 40_000
        asking = asyncio.ensure_future(_ask(writer, many))
        [connection] = server._connections
        assert isinstance(connection, ShortRequests)
        await until(lambda: connection._paused or asking.done(), within_s=20)
        await hears(reader, b"".join(answer(number, AGAIN) for number in range(many)))
        await asking
        assert server.counters.requests == many
        writer.close()
        await writer.wait_closed()


async def _ask(writer: asyncio.StreamWriter, many: int) -> None:
    for number in range(many):
        writer.write(request(number, AGAIN))
        if number % 100 == 0:
            await writer.drain()


async def test_a_mistake_in_judging_costs_one_connection_and_is_counted() -> None:
    known = Again()
    known.trouble = True
    async with served(echo, session=lambda _: Keeps(known)) as (server, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request(1, AGAIN))
        assert await reader.read() == b""
        assert (server.counters.failed, server.connection_count) == (1, 0)
        writer.close()


@pytest.mark.parametrize(
    "spoilt",
    [struct.pack(">i", length) + bytes(12) for length in (-1, 3, LIMITS.request_bytes + 1)]
    + [request(1, key=999)],
    ids=["negative", "no header", "too long", "unknown key"],
)
async def test_a_spoilt_frame_ends_its_connection(spoilt: bytes) -> None:
    async with served(echo, session=lambda _: Keeps()) as (server, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(spoilt)
        assert await reader.read() == b""
        assert server.counters.malformed + server.counters.oversize == 1
        writer.close()


async def test_who_is_to_wait_is_read_no_further_until_then() -> None:
    def throttle(header: RequestHeader, frame: memoryview, reply: Reply) -> None:
        reply.throttle(50)
        echo(header, frame, reply)

    async with served(throttle, session=lambda _: Keeps()) as (server, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request(1))
        await hears(reader, answer(1))
        assert server.mute_count == 1
        writer.write(request(2))
        await hears(reader, answer(2))
        assert server.counters.requests == 2
        writer.close()
        await writer.wait_closed()


def test_who_is_to_wait_once_more_in_the_moment_in_which_a_wait_ends_is_answered() -> None:
    waiting: list[tuple[RequestHeader, memoryview, Reply]] = []

    def throttle_both(header: RequestHeader, frame: memoryview, reply: Reply) -> None:
        waiting.append((header, memoryview(bytes(frame)), reply))
        if len(waiting) == 2:
            for one in waiting:
                one[2].throttle(20)
                echo(*one)

    async def ask_twice() -> None:
        async with served(throttle_both) as (server, port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(request(1) + request(2))
            assert await reader.readexactly(len(answer(1)) * 2) == answer(1) + answer(2)
            assert server.counters.failed == 0
            writer.close()
            await writer.wait_closed()

    interrupted(ask_twice())


@pytest.mark.parametrize("is_for_short_requests", [True, False])
async def test_only_a_door_that_says_so_receives_little_at_first(is_for_short_requests: bool) -> None:
    """Where batches of records come, as at a broker, the first receive takes all that is there."""
    door = KafkaServer("test", echo, session=lambda _: Keeps(), is_for_short_requests=is_for_short_requests)
    port = door.listen("127.0.0.1", 0)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request(1))
    await hears(reader, answer(1))
    [connection] = door._connections
    assert isinstance(connection, ShortRequests) is is_for_short_requests
    writer.close()
    await writer.wait_closed()
    await door.drain(grace_ms=0)
