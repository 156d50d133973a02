"""A broker that a node keeps out says why at its door, though other nodes are away or know only who leads."""

import asyncio
from pathlib import Path

import pytest

from muster.kernel.error_codes import ErrorCode
from muster.messages.link.to_broker import HelloRefused
from tests.unit.broker_process.controller_side import ControllerSide, linked_broker

NOBODYS = "ws://127.0.0.1:1"
PACE = {"MUSTER_BROKER_RELINK_INTERVAL_MS": "10"}


async def _refuse(controller: ControllerSide, error: ErrorCode, text: str) -> None:
    link = await controller.links.get()
    await link.recv()
    await controller.say(link, HelloRefused(error=error, text=text, controller_address=NOBODYS))
    await link.close()


@pytest.mark.parametrize("error", [ErrorCode.DATABASE_SET_BACK, ErrorCode.DUPLICATE_BROKER_REGISTRATION])
async def test_a_refusal_is_told_before_what_became_of_the_others(tmp_path: Path, error: ErrorCode) -> None:
    """It was told that the last node that was tried is away."""
    controller = ControllerSide()
    async with asyncio.timeout(30), linked_broker(tmp_path, controller, **PACE) as process:
        await _refuse(controller, error, "look for another copy")
        await controller.links.get()
        assert f"{error.name}: look for another copy" in process.ailment()


async def test_what_a_node_no_longer_says_is_forgotten(tmp_path: Path) -> None:
    controller = ControllerSide()
    async with asyncio.timeout(30), linked_broker(tmp_path, controller, **PACE) as process:
        await _refuse(controller, ErrorCode.DATABASE_SET_BACK, "look for another copy")
        await _refuse(controller, ErrorCode.NOT_CONTROLLER, "")
        await controller.links.get()
        assert NOBODYS in process.ailment() and "DATABASE_SET_BACK" not in process.ailment()


async def test_of_nodes_that_are_away_each_is_told(tmp_path: Path) -> None:
    """One names the controller's node, and that one answers nobody: each alone tells half of it."""
    controller = ControllerSide()
    async with asyncio.timeout(30), linked_broker(tmp_path, controller, **PACE) as process:
        await _refuse(controller, ErrorCode.NOT_CONTROLLER, "")
        await controller.links.get()
        told = process.ailment()
        assert f"{controller.address}: LinkRefused NOT_CONTROLLER; {NOBODYS}: ConnectionRefusedError" in told
