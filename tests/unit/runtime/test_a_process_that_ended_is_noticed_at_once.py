"""A silent connection is held to each process that is watched, and it is said when the process ends it."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from runtime import vigils as vigils_module
from runtime.vigils import Vigils


class Listening:
    """A listener for brokers, or of a node, as far as a stranger sees it."""

    def __init__(self) -> None:
        self.server: asyncio.Server | None = None
        self.writers: list[asyncio.StreamWriter] = []
        self.ended = 0

    @property
    def address(self) -> str:
        assert self.server is not None
        return f"127.0.0.1:{self.server.sockets[0].getsockname()[1]}"

    async def come(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        await reader.read()
        self.ended += 1
        writer.close()

    def hang_up(self) -> None:
        for writer in self.writers:
            writer.close()


@asynccontextmanager
async def listening() -> AsyncIterator[Listening]:
    made = Listening()
    async with asyncio.timeout(10):
        made.server = await asyncio.start_server(made.come, "127.0.0.1", 0)
        yield made
        made.server.close()
        await _until(lambda: made.ended == len(made.writers))


async def _until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.005)


async def test_a_connection_that_breaks_is_a_process_that_is_missed() -> None:
    lost: list[int] = []
    vigils = Vigils(lost.append)
    async with listening() as broker:
        assert broker.server is not None
        vigils.keep({3: broker.address})
        await _until(lambda: len(broker.writers) == 1)
        assert lost == []
        broker.server.close()
        broker.hang_up()
        await _until(lambda: lost == [3])
        vigils.keep({})


async def test_who_is_not_to_be_watched_any_more_is_not_missed() -> None:
    lost: list[int] = []
    vigils = Vigils(lost.append)
    async with listening() as broker:
        vigils.keep({3: broker.address})
        await _until(lambda: len(broker.writers) == 1)
        vigils.keep({})
        await _until(lambda: broker.ended == 1)
    assert lost == []


async def test_who_is_met_nowhere_is_not_missed() -> None:
    lost: list[int] = []
    refused: list[int] = []
    vigils = Vigils(lost.append, refused.append)
    vigils.keep({1: "127.0.0.1:1", 2: "", 3: "no address"})
    async with asyncio.timeout(10):
        await _until(lambda: len(vigils._kept) == 1)
    vigils.keep({})
    assert (lost, refused) == ([], [])


async def test_who_hangs_up_and_listens_no_more_refuses() -> None:
    lost: list[str] = []
    refused: list[str] = []
    vigils = Vigils(lost.append, refused.append)
    async with listening() as node:
        assert node.server is not None
        vigils.keep({"aaaa": node.address})
        await _until(lambda: len(node.writers) == 1)
        node.server.close()
        node.hang_up()
        await _until(lambda: refused == ["aaaa"])
        vigils.keep({})
    assert lost == ["aaaa"]


async def test_who_hangs_up_and_listens_on_is_missed_and_met_again() -> None:
    lost: list[str] = []
    refused: list[str] = []
    vigils = Vigils(lost.append, refused.append)
    async with listening() as node:
        vigils.keep({"aaaa": node.address})
        await _until(lambda: len(node.writers) == 1)
        node.hang_up()
        # One that looks whether anybody listens, and one that stays.
        await _until(lambda: len(node.writers) >= 3)
        vigils.keep({})
    assert (lost, refused) == (["aaaa"], [])


async def test_who_closes_its_connections_before_its_listener_refuses() -> None:
    refused: list[str] = []
    vigils = Vigils(lambda key: None, refused.append)
    async with listening() as node:
        assert node.server is not None
        vigils.keep({"aaaa": node.address})
        await _until(lambda: len(node.writers) == 1)
        node.hang_up()
        await _until(lambda: len(node.writers) == 2)
        node.server.close()
        await _until(lambda: refused == ["aaaa"])
        vigils.keep({})


async def test_a_connection_that_could_not_be_renewed_proves_nothing_when_it_ends_old(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its listener may have become tired of a stranger that says nothing."""
    connect, tries = vigils_module._connect, 0

    async def once(place: tuple[str, int]) -> object:
        nonlocal tries
        tries += 1
        return await connect(place) if tries == 1 else None

    monkeypatch.setattr(vigils_module, "RENEW_S", 0.01)
    monkeypatch.setattr(vigils_module, "YOUNG_S", 0.0)
    monkeypatch.setattr(vigils_module, "_connect", once)
    lost: list[str] = []
    refused: list[str] = []
    vigils = Vigils(lost.append, refused.append)
    async with listening() as node:
        assert node.server is not None
        vigils.keep({"aaaa": node.address})
        await _until(lambda: len(node.writers) == 1 and tries >= 2)
        node.server.close()
        node.hang_up()
        await _until(lambda: lost == ["aaaa"])
        looked = tries
        await _until(lambda: tries > looked)
        vigils.keep({})
    assert refused == []


async def test_who_resets_a_connection_at_once_was_met_where_it_was_asked_for() -> None:
    loop = asyncio.get_running_loop()
    mistakes: list[object] = []
    loop.set_exception_handler(lambda _, context: mistakes.append(context))
    with socket.create_server(("127.0.0.1", 0)) as door:
        place = door.getsockname()
        with socket.create_connection(place) as asked:
            there, _ = door.accept()
            there.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            there.close()
            asked.setblocking(False)
            _, held = await loop.create_connection(lambda: vigils_module._Held(place), sock=asked)
            assert await held.ends_within(10)
    assert (held.met, mistakes) == (place, [])
