"""A request that is cut off while it waits takes no desk away from those that come after it."""

import asyncio
from typing import Any

import pytest

from web.desks import Desk, Desks

SCOPE = {"type": "http", "method": "GET", "path": "/", "headers": []}


def test_a_desk_that_nobody_takes_any_more_is_free_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who waited is cut off at each step of the hand-over, also when the desk was just given to it."""

    async def at_once(desk: Desk) -> None:
        """Nothing to clear away: so the steps of a hand-over are the same each time."""

    monkeypatch.setattr(Desk, "rest", at_once)

    async def story() -> None:
        async def handle(scope: Any, receive: Any, send_answer: Any) -> None:
            if scope["path"] == "/slow":
                await may_end.wait()
            await send_answer({"type": "http.response.start", "status": 200, "headers": []})

        desks, may_end = Desks(handle, number=1, wait_ms=10_000), asyncio.Event()
        for steps in range(20):
            may_end.clear()
            slow = asyncio.create_task(desks.answer({**SCOPE, "path": "/slow"}, b""))
            waiting = asyncio.create_task(desks.answer(SCOPE, b""))
            for _ in range(5):
                await asyncio.sleep(0)
            may_end.set()
            for _ in range(steps):
                await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.gather(slow, waiting, return_exceptions=True)
            assert (await desks.answer(SCOPE, b""))[0]["status"] == 200, steps
        await desks.close()

    asyncio.run(story())
