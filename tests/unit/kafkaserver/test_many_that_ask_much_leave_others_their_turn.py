"""However many connections have much to be served at once, the loop goes round, and others speak."""

import asyncio
import contextlib
import socket
from collections import Counter

import pytest

from kafkaserver import turns
from kafkaserver.callers import KafkaCaller
from kafkaserver.limits import ServerLimits
from kafkaserver.replies import Reply
from kafkaserver.server import KafkaServer
from kafkaserver.sockets import Connection
from kafkaserver.turns import Turns
from muster.kafkawire.api_table import RequestHeader
from muster.kernel.scopes import EVERYTHING
from tests.unit.kafkaserver.served import answer, request, served, until

MANY = 30


class Rounds:
    """Counts the rounds of the loop, as somebody does who wants to speak in each."""

    def __init__(self) -> None:
        self.number = 0
        self._loop = asyncio.get_running_loop()
        self._go_round()

    def _go_round(self) -> None:
        self.number += 1
        self._next = self._loop.call_soon(self._go_round)

    def stop(self) -> None:
        self._next.cancel()


def of_no_time(server: KafkaServer) -> None:
    """Whoever is served uses the round up."""
    look = Connection.stop_reading, Connection.look_again
    server.turns = Turns(server.loop, Connection.take_turn, lambda one: one.whose, 0.0, look)


def of_one(_one: str) -> str:
    return "ann"


@pytest.mark.parametrize("body", [b"", b"x" * 5_000], ids=["short", "long"])
async def test_each_waits_for_its_round_and_none_is_forgotten(body: bytes) -> None:
    served_in: list[int] = []

    def handle(header: RequestHeader, _frame: memoryview, reply: Reply) -> None:
        served_in.append(rounds.number)
        reply.send(answer(header.correlation_id))

    async with served(handle) as (server, port):
        clients = [socket.create_connection(("127.0.0.1", port)) for _ in range(MANY)]
        await until(lambda: server.connection_count == MANY)
        of_no_time(server)
        rounds = Rounds()
        for number, client in enumerate(clients):
            client.sendall(request(number, body))
        await until(lambda: len(served_in) == MANY)
        rounds.stop()
        for number, client in enumerate(clients):
            assert client.recv(8) == answer(number)
            client.close()
    assert max(served_in.count(one) for one in served_in) <= 2


@pytest.mark.parametrize("body", [b"", b"x" * 5_000], ids=["short", "long"])
async def test_the_loop_is_not_told_of_those_who_wait_behind_many(
    monkeypatch: pytest.MonkeyPatch, body: bytes
) -> None:
    """Of more than a thousand that could be read libuv told 48 times before the loop went round."""
    monkeypatch.setattr(turns, "LOOKED_AT_MAX", 3)
    told: Counter[Connection] = Counter()
    served_of: Counter[int] = Counter()
    has = Turns.has

    def noted(these: Turns[Connection], one: Connection) -> bool:
        told[one] += 1
        return has(these, one)

    def handle(header: RequestHeader, _frame: memoryview, reply: Reply) -> None:
        served_of[header.correlation_id] += 1
        reply.send(answer(header.correlation_id))

    async with served(handle) as (server, port):
        clients = [socket.create_connection(("127.0.0.1", port)) for _ in range(MANY)]
        await until(lambda: server.connection_count == MANY)
        of_no_time(server)
        monkeypatch.setattr(Turns, "has", noted)
        for number, client in enumerate(clients):
            client.sendall(request(number, body))
        await until(lambda: served_of.total() == MANY)
        assert sorted(told.values())[-5] <= 3, "once when it came, and once or twice when it was served"
        for number, client in enumerate(clients):
            assert client.recv(8) == answer(number)
            client.sendall(request(number))
        await until(lambda: served_of.total() == 2 * MANY)
        for client in clients:
            client.close()
        await until(lambda: server.connection_count == 0)


async def test_whoever_takes_its_answers_slowly_waits_for_its_round_too() -> None:
    """Sixty who did held a node's loop for a second: all could be written to, and read on, in one round."""
    served_in: Counter[int] = Counter()
    few = ServerLimits(outbox_bytes=1, send_buffer_bytes=4096)
    large = answer(0, b"x" * 10_000_000)

    def handle(header: RequestHeader, _frame: memoryview, reply: Reply) -> None:
        served_in[rounds.number] += 1
        reply.send(answer(1) if header.correlation_id else large)

    async with served(handle, few) as (server, port):
        clients = [socket.create_connection(("127.0.0.1", port)) for _ in range(MANY)]
        await until(lambda: server.connection_count == MANY)
        rounds = Rounds()
        for client in clients:
            client.sendall(request(0) + request(1))
        await until(lambda: served_in.total() == MANY)
        of_no_time(server)
        served_in.clear()
        # All of them take some, and in the next round all can be written to.
        while served_in.total() < MANY:
            for client in clients:
                take_what_is_there(client)
            await asyncio.sleep(0)
        rounds.stop()
        for client in clients:
            client.close()
    assert served_in.total() == MANY
    assert max(served_in.values()) <= 2


