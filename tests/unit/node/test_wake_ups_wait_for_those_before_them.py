"""While the connection of wake-ups stands still, what is to be woken is remembered once, as far as it is."""

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from muster.kernel.instants import Instant
from node import context
from node.context import NodeHeart
from runtime import wake
from runtime.freshness import Freshness
from runtime.side import SideLink


class StandingStill:
    """Takes one transaction, and no other until it `goes_on`."""

    def __init__(self) -> None:
        self.goes_on = asyncio.Event()
        self.taken: list[list[tuple[str, str]]] = []

    async def query(self, function: Callable[[Any], None]) -> None:
        sent: list[tuple[str, str]] = []
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(wake, "send", lambda _, name, key: sent.append((name, key)))
            function(None)
        self.taken.append(sent)
        await self.goes_on.wait()


async def test_what_comes_while_some_are_sent_is_sent_behind_them_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(context, "MOST_WAKES", 5)
    link = StandingStill()
    heart = NodeHeart("node-1", "ws://one", Freshness(lambda: Instant(0)))
    heart.wakes = cast(SideLink, link)
    heart._send_wakes([("first", "")])
    while not link.taken:
        await asyncio.sleep(0)
    for number in range(20):
        heart._send_wakes([("cluster", "7"), ("group", str(number))])
    await asyncio.sleep(0)
    assert link.taken == [[("first", "")]]
    link.goes_on.set()
    async with asyncio.timeout(10):
        while len(link.taken) < 2:
            await asyncio.sleep(0)
    assert link.taken[1] == [("cluster", "7"), *(("group", str(number)) for number in range(4))]
    heart._send_wakes([("last", "")])
    async with asyncio.timeout(10):
        while len(link.taken) < 3:
            await asyncio.sleep(0)
    assert link.taken[2] == [("last", "")]
    heart.stop()
