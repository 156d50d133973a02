"""A controller that hears a broker and is not heard: the broker hangs up after a session, or earlier."""

import asyncio
import socket
from pathlib import Path

import pytest
import structlog
from websockets.exceptions import ConnectionClosed

from broker import link
from muster.kernel.error_codes import ErrorCode
from muster.messages import codec
from muster.messages.link.from_broker import BrokerPing
from muster.messages.link.rows import NodeRow
from muster.messages.link.to_broker import BrokerPingAnswer, HelloRefused, Nodes
from tests.unit.broker_process.controller_side import ControllerSide, linked_broker


async def test_pings_without_answers_end_the_link_and_another_is_tried(tmp_path: Path) -> None:
    controller = ControllerSide()
    controller.session_timeout_ms = 300
    with structlog.testing.capture_logs() as logged:
        async with linked_broker(tmp_path, controller) as process:
            bound, _ = await controller.bind()
            await controller.apply(bound, 9)
            answered = codec.decode_from_broker(await bound.recv())
            assert isinstance(answered, BrokerPing)
            await controller.say(bound, BrokerPingAnswer(number=answered.number))
            pings = 0
            try:
                while True:
                    pings += isinstance(codec.decode_from_broker(await bound.recv()), BrokerPing)
            except ConnectionClosed:
                assert pings, "it was heard to the end"
            again, hello = await controller.bind()
            assert hello.broker_epoch == 1
            await controller.apply(again, 10)
            assert not process.ailment()
    assert any("TimeoutError it has said nothing for 0.3 s" in one.get("reason", "") for one in logged)


async def test_the_other_node_is_asked_before_the_one_that_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "LEFT_ALONE_S", 3_600.0)
    hanging, other = ControllerSide(), ControllerSide()
    hanging.session_timeout_ms = 300
    async with asyncio.timeout(30), linked_broker(tmp_path, hanging, other):
        await hanging.bind()
        early = await other.links.get()
        await early.recv()
        # The other one has not noticed yet, and names the one that hangs.
        there = HelloRefused(error=ErrorCode.NOT_CONTROLLER, controller_address=hanging.address)
        await other.say(early, there)
        await other.bind()
        assert hanging.links.empty()


async def test_a_node_has_lost_its_lease_before_a_session_of_silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "SILENT_S", 0.3)
    hanging, other = ControllerSide(), ControllerSide()
    hanging.session_timeout_ms = 3_600_000
    async with asyncio.timeout(30), linked_broker(tmp_path, hanging, other):
        await hanging.bind()
        await other.bind()


async def test_a_node_that_was_slow_is_asked_though_the_other_one_answers_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "OPEN_TIMEOUT_S", 3_600.0)
    slow = ControllerSide()
    slow.session_timeout_ms = 1_500
    async with asyncio.timeout(30), linked_broker(tmp_path, slow):
        with socket.create_server(("127.0.0.1", 0)) as nobody:
            bound, _ = await slow.bind()
            row = NodeRow("node-2", f"ws://127.0.0.1:{nobody.getsockname()[1]}", 2)
            await slow.say(bound, Nodes(nodes=(row,), owners=()))
            await slow.bind()
