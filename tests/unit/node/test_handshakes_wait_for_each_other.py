"""Of many handshakes that come together a few are read in each round of the loop, and all else at once."""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from node import handshakes
from node.handshakes import PatientHttp
from tests.unit.coordinator.shards import eventually
from tests.unit.node.test_a_handshake_is_answered_to_whoever_still_waits import REQUEST, Application, served

ACCEPTED = b"HTTP/1.1 101 "


@pytest.fixture(autouse=True)
def one_a_round(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handshakes, "SLICE_S", 0.0)


class Busy(Application):
    """Notes in which round of the loop it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.rounds = 0
        self.asked_in: list[int] = []

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        self.asked_in.append(self.rounds)
        await super().__call__(scope, receive, send)

    def count(self) -> None:
        self.rounds += 1
        asyncio.get_running_loop().call_soon(self.count)


@contextmanager
def crowd(address: tuple[str, int], count: int) -> Iterator[list[socket.socket]]:
    """So many who ask at one moment."""
    with ExitStack() as stack:
        peers = [stack.enter_context(socket.create_connection(address)) for _ in range(count)]
        for peer in peers:
            peer.sendall(REQUEST)
        yield peers


async def answer_to(peer: socket.socket) -> bytes:
    peer.setblocking(False)
    async with asyncio.timeout(10):
        return await asyncio.get_running_loop().sock_recv(peer, len(ACCEPTED))


async def test_each_has_a_round_of_its_own_and_all_are_answered() -> None:
    application = Busy()
    async with served(application, PatientHttp) as server:
        with crowd(server.servers[0].sockets[0].getsockname(), 5) as peers:
            application.count()
            assert [await answer_to(peer) for peer in peers] == [ACCEPTED] * 5
            assert len(set(application.asked_in)) == 5
            assert application.asked == [peer.getsockname()[1] for peer in peers]


async def test_who_gives_up_while_it_waits_is_not_answered() -> None:
    application = Application()
    async with served(application, PatientHttp) as server:
        with crowd(server.servers[0].sockets[0].getsockname(), 5) as peers:
            for impatient in peers[1:4]:
                impatient.close()
            first, last = peers[0], peers[4]
            ports = [peer.getsockname()[1] for peer in (first, last)]
            assert [await answer_to(peer) for peer in (first, last)] == [ACCEPTED] * 2
            assert application.asked == ports


async def test_a_server_that_ends_leaves_nobody_in_the_queue(caplog: pytest.LogCaptureFixture) -> None:
    application = Application()
    async with served(application, PatientHttp) as server:
        with crowd(server.servers[0].sockets[0].getsockname(), 5) as peers:
            await eventually(lambda: len(application.asked) >= 1)
            for connection in list(server.server_state.connections):
                connection.shutdown()
            for peer in peers:
                await answer_to(peer)
        await eventually(lambda: not server.server_state.connections)
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []
