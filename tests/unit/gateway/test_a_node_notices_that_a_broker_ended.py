"""A node holds a silent connection to each live broker, and says so when one ends at the broker's end."""

import asyncio
from collections.abc import Callable

from gateway.vigils import Vigils


class Listening:
    """A broker's listener for brokers, as far as a stranger sees it."""

    def __init__(self) -> None:
        self.writers: list[asyncio.StreamWriter] = []
        self.ended = 0

    async def come(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        await reader.read()
        self.ended += 1
        writer.close()


async def _until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.005)


async def test_a_connection_that_breaks_is_a_broker_that_is_missed() -> None:
    lost: list[int] = []
    vigils, listening = Vigils(lost.append), Listening()
    async with asyncio.timeout(10):
        server = await asyncio.start_server(listening.come, "127.0.0.1", 0)
        vigils.keep({3: f"127.0.0.1:{server.sockets[0].getsockname()[1]}"})
        await _until(lambda: len(listening.writers) == 1)
        assert lost == []
        server.close()
        listening.writers[0].close()
        await _until(lambda: lost == [3])
        vigils.keep({})


async def test_who_is_not_to_be_watched_any_more_is_not_missed() -> None:
    lost: list[int] = []
    vigils, listening = Vigils(lost.append), Listening()
    async with asyncio.timeout(10):
        server = await asyncio.start_server(listening.come, "127.0.0.1", 0)
        vigils.keep({3: f"127.0.0.1:{server.sockets[0].getsockname()[1]}"})
        await _until(lambda: len(listening.writers) == 1)
        vigils.keep({})
        await _until(lambda: listening.ended == 1)
        server.close()
    assert lost == []


async def test_a_broker_that_is_met_nowhere_is_not_missed() -> None:
    lost: list[int] = []
    vigils = Vigils(lost.append)
    vigils.keep({1: "127.0.0.1:1", 2: "", 3: "no address"})
    async with asyncio.timeout(10):
        await _until(lambda: len(vigils._kept) == 1)
    vigils.keep({})
    assert lost == []
