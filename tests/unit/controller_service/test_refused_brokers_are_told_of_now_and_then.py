"""A broker that is refused comes again and again: the log of a node is not filled by it."""

import logging
from typing import Any

import pytest
import structlog

from controller.sockets import ELSEWHERE, BrokerDoor, Refusals
from muster.messages import codec
from muster.messages.link.from_broker import BrokerHello

HELLO = codec.encode(BrokerHello(broker_id=1, incarnation="a", endpoints={})).decode()


class Closed:
    """A controller that knows nobody."""

    knows_secrets, accepts_links, admits_all = True, False, False

    def __init__(self) -> None:
        self.came_to_us: list[int] = []

    def came(self, broker_id: int) -> None:
        self.came_to_us.append(broker_id)

    async def admits(self, broker_id: int, secret: str) -> bool:
        return self.admits_all

    async def controller_address(self) -> str:
        return ""


class Elsewhere(Closed):
    """A node that is not the controller, or that is frozen: while nobody is, brokers ask each in turn."""

    admits_all = True


async def refused(authorization: bytes, by: Closed | None = None) -> list[str]:
    said: list[str] = []
    heard = [{"type": "websocket.connect"}, {"type": "websocket.receive", "text": HELLO}]

    async def receive() -> dict[str, Any]:
        return heard.pop(0)

    async def send(message: Any) -> None:
        said.append(message["type"])

    headers = [(b"authorization", authorization)]
    await BrokerDoor(by or Closed())({"headers": headers, "client": ("127.0.0.1", 1)}, receive, send)  # type: ignore[arg-type]
    return said


async def test_each_broker_is_told_of_once_and_every_one_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BrokerDoor, "_refusals", Refusals())
    with structlog.testing.capture_logs() as logged:
        for _ in range(5):
            assert await refused(b"Bearer 1:wrong") == ["websocket.close"]
        assert await refused(b"Bearer 2:wrong") == ["websocket.close"]
        assert await refused(b"nonsense") == ["websocket.close"]
    assert [one["broker"] for one in logged] == [1, 2, None]


async def test_who_asks_a_node_that_is_not_the_controller_is_told_of_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(BrokerDoor, "_elsewhere", Refusals(ELSEWHERE, logging.INFO))
    with structlog.testing.capture_logs() as logged:
        for _ in range(5):
            assert (await refused(b"Bearer 1:right", Elsewhere()))[-1] == "websocket.close"
    assert [(one["log_level"], one["broker"], one["reason"]) for one in logged] == [("info", 1, ELSEWHERE)]


async def test_only_who_shows_its_secret_counts_as_come() -> None:
    closed, elsewhere = Closed(), Elsewhere()
    await refused(b"Bearer 1:wrong", closed)
    await refused(b"Bearer 2:of-another", elsewhere)
    await refused(b"Bearer 1:right", elsewhere)
    assert (closed.came_to_us, elsewhere.came_to_us) == ([], [1])


async def test_the_next_line_says_how_many_there_were(monkeypatch: pytest.MonkeyPatch) -> None:
    refusals = Refusals()
    monkeypatch.setattr("controller.sockets.REFUSALS_TOLD_EVERY_S", 1e9)
    refusals.tell(1, "a")
    refusals.tell(1, "a")
    refusals.tell(1, "a")
    monkeypatch.setattr("controller.sockets.REFUSALS_TOLD_EVERY_S", 0.0)
    with structlog.testing.capture_logs() as logged:
        refusals.tell(1, "a")
    assert [one["more_since"] for one in logged] == [2]
