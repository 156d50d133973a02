"""A broker whose secret is refused comes again and again: the log of a node is not filled by it."""

from typing import Any

import pytest
import structlog

from controller.sockets import BrokerDoor, Refusals


class Closed:
    """A controller that knows nobody."""

    knows_secrets, accepts_links = True, True

    async def admits(self, broker_id: int, secret: str) -> bool:
        return False


async def refused(authorization: bytes) -> list[str]:
    said: list[str] = []

    async def receive() -> dict[str, Any]:
        return {"type": "websocket.connect"}

    async def send(message: Any) -> None:
        said.append(message["type"])

    headers = [(b"authorization", authorization)]
    await BrokerDoor(Closed())({"headers": headers, "client": ("127.0.0.1", 1)}, receive, send)  # type: ignore[arg-type]
    return said


async def test_each_broker_is_told_of_once_and_every_one_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BrokerDoor, "_refusals", Refusals())
    with structlog.testing.capture_logs() as logged:
        for _ in range(5):
            assert await refused(b"Bearer 1:wrong") == ["websocket.close"]
        assert await refused(b"Bearer 2:wrong") == ["websocket.close"]
        assert await refused(b"nonsense") == ["websocket.close"]
    assert [one["broker"] for one in logged] == [1, 2, None]


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
