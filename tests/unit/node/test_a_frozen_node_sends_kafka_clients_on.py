"""A node that is frozen for long hangs up on its Kafka clients, once another node serves them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from node import sending_on
from node.sending_on import AFTER_MS, SendingOn, is_ready


class Others:
    """One other node, and how often clients were hung up on."""

    def __init__(self) -> None:
        self.serves = False
        self.asked = asyncio.Event()
        self.hung_up = 0
        self.sending_on = SendingOn(lambda: ["ws://two"], self._hang_up, self._is_asked)

    def _hang_up(self) -> None:
        self.hung_up += 1

    async def _is_asked(self, address: str) -> bool:
        assert address == "ws://two"
        self.asked.set()
        return self.serves

    async def until_hung_up(self, times: int) -> None:
        async with asyncio.timeout(10):
            while self.hung_up < times:
                await asyncio.sleep(0.005)


@pytest.fixture
async def others(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Others]:
    monkeypatch.setattr(sending_on, "ASK_AGAIN_S", 0)
    made = Others()
    yield made
    made.sending_on.stop()


async def test_once_in_each_freeze(others: Others) -> None:
    others.serves = True
    for times in (1, 2):
        others.sending_on.tick(AFTER_MS - 1)
        await asyncio.sleep(0)
        assert others.hung_up == times - 1, "it may be back any moment"
        others.sending_on.tick(AFTER_MS)
        await others.until_hung_up(times)
        others.sending_on.tick(10 * AFTER_MS)
        await asyncio.sleep(0)
        assert others.hung_up == times
        others.sending_on.tick(0)


async def test_not_before_another_serves(others: Others) -> None:
    """Where all nodes have lost the database nobody could take them in."""
    others.sending_on.tick(AFTER_MS)
    for _ in range(3):
        async with asyncio.timeout(10):
            await others.asked.wait()
        others.asked.clear()
    assert others.hung_up == 0
    others.serves = True
    await others.until_hung_up(1)


@asynccontextmanager
async def node_that_says(answer: bytes) -> AsyncIterator[str]:
    """The address of a node that answers so to whoever asks whether it is ready."""

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = await reader.readuntil(b"\r\n\r\n")
        assert asked.startswith(b"GET /readyz HTTP/1.1\r\n")
        writer.write(answer)
        writer.close()

    server = await asyncio.start_server(converse, "127.0.0.1", 0)
    async with server:
        yield f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}"


@pytest.mark.parametrize(
    ("answer", "serves"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\nready\n", True),
        (b"HTTP/1.1 503 Service Unavailable\r\n\r\nfrozen\n", False),
        (b"", False),
    ],
)
async def test_a_node_serves_that_says_it_is_ready(answer: bytes, serves: bool) -> None:
    async with node_that_says(answer) as address:
        assert await is_ready(address, None) is serves


@pytest.mark.parametrize("address", ["", "ws://", "ws://127.0.0.1:1", "wss://127.0.0.1:1"])
async def test_who_is_met_by_nobody_serves_nobody(address: str) -> None:
    assert not await is_ready(address, None)
