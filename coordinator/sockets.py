"""This room is the websocket of a consumer: one receive loop, one decode, one match."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from channels.consumer import AsyncConsumer

from coordinator.routing import ConsumerDoor
from coordinator.sessions import MemberConnection
from muster.messages import codec
from muster.messages.errors import INVALID_PAYLOAD_CLOSE, POLICY_VIOLATION_CLOSE, RemoteMessageError
from muster.messages.member import ClusterMetadataRequest, CommitOffsetsRequest, RegisterConsumerRequest

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]


class ConsumerSocket(AsyncConsumer):  # type: ignore[misc]  # Channels ships no types
    """One member's connection, from the handshake to the close.

    Channels' own dispatch awaits a chain of coroutines for each frame; one loop serves four times
    the frames a second (measured).
    """

    def __init__(self, door: ConsumerDoor) -> None:
        self._door = door

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        """Serve one websocket; returns when it is closed."""
        if (await receive())["type"] != "websocket.connect":
            return
        peer = scope.get("client") or ("", 0)
        admission = self._door.admit(dict(scope["headers"]), f"{peer[0]}:{peer[1]}", send)
        if not isinstance(admission, MemberConnection):
            await _refuse(send, admission)
            return
        try:
            await send({"type": "websocket.accept"})
            await self._serve(admission, receive)
        finally:
            admission.closing = True
            self._door.closed(admission)

    async def _serve(self, connection: MemberConnection, receive: Receive) -> None:
        """Listen until the peer is gone, or the writer has said good-bye, or could not in time."""
        writer = asyncio.create_task(connection.write(), name=f"writer of {connection.connection_id}")
        listener = asyncio.create_task(self._listen(connection, receive))
        patience = asyncio.get_running_loop().call_later(
            self._door.limits.registration_timeout_ms / 1000, _lose_patience, connection
        )
        try:
            await asyncio.wait((writer, listener), return_when=asyncio.FIRST_COMPLETED)
        finally:
            patience.cancel()
            connection.closing = True
            writer.cancel()
            listener.cancel()
            # What the writer died of is its peer's absence.
            _, heard = await asyncio.gather(writer, listener, return_exceptions=True)
        if isinstance(heard, Exception):
            raise heard

    async def _listen(self, connection: MemberConnection, receive: Receive) -> None:
        clock = asyncio.get_running_loop().time
        frames_max = self._door.limits.frames_per_second
        second_began, frames = clock(), 0
        while (event := await receive())["type"] == "websocket.receive":
            if connection.closing:
                continue
            frames += 1
            if frames > frames_max:
                # Reading stops, TCP slows the peer down, nothing is lost; its pings wait like all else.
                await asyncio.sleep(max(0.0, second_began + 1 - clock()))
            if frames > frames_max or clock() - second_began >= 1:
                second_began, frames = clock(), 0
            text = event.get("text")
            if text is None:
                connection.hang_up(INVALID_PAYLOAD_CLOSE, "MALFORMED_FRAME: frames are text")
            else:
                self._hear(connection, text)

    def _hear(self, connection: MemberConnection, text: str) -> None:
        try:
            message = codec.decode_from_member(text, self._door.inbound_limit_bytes(connection, len(text)))
        except RemoteMessageError as problem:
            connection.hang_up(problem.close_code, f"{problem.error_code.name}: {problem}")
            return
        match message:
            case CommitOffsetsRequest():
                self._door.commit(connection, message)
            case RegisterConsumerRequest():
                self._door.register(connection, message)
            case ClusterMetadataRequest():
                self._door.tell_metadata(connection, message)
            case _:
                self._door.heard(connection, message)


def _lose_patience(connection: MemberConnection) -> None:
    if connection.group_id is None:
        connection.hang_up(POLICY_VIOLATION_CLOSE, "RegisterConsumer did not come in time")


async def _refuse(send: Send, status: int) -> None:
    """Answer the handshake with an HTTP status: nothing of the websocket has begun."""
    headers = [(b"content-length", b"0")]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "websocket.http.response.start", "status": status, "headers": headers})
    await send({"type": "websocket.http.response.body", "body": b""})
