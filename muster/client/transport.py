"""This room is the websocket of the SDK to a node: connect, say, hear, hang up."""

import os
from ssl import SSLError
from typing import Final

from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException

from muster.client.securing import trusting
from muster.client.websocket import Websocket
from muster.messages import codec
from muster.messages.member import Frame, ToMember

PATH: Final = "/ws/consumer/"
OPEN_TIMEOUT_S = 2.0
"""A node that hangs accepts connections and answers nothing."""
FRAME_MAX_BYTES = 16 * 1024 * 1024
"""A whole ownership of 100,000 partitions is about 2 MB; more than this is not believed."""


class NodeUnreachable(Exception):
    """The node cannot be reached, or hung up; `reason` is what it said."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class NodeSlow(NodeUnreachable):
    """The node did not answer in time: it hangs, or has too much to do."""


class Unwelcome(Exception):
    """The node does not know this token: another node will not either, once it has heard of all tokens."""


class Forbidden(Unwelcome):
    """The node knows the token, and its role may not consume."""


class Transport:
    """One websocket. `hear` and `say` raise NodeUnreachable once it is closed."""

    def __init__(self, address: str, socket: ClientConnection) -> None:
        self.address = address
        self._socket = socket
        self._hung_up = False

    @classmethod
    async def open(
        cls, address: str, token: str, ca_file: str | None = None, within_s: float = OPEN_TIMEOUT_S
    ) -> "Transport":
        """Connect to a node ("ws://host:port"). Raises NodeUnreachable, or Unwelcome.

        NodeUnreachable is a NodeSlow when the node did not answer in time.
        """
        try:
            socket = await Websocket(
                address.rstrip("/") + PATH,
                additional_headers={"Authorization": f"Bearer {token}"},
                ssl=trusting(ca_file) if address.lower().startswith("wss:") else None,
                compression=None,
                max_size=FRAME_MAX_BYTES,
                open_timeout=within_s,
                # The coordinator's own Ping is the only sign of life that counts.
                ping_interval=None,
                proxy=None,
                user_agent_header=None,
            )
        except InvalidStatus as refusal:
            status = refusal.response.status_code
            if status == 401:
                raise Unwelcome("it does not know this token: wrong, expired or revoked") from refusal
            if status == 403:
                raise Forbidden("the role of this token may not consume") from refusal
            said = f"it answered {status}"
            raise NodeUnreachable(f"{said}: is it a node?" if status == 404 else said) from refusal
        except TimeoutError as problem:
            raise NodeSlow(_words(problem)) from problem
        except (OSError, WebSocketException, ValueError) as problem:
            # ValueError: a host that cannot be one, or a port.
            raise NodeUnreachable(_words(problem)) from problem
        return cls(address, socket)

    async def say(self, message: Frame) -> None:
        """Send one message."""
        try:
            await self._socket.send(codec.encode(message).decode())
        except ConnectionClosed as closed:
            raise NodeUnreachable(_why(closed)) from closed

    async def hear(self) -> ToMember:
        """The next message. Raises RemoteMessageError if it is none."""
        try:
            frame = await self._socket.recv()
        except ConnectionClosed as closed:
            raise NodeUnreachable(_why(closed)) from closed
        if self._hung_up:
            raise NodeUnreachable("hung up")
        return codec.decode_to_member(frame)

    def hang_up(self) -> None:
        """Close at once and drop what was received but not heard (native protocol, section 3)."""
        self._hung_up = True
        self._socket.transport.abort()


def _why(closed: ConnectionClosed) -> str:
    return closed.rcvd.reason if closed.rcvd is not None and closed.rcvd.reason else str(closed)


def _words(problem: Exception) -> str:
    if isinstance(problem, OSError) and problem.errno and not isinstance(problem, SSLError):
        return os.strerror(problem.errno)
    return str(problem) or "no answer in time"
