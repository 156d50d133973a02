"""A node that was told a wrong name for itself ends no broker: it is one more node that is away."""

import asyncio
from pathlib import Path

import pytest

from muster.kernel.error_codes import ErrorCode
from muster.messages.link.to_broker import HelloRefused
from tests.unit.broker_process.controller_side import ControllerSide, linked_broker


@pytest.mark.parametrize("address", [f"ws://{'a' * 64}.example:9301", "ws://127.0.0.1:99999"])
async def test_an_address_that_can_be_nobodys_is_tried_and_left(tmp_path: Path, address: str) -> None:
    controller = ControllerSide()
    pace = {"MUSTER_BROKER_RELINK_INTERVAL_MS": "10"}
    async with asyncio.timeout(30), linked_broker(tmp_path, controller, **pace) as process:
        link = await controller.links.get()
        await link.recv()
        there = HelloRefused(error=ErrorCode.NOT_CONTROLLER, controller_address=address)
        await controller.say(link, there)
        await link.close()
        again = await controller.links.get()
        assert f"{address}: " in process._link.why_unlinked
        await again.close()
        await controller.bind()
