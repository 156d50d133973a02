"""However many pages of a person connect at one moment, no more are let in than may be open."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from web import live
from web.live import TOO_MANY, Hub, LiveSocket, Scope


class Peer:
    """A page whose handshake is under way until a test lets it end; then it is silent until it leaves."""

    def __init__(self, let_in: asyncio.Event) -> None:
        self.heard: list[dict[str, Any]] = []
        self._let_in = let_in
        self._events: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.says("connect")

    def says(self, what: str) -> None:
        self._events.put_nowait({"type": f"websocket.{what}"})

    async def send(self, event: dict[str, Any]) -> None:
        self.heard.append(event)
        if event["type"] == "websocket.accept":
            await self._let_in.wait()

    async def serve(self, hub: Hub) -> None:
        await LiveSocket(hub, _ann, {}, self._events.get, self.send).run()


async def test_handshakes_that_are_under_way_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "MOST_SOCKETS_OF_A_PERSON", 2)
    hub, let_in = Hub(_nothing), asyncio.Event()
    peers = [Peer(let_in) for _ in range(5)]
    async with asyncio.timeout(10), asyncio.TaskGroup() as served:
        for peer in peers:
            served.create_task(peer.serve(hub))
        while not all(peer.heard for peer in peers):
            await asyncio.sleep(0)
        let_in.set()
        for peer in peers:
            peer.says("disconnect")
    said = [peer.heard[0] for peer in peers]
    refused = {"type": "websocket.close", "code": TOO_MANY}
    assert said == [{"type": "websocket.accept"}] * 2 + [refused] * 3
    assert not hub.pages


async def test_a_page_that_is_gone_before_it_was_let_in_is_forgotten() -> None:
    hub, let_in = Hub(_nothing), asyncio.Event()
    peer = Peer(let_in)
    serving = asyncio.create_task(peer.serve(hub))
    async with asyncio.timeout(10):
        while not peer.heard:
            await asyncio.sleep(0)
    serving.cancel()
    await asyncio.wait([serving])
    assert not hub.pages


async def _nothing(watched: frozenset[str]) -> Mapping[str, str]:
    return {}


async def _ann(scope: Scope) -> str | None:
    return "ann"
