"""A name has several addresses, and packets to the first vanish: the others are tried beside it."""

import asyncio
import contextlib
import gc
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection, serve

from muster.client import reaching
from muster.client.broker_connection import BrokerConnection
from muster.client.reaching import reach
from muster.client.transport import Transport

DEAD, ALIVE = "192.0.2.1", "127.0.0.1"
NAME = "brokers.example"


@contextmanager
def resolved(*addresses: str) -> Iterator[list[str]]:
    """The name has these in this loop, and nothing comes back from DEAD; which were tried."""
    loop, tried = asyncio.get_running_loop(), []
    ours: Any = loop
    connect: Callable[..., Awaitable[None]] = loop.sock_connect

    async def getaddrinfo(host: str, port: int, **_: Any) -> list[Any]:
        assert host == NAME
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in addresses]

    async def sock_connect(connection: socket.socket, place: tuple[str, int]) -> None:
        tried.append(place[0])
        if place[0] == DEAD:
            await asyncio.Event().wait()
        await connect(connection, place)

    ours.getaddrinfo, ours.sock_connect = getaddrinfo, sock_connect
    try:
        yield tried
    finally:
        del ours.getaddrinfo, ours.sock_connect


@pytest.fixture
def port() -> Iterator[int]:
    """Somebody takes connections there, and says nothing."""
    with socket.create_server((ALIVE, 0)) as server:
        yield server.getsockname()[1]


def test_a_broker_is_reached_past_a_dead_address(port: int) -> None:
    """It was tried alone until the time was over, each time anew."""

    async def story() -> None:
        with resolved(DEAD, ALIVE) as tried:
            connection = await BrokerConnection.open(f"{NAME}:{port}", "ann")
            connection.close()
        assert tried == [DEAD, ALIVE]

    asyncio.run(story())


def test_a_node_is_reached_past_a_dead_address() -> None:
    async def greet(connection: ServerConnection) -> None:
        await connection.wait_closed()

    async def story() -> None:
        async with serve(greet, ALIVE, 0) as server:
            port = next(iter(server.sockets)).getsockname()[1]
            with resolved(DEAD, ALIVE) as tried:
                transport = await Transport.open(f"ws://{NAME}:{port}", "token")
                transport.hang_up()
        assert tried == [DEAD, ALIVE]

    asyncio.run(story())


def test_an_address_that_answers_is_the_only_one_that_is_tried(port: int) -> None:
    async def story() -> None:
        with resolved(ALIVE, DEAD) as tried, await reach(NAME, port) as taken:
            assert taken.getpeername() == (ALIVE, port)
        assert tried == [ALIVE]

    asyncio.run(story())


def test_who_is_refused_everywhere_is_told_so_at_once() -> None:
    async def story() -> None:
        with socket.create_server((ALIVE, 0)) as gone:
            port = gone.getsockname()[1]
        with resolved(ALIVE, "127.0.0.2") as tried, pytest.raises(ConnectionRefusedError) as told:
            await reach(NAME, port)
        assert tried == [ALIVE, "127.0.0.2"] and str(told.value).count(f"{port}") == 2

    asyncio.run(story())


def test_who_gives_up_leaves_no_try_behind(port: int) -> None:
    async def story() -> None:
        with resolved(DEAD, DEAD) as tried:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await reach(NAME, port)
            while len(asyncio.all_tasks()) > 1:
                await asyncio.sleep(0)
            assert tried == [DEAD]

    asyncio.run(story())


@pytest.mark.parametrize("host", [ALIVE, "::1"])
def test_an_address_needs_no_resolver(host: str) -> None:
    async def story() -> None:
        with (
            socket.create_server(
                (host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET
            ) as server,
            resolved(),
            await reach(host, server.getsockname()[1]) as taken,
        ):
            assert taken.getpeername()[0] == host

    asyncio.run(story())


def test_who_is_cancelled_once_it_is_reached_leaves_no_connection_behind(port: int) -> None:
    """Whatever the moment: a connection that nobody closes is a warning, and those are errors."""

    async def story() -> None:
        for turns in range(12):
            reaching = asyncio.create_task(reach(ALIVE, port))
            for _ in range(turns):
                await asyncio.sleep(0)
            reaching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                (await reaching).close()

    asyncio.run(story())
    gc.collect()


def test_who_is_cancelled_as_the_tries_that_lost_end_is_cancelled(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the moment: who was told to end and went on would be waited for without end."""
    monkeypatch.setattr(reaching, "NEXT_AFTER_S", 0.001)

    async def story(turns: int) -> bool:
        with resolved(DEAD, ALIVE) as tried:
            asked = asyncio.create_task(reach(NAME, port))
            while len(tried) < 2:
                await asyncio.sleep(0)
            for _ in range(turns):
                await asyncio.sleep(0)
            was_told = asked.cancel()
            await asyncio.wait([asked])
            if not asked.cancelled():
                asked.result().close()
            return asked.cancelled() == was_told

    assert [turns for turns in range(12) if not asyncio.run(story(turns))] == []
    gc.collect()