def take_what_is_there(client: socket.socket) -> None:
    with contextlib.suppress(BlockingIOError):
        while client.recv(1 << 20, socket.MSG_DONTWAIT):
            pass


async def test_one_with_many_connections_is_served_no_more_than_another() -> None:
    served_now: list[str] = []
    turns: Turns[str] = Turns(asyncio.get_running_loop(), served_now.append, lambda one: one[0], 0.0)
    assert turns.has("first")
    assert not any(turns.has(one) for one in ("a1", "a2", "a3", "b1", "c1"))
    for _ in range(5):
        await asyncio.sleep(0)
    assert served_now == ["a1", "b1", "c1", "a2", "a3"]


async def test_who_has_proved_who_it_is_shares_its_turns_with_its_principal() -> None:
    async with served(lambda *_: None) as (server, port):
        with socket.create_connection(("127.0.0.1", port)):
            await until(lambda: server.connection_count == 1)
            [connection] = server._connections
            assert connection.whose == "127.0.0.1"
            connection.identity = KafkaCaller("token", "ann", "", frozenset(), EVERYTHING, EVERYTHING)
            server.admitted(connection)
            assert connection.whose == "ann"


async def test_whoever_waits_longest_comes_first() -> None:
    served_now: list[str] = []
    turns: Turns[str] = Turns(asyncio.get_running_loop(), served_now.append, of_one, round_s=0.0)
    assert turns.has("first")
    assert not any(turns.has(one) for one in ("ann", "ben", "cleo", "ben"))
    await asyncio.sleep(0)
    assert (served_now, turns.has("dan"), turns.has("cleo")) == (["ann"], False, False)
    for _ in range(4):
        await asyncio.sleep(0)
    assert served_now == ["ann", "ben", "cleo", "dan"]


async def test_within_their_time_all_are_served_and_at_once() -> None:
    turns: Turns[str] = Turns(asyncio.get_running_loop(), never, of_one, round_s=3600.0)
    assert all(turns.has(one) for one in ("ann", "ben", "cleo"))
    await asyncio.sleep(0)
    assert turns.has("dan") and turns.has("ann")


async def test_no_round_of_the_loop_holds_more_than_two_halves_of_its_time() -> None:
    clock = Clock()
    served_now: list[str] = []
    turns: Turns[str] = Turns(clock, served_now.append, of_one, round_s=2.0)  # type: ignore[arg-type]
    assert turns.has("ann")
    await asyncio.sleep(0)
    clock.now = 0.9
    assert turns.has("ben"), "what is left of the time that the round before began"
    clock.now = 1.8
    assert turns.has("cleo"), "the loop has gone round since"
    clock.now = 2.9
    assert not turns.has("dan"), "and now it has to"
    assert not turns.has("eve"), "nobody gets ahead of those who wait"
    await asyncio.sleep(0)
    assert served_now == ["dan", "eve"]
    clock.now += 2.1
    assert not turns.has("fred"), "those who waited had the time of this round"
    for _ in range(3):
        await asyncio.sleep(0)
    clock.now += 2.1
    assert turns.has("gus"), "who comes when nobody waits is not kept waiting"


async def test_what_those_who_waited_leave_of_their_time_is_half_of_a_round_at_most() -> None:
    clock = Clock()
    served_now: list[str] = []
    turns: Turns[str] = Turns(clock, served_now.append, of_one, round_s=2.0)  # type: ignore[arg-type]
    turns.wait("ann")
    await asyncio.sleep(0)
    assert (served_now, turns.has("ben")) == (["ann"], True), "who waited needed no time"
    await asyncio.sleep(0)
    clock.now = 0.9
    assert turns.has("cleo"), "the round after it: what is left"
    clock.now = 1.1
    assert turns.has("dan"), "and a time of its own"
    clock.now = 2.2
    assert not turns.has("eve"), "which together are one round's"


class Clock:
    """The loop, by a clock of its own."""

    def __init__(self) -> None:
        self.now = 0.0
        self.call_soon = asyncio.get_running_loop().call_soon

    def time(self) -> float:
        return self.now


def never(one: str) -> None:
    raise AssertionError(f"{one} waited")


async def test_whoever_cannot_be_served_keeps_nobody_waiting() -> None:
    served_now: list[str] = []
    loop, mistakes = asyncio.get_running_loop(), []
    loop.set_exception_handler(lambda _, context: mistakes.append(context["exception"]))

    def serve(one: str) -> None:
        if one == "ann":
            raise ValueError("our own mistake")
        served_now.append(one)

    turns: Turns[str] = Turns(loop, serve, of_one, round_s=0.0)
    assert turns.has("first")
    assert not any(turns.has(one) for one in ("ann", "ben"))
    for _ in range(2):
        await asyncio.sleep(0)
    assert (len(mistakes), served_now, turns.has("cleo")) == (1, ["ben"], False)
