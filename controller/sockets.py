"""This room is the door of broker links: a websocket, its secret, its hello, its frames in order.

A link that the controller unbound is never read again, whatever is left in its buffer (replication.md
section 7.4; design chapter 7).
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final, Protocol

import structlog
from channels.consumer import AsyncConsumer

from controller.enrolment import broker_credentials
from controller.links import BrokerLink, Send
from muster.kernel.error_codes import ErrorCode
from muster.messages import codec
from muster.messages.errors import (
    GOING_AWAY_CLOSE,
    INVALID_PAYLOAD_CLOSE,
    POLICY_VIOLATION_CLOSE,
    RemoteMessageError,
)
from muster.messages.link.from_broker import BrokerHello, FromBroker
from muster.messages.link.to_broker import HelloRefused

log = structlog.get_logger(__name__)

HELLO_TIMEOUT_S: Final = 5.0
CLOSE_TIMEOUT_S: Final = 2.0
LINKS: Final = 1_000
"""Sockets that may be open before their hello was answered; brokers have one each."""

UNAVAILABLE = 503
REFUSALS_TOLD_EVERY_S: Final = 60.0
"""How often it is told that one broker is refused, for its secret or as another node is the controller: it
comes again, several times a second while nobody is, and strangers come often.
"""

ELSEWHERE: Final = "refused: this node is not the controller"

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]


class Controller(Protocol):
    """What the door must know of `controller.service`."""

    def admits(self, broker_id: int, secret: str) -> Awaitable[bool]:
        """True if this is the secret of an enrolled broker."""

    @property
    def knows_secrets(self) -> bool:
        """False until the secrets of enrolled brokers were read: nobody can be told apart."""

    @property
    def accepts_links(self) -> bool:
        """True while this node holds the lease `controller` and has loaded."""

    async def controller_address(self) -> str:
        """Websocket address of the node that holds the lease, "" if nobody is known."""

    def came(self, broker_id: int) -> None:
        """This broker looked for the controller here, and was told to look elsewhere."""

    def link_opened(self, link: BrokerLink, hello: BrokerHello) -> None: ...

    def link_heard(self, link: BrokerLink, frame: FromBroker) -> None: ...

    def link_closed(self, link: BrokerLink) -> None: ...


class Refusals:
    """Who was refused for one reason: a log line for each broker id now and then, and their number."""

    def __init__(self, reason: str = "no valid secret", level: int = logging.WARNING) -> None:
        self._reason, self._level = reason, level
        self._told: dict[int | None, tuple[float, int]] = {}

    def tell(self, broker_id: int | None, peer: str) -> None:
        """Somebody who says to be this broker, or none, was refused. There are at most 10,000 such ids."""
        now = asyncio.get_running_loop().time()
        told_at, untold = self._told.get(broker_id, (now - REFUSALS_TOLD_EVERY_S, 0))
        if now - told_at < REFUSALS_TOLD_EVERY_S:
            self._told[broker_id] = (told_at, untold + 1)
            return
        self._told[broker_id] = (now, 0)
        told = {"broker": broker_id, "peer": peer, "reason": self._reason, "more_since": untold}
        log.log(self._level, "broker link refused", **told)


class BrokerDoor(AsyncConsumer):  # type: ignore[misc]  # channels ships no types
    """`/ws/broker/`: Channels' dispatch is replaced by one receive loop, since it costs
    more than a frame's own work."""

    _open = 0
    _refusals: Final = Refusals()
    _elsewhere: Final = Refusals(ELSEWHERE, logging.INFO)

    def __init__(self, controller: Controller) -> None:
        self._controller = controller

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        headers = dict(scope.get("headers", ()))
        credentials = broker_credentials(headers.get(b"authorization"))
        if credentials is None or not await self._controller.admits(*credentials):
            if credentials is not None and not self._controller.knows_secrets:
                await _say_unavailable(send)
                return
            self._refusals.tell(credentials[0] if credentials else None, _peer(scope))
            await send({"type": "websocket.close", "code": POLICY_VIOLATION_CLOSE})
            return
        if BrokerDoor._open >= LINKS:
            await send({"type": "websocket.close", "code": GOING_AWAY_CLOSE})
            return
        BrokerDoor._open += 1
        try:
            await send({"type": "websocket.accept"})
            await self._live(BrokerLink(credentials[0], _peer(scope)), credentials[1], receive, send)
        finally:
            BrokerDoor._open -= 1

    async def _live(self, link: BrokerLink, secret: str, receive: Receive, send: Send) -> None:
        writer = asyncio.ensure_future(link.write(send))
        try:
            await self._serve(link, secret, receive, writer)
        except RemoteMessageError as error:
            link.hang_up(f"{error.error_code.name}: {error}")
        finally:
            link.hang_up("closed by the broker")
            await self._close(link, writer, send)

    async def _serve(
        self, link: BrokerLink, secret: str, receive: Receive, writer: asyncio.Future[None]
    ) -> None:
        try:
            async with asyncio.timeout(HELLO_TIMEOUT_S):
                hello = await _frame(receive)
        except TimeoutError:
            link.hang_up("no hello")
            return
        if hello is None:
            return
        refusal = await self._refusal(link, secret, hello)
        if refusal is not None or not isinstance(hello, BrokerHello):
            link.say(refusal or HelloRefused(error=ErrorCode.INVALID_REQUEST, text="no hello"))
            is_elsewhere = refusal is not None and refusal.error is ErrorCode.NOT_CONTROLLER
            link.hang_up(ELSEWHERE if is_elsewhere else "refused")
            return
        self._controller.link_opened(link, hello)
        try:
            await self._listen(link, receive, writer)
        finally:
            self._controller.link_closed(link)

    async def _refusal(self, link: BrokerLink, secret: str, hello: FromBroker) -> HelloRefused | None:
        if not isinstance(hello, BrokerHello):
            return HelloRefused(error=ErrorCode.INVALID_REQUEST, text="the first frame is no hello")
        if hello.broker_id != link.broker_id:
            return HelloRefused(
                error=ErrorCode.AUTHENTICATION_FAILED,
                text=f"the secret is that of broker {link.broker_id}, not {hello.broker_id}",
            )
        if not await self._controller.admits(link.broker_id, secret):
            text = f"the secret of broker {link.broker_id} was taken back"
            return HelloRefused(error=ErrorCode.AUTHENTICATION_FAILED, text=text)
        if not self._controller.accepts_links:
            self._controller.came(link.broker_id)
            address = await self._controller.controller_address()
            return HelloRefused(error=ErrorCode.NOT_CONTROLLER, controller_address=address)
        return None

    async def _listen(self, link: BrokerLink, receive: Receive, writer: asyncio.Future[None]) -> None:
        """Hear frames until the broker or the controller ends the link, or its writer fails."""
        while not link.is_unbound:
            hearing = asyncio.ensure_future(_frame(receive))
            await asyncio.wait((hearing, writer), return_when=asyncio.FIRST_COMPLETED)
            if link.is_unbound or not hearing.done():
                hearing.cancel()
                with contextlib.suppress(asyncio.CancelledError, RemoteMessageError):
                    await hearing
                return
            frame = hearing.result()
            if frame is None:
                return
            self._controller.link_heard(link, frame)

    async def _close(self, link: BrokerLink, writer: asyncio.Future[None], send: Send) -> None:
        if link.reason == ELSEWHERE:
            self._elsewhere.tell(link.broker_id, link.peer)
        else:
            log.info("broker link closed", link=link.number, broker=link.broker_id, reason=link.reason)
        with contextlib.suppress(Exception):
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await asyncio.shield(writer)
                await send({"type": "websocket.close", "code": GOING_AWAY_CLOSE, "reason": link.reason[:100]})
        writer.cancel()
        await asyncio.gather(writer, return_exceptions=True)


async def _frame(receive: Receive) -> FromBroker | None:
    """The next frame, None when the socket is closed. Raises RemoteMessageError."""
    message = await receive()
    if message["type"] == "websocket.disconnect":
        return None
    text = message.get("text")
    if text is None:
        raise RemoteMessageError(
            "frames are text", close_code=INVALID_PAYLOAD_CLOSE, error_code=ErrorCode.MALFORMED_FRAME
        )
    return codec.decode_from_broker(text)


async def _say_unavailable(send: Send) -> None:
    """Answer the handshake with 503: a good secret must not be called bad because nobody could look."""
    headers = [(b"content-length", b"0")]
    await send({"type": "websocket.http.response.start", "status": UNAVAILABLE, "headers": headers})
    await send({"type": "websocket.http.response.body", "body": b""})


def _peer(scope: Scope) -> str:
    client = scope.get("client") or ("", 0)
    return f"{client[0]}:{client[1]}"
