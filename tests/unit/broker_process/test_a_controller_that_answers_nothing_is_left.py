"""A controller that hears a broker and is not heard: the broker hangs up when a session is over."""

from pathlib import Path

import structlog
from websockets.exceptions import ConnectionClosed

from muster.messages import codec
from muster.messages.link.from_broker import BrokerPing
from muster.messages.link.to_broker import BrokerPingAnswer
from tests.unit.broker_process.controller_side import ControllerSide, linked_broker


async def test_pings_without_answers_end_the_link_and_another_is_tried(tmp_path: Path) -> None:
    controller = ControllerSide()
    controller.session_timeout_ms = 300
    with structlog.testing.capture_logs() as logged:
        async with linked_broker(tmp_path, controller) as process:
            link, _ = await controller.bind()
            await controller.apply(link, 9)
            answered = codec.decode_from_broker(await link.recv())
            assert isinstance(answered, BrokerPing)
            await controller.say(link, BrokerPingAnswer(number=answered.number))
            pings = 0
            try:
                while True:
                    pings += isinstance(codec.decode_from_broker(await link.recv()), BrokerPing)
            except ConnectionClosed:
                assert pings, "it was heard to the end"
            again, hello = await controller.bind()
            assert hello.broker_epoch == 1
            await controller.apply(again, 10)
            assert not process.ailment()
    assert any("TimeoutError" in one.get("reason", "") for one in logged)
