"""This room is the websocket of a consumer: one decode, one match."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from channels.consumer import AsyncConsumer

from coordinator import connections
from coordinator.connections import UNANSWERED_CHARACTERS, MemberConnection, Rest, never_now
from coordinator.door import UNAUTHORIZED, ConsumerDoor
from muster.messages import codec, limits
from muster.messages.errors import INVALID_PAYLOAD_CLOSE, POLICY_VIOLATION_CLOSE, RemoteMessageError
from muster.messages.member import ClusterMetadataRequest, CommitOffsetsRequest, RegisterConsumerRequest

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

TEXT_EXTENSION = "muster.text"
"""The name of a `TextLine` in the `extensions` of a websocket's scope."""


class TextLine(Protocol):
    """What a server may offer under `TEXT_EXTENSION`: texts without a queue and a woken task for each."""

    def hear_by(self, hear: Callable[[str], float], fits: Callable[[int], bool], whose: str) -> None:
        """Give each text to `hear`, not to `receive`; it answers how many seconds to read nothing more.

        All lines of one `whose` are heard for as long as the single one of another.

        `fits` is asked whether a long message may come, before it does; if not it has hung up.
        """

    def say_now(self, payload: bytes) -> bool:
        """Send a text. False, and nothing is sent, when it would have to wait or is too late."""

    def rest(self) -> Callable[[], None]:
        """Read nothing more, until what is returned is called: once, from the loop's thread."""

    def cut_off_within(self, seconds: float) -> None:
        """Free the socket by then, whatever of what was sent still lies in its buffer."""


class ConsumerSocket(AsyncConsumer):  # type: ignore[misc]  # Channels ships no types
    """One member's connection, from the handshake to the close.

    Channels' own dispatch awaits a chain of coroutines for each frame; one loop serves four times
    the frames a second (measured), and a server that offers `TextLine` saves most of what is left.
    """

    def __init__(self, door: ConsumerDoor) -> None:
        self._door = door

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        """Serve one websocket; returns when it is closed."""
        if (await receive())["type"] != "websocket.connect":
            return
        peer = scope.get("client") or ("", 0)
        line: TextLine | None = scope.get("extensions", {}).get(TEXT_EXTENSION)
        say_now = never_now if line is None else line.say_now
        headers, host = dict(scope["headers"]), str(peer[0])
        admission = self._door.admit(headers, host, send, say_now)
        if admission == UNAUTHORIZED and await self._door.find(headers, host):
            admission = self._door.admit(headers, host, send, say_now)
        if not isinstance(admission, MemberConnection):
            await _refuse(send, admission)
            return
        try:
            listening = _Listening(admission, self._door, None if line is None else line.rest)
            if line is not None:
                line.hear_by(listening.hear, listening.fits, admission.principal)
            await send({"type": "websocket.accept"})
            await self._serve(admission, listening, receive)
        finally:
            admission.closing = True
            self._door.closed(admission)
            if line is not None:
                # A close waits for its peer to read what was said before it, and a peer may never read.
                line.cut_off_within(connections.CLOSE_WITHIN_S)

    async def _serve(self, connection: MemberConnection, listening: "_Listening", receive: Receive) -> None:
        """Listen until the peer is gone, or the writer has said good-bye, or could not in time."""
        loop, within_s = asyncio.get_running_loop(), self._door.limits.registration_timeout_ms / 1000

        patience: asyncio.TimerHandle

        def look() -> None:
            nonlocal patience
            if connection.group_id is not None and connection.is_member is None:
                # Whoever asked is not to blame for an answer that waits.
                patience = loop.call_later(within_s, look)
            elif not connection.is_member:
                connection.close(POLICY_VIOLATION_CLOSE, "RegisterConsumer did not come in time")

        patience = loop.call_later(within_s, look)
        try:
            async with asyncio.timeout(None) as good_bye:
                connection.begin(lambda: good_bye.reschedule(loop.time()))
                await listening.listen(receive)
        except TimeoutError:
            if not good_bye.expired():
                raise
        finally:
            patience.cancel()
            await connection.end()


class _Listening:
    """Hears what one connection says, and no more of it than it may say in a second."""

    def __init__(self, connection: MemberConnection, door: ConsumerDoor, rest: Rest | None) -> None:
        self._connection = connection
        self._door = door
        self._rest = rest
        self._clock = asyncio.get_running_loop().time
        self._second_began = self._clock()
        self._frames = 0
        self._may_come_bytes = 0
        """So long the message that comes now may be, as the door last said; looked up again for the next."""

    async def listen(self, receive: Receive) -> None:
        """Hear what comes by `receive`, until the peer is gone."""
        while (event := await receive())["type"] == "websocket.receive":
            text = event.get("text")
            if text is None:
                self._connection.close(INVALID_PAYLOAD_CLOSE, "MALFORMED_FRAME: frames are text")
            elif pause_s := self.hear(text):
                await asyncio.sleep(pause_s)

    def fits(self, size_bytes: int) -> bool:
        """Whether a message of so many bytes may come; if not it is refused, and never held.

        Asked for each of its fragments; what the door counts, the partitions that a member owns, may be many.
        """
        if self._connection.closing:
            return False
        if size_bytes > self._may_come_bytes:
            self._may_come_bytes = self._door.inbound_limit_bytes(self._connection, size_bytes)
            if size_bytes > self._may_come_bytes:
                self._refuse(codec.too_large(size_bytes, self._may_come_bytes))
        return size_bytes <= self._may_come_bytes

    def hear(self, text: str) -> float:
        """Hear one text; for so many seconds nothing more may be read."""
        if self._connection.closing:
            return 0
        self._may_come_bytes = 0
        self._understand(self._connection, text)
        self._frames += 1
        if self._frames < self._door.limits.frames_per_second:
            if self._rest is not None and self._connection.unanswered_characters >= UNANSWERED_CHARACTERS:
                self._connection.rest_until_answered(self._rest)
            return 0
        # Reading stops, TCP slows the peer down, nothing is lost; its pings wait like all else.
        now = self._clock()
        pause_s = max(0.0, self._second_began + 1 - now)
        self._second_began, self._frames = now + pause_s, 0
        return pause_s

    def _refuse(self, problem: RemoteMessageError) -> None:
        self._connection.close(problem.close_code, f"{problem.error_code.name}: {problem}")

    def _understand(self, connection: MemberConnection, text: str) -> None:
        try:
            if len(text) <= limits.SHORT_CHARACTERS:
                message = codec.decode_from_member(text, None)
            else:
                limit_bytes = self._door.inbound_limit_bytes(connection, limits.bytes_of(text))
                message = codec.decode_from_member(text, limit_bytes)
        except RemoteMessageError as problem:
            self._refuse(problem)
            return
        match message:
            case CommitOffsetsRequest():
                self._door.commit(connection, message, len(text))
            case RegisterConsumerRequest():
                self._door.register(connection, message)
            case ClusterMetadataRequest():
                self._door.tell_metadata(connection, message)
            case _:
                self._door.heard(connection, message)


async def _refuse(send: Send, status: int) -> None:
    """Answer the handshake with an HTTP status: nothing of the websocket has begun."""
    headers = [(b"content-length", b"0")]
    if status == UNAUTHORIZED:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "websocket.http.response.start", "status": status, "headers": headers})
    await send({"type": "websocket.http.response.body", "body": b""})
