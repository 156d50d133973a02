"""A broker is left when it falls silent, not because its answer is long, the way narrow, or a quota spent."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from uuid import UUID

import pytest

from muster.client import broker_connection
from muster.client.broker_connection import SHORT_BYTES, BrokerConnection, BrokerUnavailable
from muster.client.broker_questions import Wanted, ask_fetch, read_fetch
from muster.kafkawire.api_table import ApiKey, build, encode_reply, part, response_class

ASKED = ask_fetch(
    [Wanted("orders", UUID(int=1), 0, 0, 0)], wait_ms=0, max_bytes=1 << 20, partition_max_bytes=1 << 20
)
RECORDS = bytes(6 * SHORT_BYTES)
PATIENCE_S = 1.0
PAUSE_S = 0.25
"""Between two pieces: all of them take longer than the patience, none of them does."""


def answer(correlation_id: int, *, records: bytes = b"", throttled_s: float = 0) -> bytes:
    """As a broker says it."""
    shape = response_class(ApiKey.FETCH, 13)
    topic = part(shape, "FetchableTopicResponse")
    one = build(
        part(topic, "PartitionData"),
        partition_index=0,
        error_code=0,
        high_watermark=0,
        aborted_transactions=None,
        records=records,
    )
    said = build(
        shape,
        error_code=0,
        throttle_time=timedelta(seconds=throttled_s),
        responses=(build(topic, topic_id=UUID(int=1), partitions=(one,)),),
    )
    return bytes(encode_reply(ApiKey.FETCH, 13, correlation_id, said))


Speak = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def connected(speak: Speak) -> AsyncIterator[BrokerConnection]:
    """To a broker that speaks so to whoever comes."""
    over = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, EOFError):
            await speak(reader, writer)
            await reader.read()
        writer.transport.abort()
        over.set()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    connection = await BrokerConnection.open(f"127.0.0.1:{port}", "sdk")
    try:
        yield connection
    finally:
        connection.close()
        await over.wait()
        server.close()
        await server.wait_closed()


async def hear(reader: asyncio.StreamReader) -> None:
    """One request."""
    await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))


async def test_an_answer_may_take_longer_than_its_beginning_as_long_as_it_comes() -> None:
    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await hear(reader)
        said = answer(1, records=RECORDS)
        for start in range(0, len(said), SHORT_BYTES):
            writer.write(said[start : start + SHORT_BYTES])
            await asyncio.sleep(PAUSE_S)

    async with connected(speak) as connection:
        [fetched] = read_fetch(await connection.ask(ASKED, PATIENCE_S))
        assert fetched.records == RECORDS


async def test_its_pieces_may_be_ever_so_small() -> None:
    """A way that lets less through than a short answer in that time: what is asked anew begins anew."""

    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await hear(reader)
        said = answer(1, records=bytes(SHORT_BYTES))
        for start in range(0, len(said), SHORT_BYTES // 8):
            writer.write(said[start : start + SHORT_BYTES // 8])
            await asyncio.sleep(PAUSE_S)

    async with connected(speak) as connection:
        [fetched] = read_fetch(await connection.ask(ASKED, PATIENCE_S))
        assert len(fetched.records) == SHORT_BYTES


async def test_a_broker_that_falls_silent_in_an_answer_is_left() -> None:
    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await hear(reader)
        writer.write(answer(1, records=RECORDS)[:-1])

    async with connected(speak) as connection:
        with pytest.raises(BrokerUnavailable, match="no answer in time"):
            await connection.ask(ASKED, 0.1)
        assert connection.closed


async def test_a_broker_that_hangs_up_in_an_answer_is_left() -> None:
    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await hear(reader)
        writer.write(answer(1, records=RECORDS)[:-1])
        writer.close()

    async with connected(speak) as connection:
        with pytest.raises(BrokerUnavailable, match="hung up"):
            await connection.ask(ASKED, PATIENCE_S)
        assert connection.closed


async def test_a_broker_that_said_that_it_will_not_listen_for_a_while_is_waited_for() -> None:
    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await hear(reader)
        writer.write(answer(1, throttled_s=10))
        await asyncio.sleep(2 * PAUSE_S)
        await hear(reader)
        writer.write(answer(2))

    async with connected(speak) as connection:
        await connection.ask(ASKED, PATIENCE_S)
        assert (await connection.ask(ASKED, PAUSE_S)).error_code == 0


async def test_a_broker_that_wants_to_hear_nothing_for_days_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_connection, "MUTED_MAX_S", 0.1)

    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await hear(reader)
        writer.write(answer(1, throttled_s=2_000_000))
        await hear(reader)

    async with connected(speak) as connection:
        await connection.ask(ASKED, PATIENCE_S)
        async with asyncio.timeout(10):
            with pytest.raises(BrokerUnavailable, match="no answer in time"):
                await connection.ask(ASKED, 0.1)
