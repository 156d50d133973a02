"""This room sends what is said to one websocket in a row with one write, which costs as much as the saying.

Whoever has several requests under way hears their answers together. What is held belongs to one websocket at
a time, and leaves when another one is spoken to, at the latest in the next round of the loop.
"""

import asyncio
from typing import Final

from runtime.of_loops import OfLoops

HELD_BYTES_MAX: Final = 16 * 1024
"""More is sent at once, so that the transport says in time that its peer does not read."""


class SaidTexts:
    """The frames that were said last, of one transport."""

    __slots__ = ("_frames", "_is_called", "_loop", "_size", "_transport")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._frames: list[bytes] = []
        self._size = 0
        self._is_called = False

    def say(self, transport: asyncio.Transport, frame: bytes) -> None:
        """Send a frame, soon; all that was said before on this transport leaves before it."""
        if transport is not self._transport:
            if self._transport is not None:
                self.flush()
            self._transport = transport
            if not self._is_called:
                self._is_called = True
                self._loop.call_soon(self._next_round)
        self._frames.append(frame)
        self._size += len(frame)
        if self._size > HELD_BYTES_MAX:
            self.flush()

    def flush(self) -> None:
        """Send what is held: before anything else is written, or read, on its transport."""
        transport = self._transport
        if transport is None:
            return
        frames, self._frames = self._frames, []
        self._transport, self._size = None, 0
        if not transport.is_closing():
            transport.write(frames[0] if len(frames) == 1 else b"".join(frames))

    def _next_round(self) -> None:
        self._is_called = False
        self.flush()


_said_texts = OfLoops(SaidTexts)


def said_texts(loop: asyncio.AbstractEventLoop) -> SaidTexts:
    """Those of all websockets on this loop."""
    return _said_texts.of(loop)
