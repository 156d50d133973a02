"""Whoever keeps pages fresh ends when it is cancelled, also if it is woken in the same moment."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import pytest

from web import live
from web.live import Hub, LiveSocket, Page, Scope

Part = Callable[[Hub, LiveSocket, Page], tuple[Coroutine[Any, Any, Any], asyncio.Event]]
PARTS: dict[str, Part] = {
    "the hub": lambda hub, socket, page: (hub.run(), hub._woken),
    "who speaks": lambda hub, socket, page: (socket._speak(page), page.wake),
    "who asks whether the person may still watch": lambda hub, socket, page: (
        socket._check(page),
        page.doubt,
    ),
}
STEPS = 20
"""More turns of the loop than any of them needs to come to rest, or to its end."""


@pytest.mark.parametrize("steps_between", range(4))
@pytest.mark.parametrize("part", PARTS.values(), ids=list(PARTS))
async def test_a_cancellation_that_comes_with_a_wake_up_is_not_lost(
    part: Part, steps_between: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "LEAST_INTERVAL_MS", 0)
    hub = Hub(_nothing)
    work, event = part(hub, LiveSocket(hub, _ann, {}, _silence, _heard), Page("ann"))
    task = asyncio.ensure_future(work)
    await _steps(STEPS)
    event.set()
    await _steps(steps_between)
    task.cancel()
    await _steps(STEPS)
    ended = task.cancelled()
    task.cancel()
    await asyncio.wait([task])
    assert ended


async def _steps(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def _nothing(watched: frozenset[str]) -> Mapping[str, str]:
    return {}


async def _ann(scope: Scope) -> str | None:
    return "ann"


async def _silence() -> dict[str, Any]:
    return await asyncio.Future()


async def _heard(event: dict[str, Any]) -> None:
    pass
