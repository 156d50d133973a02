"""A broker takes nobody before it was told who may come in: whoever is refused gives up (CVE-2024-27309)."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.listener import ClientListener
from kafkaserver.guard import Guard
from tests.unit.broker_data_plane.planes import broker
from tests.unit.kafkaserver.test_callers_may_what_their_tokens_say import row


async def is_open(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except ConnectionRefusedError:
        return False
    writer.close()
    return True


@pytest.mark.parametrize("told_first", [False, True], ids=["told last", "told first"])
async def test_it_opens_with_the_last_of_what_it_needs(tmp_path: Path, told_first: bool) -> None:
    async with broker(tmp_path) as one:
        door = ClientListener(one.plane, one.controller, guard=Guard(sasl=True))
        port = door.bind("127.0.0.1", 0)
        steps: list[Callable[[], None]] = [door.accept, lambda: door.know_callers((row(),))]
        for step in reversed(steps) if told_first else steps:
            assert not await is_open(port)
            step()
        assert await is_open(port)
        await door.drain(grace_ms=0)


async def test_where_nobody_has_to_prove_who_he_is_it_opens_at_once(tmp_path: Path) -> None:
    async with broker(tmp_path) as one:
        door = ClientListener(one.plane, one.controller, guard=Guard())
        port = door.bind("127.0.0.1", 0)
        door.accept()
        assert await is_open(port)
        await door.drain(grace_ms=0)
