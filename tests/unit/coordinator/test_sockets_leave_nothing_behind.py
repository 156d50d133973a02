"""However a socket ends, its place at the door is free again, also when the peer reads nothing."""

import asyncio
import gc
from typing import Any

import pytest

from access.grants import Role
from access.tokens import Caller
from coordinator import connections
from coordinator.door import ConsumerDoor
from coordinator.service import build
from coordinator.sockets import ConsumerSocket
from groups.models import GroupMember
from muster.kernel.instants import Instant
from runtime.ports import NodeContext

BOUND_S = 10.0
SCOPE: dict[str, Any] = {"headers": [(b"authorization", b"Bearer ann")], "client": ("127.0.0.1", 1)}


class Node:
    """As much of a node as the door asks while nobody is registered."""

    node, address, frozen, tokens_known = "node-1", "ws://one", False, True

    def now(self) -> Instant:
        return Instant(0)

    kafka_callers = None
    kafka_callers_at = Instant(0)

    def verify_token(self, presented: str) -> Caller:
        return Caller(presented, Role.CONSUMER, presented)


class Peer:
    """The other end: connects, then is silent; `reads` is false for one that lets nothing through."""

    def __init__(self, *, reads: bool = True, vanishes: bool = False) -> None:
        self.reads = reads
        self.vanishes = vanishes
        self.heard: list[dict[str, Any]] = []
        self._events: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._events.put_nowait({"type": "websocket.connect"})

    def goes(self) -> None:
        self._events.put_nowait({"type": "websocket.disconnect"})

    async def receive(self) -> dict[str, Any]:
        return await self._events.get()

    async def send(self, message: dict[str, Any]) -> None:
        if self.vanishes:
            raise ConnectionResetError("the peer is gone")
        if message["type"] != "websocket.accept" and not self.reads:
            await asyncio.Event().wait()
        self.heard.append(message)


def new_door() -> ConsumerDoor:
    node: NodeContext = Node()  # type: ignore[assignment]
    return ConsumerDoor(node, build(node))


async def test_a_peer_that_vanishes_during_the_handshake_keeps_no_place() -> None:
    door, peer = new_door(), Peer(vanishes=True)
    with pytest.raises(ConnectionResetError):
        await ConsumerSocket(door)(SCOPE, peer.receive, peer.send)
    assert len(door._connections) == 0


async def test_a_peer_that_reads_nothing_is_let_go_after_the_decision_to_hang_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connections, "CLOSE_WITHIN_S", 0.05)
    door, peer = new_door(), Peer(reads=False)
    serving = asyncio.create_task(ConsumerSocket(door)(SCOPE, peer.receive, peer.send))
    async with asyncio.timeout(BOUND_S):
        while not (opened := door._connections.all()):
            await asyncio.sleep(0.005)
        await asyncio.sleep(0.005)
        opened[0].close(1000, "enough")
        await serving
    assert len(door._connections) == 0


async def test_a_farewell_leaves_before_the_socket_ends() -> None:
    door, peer = new_door(), Peer()
    serving = asyncio.create_task(ConsumerSocket(door)(SCOPE, peer.receive, peer.send))
    async with asyncio.timeout(BOUND_S):
        while not (opened := door._connections.all()):
            await asyncio.sleep(0.005)
        opened[0].say_text("{}")
        opened[0].close(1000, "enough")
        await serving
    assert [one["type"] for one in peer.heard] == ["websocket.accept", "websocket.send", "websocket.close"]


async def test_a_proxy_that_names_its_client_at_length_fails_no_row() -> None:
    door, peer = new_door(), Peer()
    connection = door.admit(dict(SCOPE["headers"]), "x" * 1_000, peer.send)
    assert isinstance(connection, connections.MemberConnection)
    assert len(connection.peer) == GroupMember._meta.get_field("client_host").max_length


async def test_what_waits_for_a_peer_is_counted_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "OUTBOX_BYTES_MAX", 100 + 2 * connections.TEXT_COSTS_BYTES)
    connection = new_door().admit(dict(SCOPE["headers"]), "127.0.0.1", Peer(reads=False).send)
    assert isinstance(connection, connections.MemberConnection)
    connection.say_text("€" * 33)
    assert not connection.closing
    connection.say_text("€")
    assert connection.closing


async def test_who_lets_most_lie_is_cut_off_when_all_outboxes_hold_too_much(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Thousands that stay below their own limits fill the memory together."""
    monkeypatch.setattr(connections, "OUTBOXES_BYTES_MAX", 10_000)
    door = new_door()

    def admitted() -> connections.MemberConnection:
        connection = door.admit(dict(SCOPE["headers"]), "127.0.0.1", Peer(reads=False).send)
        assert isinstance(connection, connections.MemberConnection)
        return connection

    ann, ben, cleo = (admitted() for _ in range(3))
    ben.say_text("x" * 6_000)
    for _ in range(3):
        ann.say_text("x" * 900)
    assert [one.closing for one in (ann, ben, cleo)] == [False, False, False]
    ann.say_text("x" * 900)
    assert [one.closing for one in (ann, ben, cleo)] == [False, True, False], "who lets most lie"
    door.closed(ben)
    door.closed(ann)
    cleo.say_text("x" * 9_000)
    assert not cleo.closing, "what lay in outboxes that are gone counts no more"


async def test_what_a_server_has_taken_and_cannot_send_lies_there_as_well(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connections, "OUTBOXES_BYTES_MAX", 10_000)
    monkeypatch.setattr(connections, "CLOSE_WITHIN_S", 0.05)
    door, ended = new_door(), asyncio.Event()
    ann, ben = (door.admit(dict(SCOPE["headers"]), "127.0.0.1", Peer(reads=False).send) for _ in range(2))
    assert isinstance(ann, connections.MemberConnection) and isinstance(ben, connections.MemberConnection)
    ben.begin(ended.set)
    ben.say_text("x" * 6_000)
    while ben._outbox:
        await asyncio.sleep(0)
    ann.say_text("x" * 4_000)
    assert (ann.closing, ben.closing) == (False, True)
    async with asyncio.timeout(BOUND_S):
        await ended.wait()
    door.closed(ben)
    ann.say_text("x" * 4_000)
    assert not ann.closing, "what was under way to who is gone counts no more"


@pytest.mark.parametrize("reads", [True, False])
async def test_no_timer_holds_on_to_a_connection_that_is_gone(reads: bool) -> None:
    """What a peer did not read may be megabytes; hung up on, it cost them for five seconds more."""
    door, peer = new_door(), Peer(reads=reads)
    serving = asyncio.create_task(ConsumerSocket(door)(SCOPE, peer.receive, peer.send))
    async with asyncio.timeout(BOUND_S):
        while not (opened := door._connections.all()):
            await asyncio.sleep(0.005)
        [connection] = opened
        connection.say_text("{}")
        await asyncio.sleep(0.005)
        connection.close(1000, "enough")
        if not reads:
            peer.goes()
        await serving
    # By where it lies: simulations in this process call theirs by the same ids.
    gone = id(connection)
    del connection, opened, serving
    gc.collect()
    held = [one for one in gc.get_objects() if type(one) is connections.MemberConnection]
    assert gone not in [id(one) for one in held]
