"""This room receives a peer's answers into one buffer, whole frames in place, over TLS or in the clear.

asyncio's streams would copy each byte twice, and wake a task for each answer.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from muster.kafkawire.framing import DEFAULT_LIMIT_BYTES, LENGTH_BYTES, frame_bytes

SMALL_BYTES: Final = 64 * 1024
"""What a connection holds while its answers are no longer."""


class PeerConnection(asyncio.BufferedProtocol):
    """One connection to a leader: `hear` is called with each frame, which is valid only during the call.

    `closed` ends with the connection; whatever `hear` raises ends it, and is raised there.
    """

    def __init__(self, hear: Callable[[memoryview], None]) -> None:
        self._hear = hear
        self._buffer = memoryview(bytearray(SMALL_BYTES))
        self._filled = 0
        self._transport: asyncio.WriteTransport | None = None
        self._gone = asyncio.Event()
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def take_over(self, transport: asyncio.WriteTransport) -> None:
        """Receive from now on what arrives there; nothing has arrived that somebody else holds."""
        self._transport = transport
        transport.set_protocol(self)

    @property
    def begun_bytes(self) -> int:
        """How much has come of a frame that is not whole yet."""
        return self._filled

    def send(self, frame: bytes) -> None:
        """To the peer, as soon as it takes it."""
        if self._transport is not None:
            self._transport.write(frame)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        self._filled += nbytes
        try:
            self._serve()
        except Exception as error:
            self.end(error)

    def _serve(self) -> None:
        start, filled, buffer = 0, self._filled, self._buffer
        wanted = LENGTH_BYTES
        while filled - start >= LENGTH_BYTES:
            wanted = LENGTH_BYTES + frame_bytes(buffer, start, DEFAULT_LIMIT_BYTES, LENGTH_BYTES)
            if filled - start < wanted:
                break
            self._hear(buffer[start + LENGTH_BYTES : start + wanted])
            start += wanted
            wanted = LENGTH_BYTES
        self._keep(start, max(wanted, SMALL_BYTES))

    def _keep(self, start: int, size: int) -> None:
        """What has begun, at the front of a buffer that its whole frame fits into."""
        begun = self._buffer[start : self._filled]
        is_idle = not begun and start <= SMALL_BYTES < len(self._buffer)
        if len(self._buffer) < size or is_idle:
            self._buffer = memoryview(bytearray(size))
        self._buffer[: len(begun)] = begun
        self._filled = len(begun)

    def eof_received(self) -> None:
        self.end(EOFError("the peer closed the connection"))

    def connection_lost(self, exc: Exception | None) -> None:
        self.end(exc or EOFError("the connection is closed"))
        self._gone.set()

    def end(self, error: Exception) -> None:
        """Hang up: nothing is left to be said, and a peer that hangs answers no farewell of TLS."""
        if not self.closed.done():
            self.closed.set_exception(error)
        if self._transport is not None:
            self._transport.abort()

    async def leave(self) -> None:
        """Hang up if nobody has, and wait until that is done."""
        self.closed.cancel()
        if self._transport is not None:
            self._transport.abort()
            await self._gone.wait()
