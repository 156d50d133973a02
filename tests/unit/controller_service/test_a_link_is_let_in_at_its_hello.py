"""Between a broker's handshake and its hello its secret may be taken back, and others may knock."""

import asyncio
from typing import Any

import msgspec
import pytest

from controller import sockets
from controller.links import BrokerLink
from controller.sockets import BrokerDoor
from muster.kernel.error_codes import ErrorCode
from muster.messages import codec
from muster.messages.link.from_broker import BrokerHello, FromBroker

HELLO = codec.encode(BrokerHello(broker_id=1, incarnation="a", endpoints={})).decode()


class Asked:
    """A controller that lets in whoever shows a secret that is good."""

    knows_secrets, accepts_links = True, True

    def __init__(self) -> None:
        self.good = {"a-secret"}
        self.opened: list[int] = []

    async def admits(self, broker_id: int, secret: str) -> bool:
        return secret in self.good

    async def controller_address(self) -> str:
        return ""

    def came(self, broker_id: int) -> None: ...

    def link_opened(self, link: BrokerLink, hello: BrokerHello) -> None:
        self.opened.append(link.broker_id)

    def link_heard(self, link: BrokerLink, frame: FromBroker) -> None: ...

    def link_closed(self, link: BrokerLink) -> None: ...


class Socket:
    """One websocket of broker 1; nothing is said to it before it may be."""

    def __init__(self) -> None:
        self.received: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.received.put_nowait({"type": "websocket.connect"})
        self.said: list[dict[str, Any]] = []
        self.may_be_told = asyncio.Event()

    async def send(self, message: Any) -> None:
        self.said.append(message)
        await self.may_be_told.wait()

    def served_by(self, controller: Asked) -> asyncio.Task[None]:
        headers = [(b"authorization", b"Bearer 1:a-secret")]
        scope = {"headers": headers, "client": ("127.0.0.1", 1)}
        return asyncio.create_task(BrokerDoor(controller)(scope, self.received.get, self.send))

    def hears(self, text: str | None) -> None:
        kind = "websocket.disconnect" if text is None else "websocket.receive"
        self.received.put_nowait({"type": kind, "text": text})


@pytest.mark.parametrize(("is_taken_back", "opened"), [(True, []), (False, [1])])
async def test_a_secret_that_was_taken_back_meanwhile_opens_no_link(
    is_taken_back: bool, opened: list[int]
) -> None:
    controller, socket = Asked(), Socket()
    served = socket.served_by(controller)
    await asyncio.sleep(0)
    assert socket.said == [{"type": "websocket.accept"}]
    if is_taken_back:
        controller.good.clear()
    socket.may_be_told.set()
    socket.hears(HELLO)
    socket.hears(None)
    await served
    assert controller.opened == opened
    refusals = [msgspec.json.decode(one["text"]) for one in socket.said if "text" in one]
    assert [one["error"] for one in refusals] == [ErrorCode.AUTHENTICATION_FAILED] * is_taken_back


async def test_who_is_being_let_in_takes_up_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sockets, "LINKS", 2)
    controller, knocking = Asked(), [Socket() for _ in range(3)]
    served = [socket.served_by(controller) for socket in knocking]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert [socket.said[0]["type"] for socket in knocking] == ["websocket.accept"] * 2 + ["websocket.close"]
    for socket in knocking:
        socket.may_be_told.set()
        socket.hears(None)
    await asyncio.gather(*served)
    assert BrokerDoor._open == 0
