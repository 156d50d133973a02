"""This room reads the bodies of requests: how large each may be, how slow, and what all of them may hold.

Nobody knows yet who sends them.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

BODY_WITHIN_MS = 10_000
MOST_BODIES_BYTES: Final = 64 * 1024 * 1024
"""Of bodies that are not whole; beyond, the one that began first is refused: who means well is through."""

Receive = Callable[[], Awaitable[dict[str, Any]]]


class TooLarge(Exception):
    """The body is larger than any form or request of ours."""


class Crowded(Exception):
    """It took long, and others need the memory; nothing was read of it."""


class Gone(Exception):
    """The client left while it was sending."""


class Bodies:
    """Those that are being read in this process, the oldest first."""

    def __init__(self, most_bytes: int = MOST_BODIES_BYTES) -> None:
        self._most_bytes = most_bytes
        self._held: dict[asyncio.Timeout, int] = {}
        self._sum_bytes = 0

    async def read(self, scope: dict[str, Any], receive: Receive, largest_bytes: int) -> bytes:
        """The whole body within BODY_WITHIN_MS.

        Raises TooLarge above `largest_bytes`, Gone if the client leaves, TimeoutError if it is too slow,
        Crowded.
        """
        stated = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
        if not stated.isdigit() or len(stated) > 18 or int(stated) > largest_bytes:
            raise TooLarge
        patience = asyncio.timeout(BODY_WITHIN_MS / 1000)
        self._held[patience] = 0
        try:
            async with patience:
                return await self._parts(patience, receive, largest_bytes)
        except TimeoutError:
            if patience in self._held:
                raise
            raise Crowded from None
        finally:
            self._sum_bytes -= self._held.pop(patience, 0)

    async def _parts(self, patience: asyncio.Timeout, receive: Receive, largest_bytes: int) -> bytes:
        parts: list[bytes] = []
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise Gone
            part = message.get("body", b"")
            parts.append(part)
            self._grows(patience, len(part))
            if self._held.get(patience, 0) > largest_bytes:
                raise TooLarge
            if not message.get("more_body", False):
                return b"".join(parts)

    def _grows(self, patience: asyncio.Timeout, by_bytes: int) -> None:
        if patience not in self._held:
            return
        self._held[patience] += by_bytes
        self._sum_bytes += by_bytes
        while self._sum_bytes > self._most_bytes and len(self._held) > 1:
            oldest = next(one for one, size in self._held.items() if size)
            self._sum_bytes -= self._held.pop(oldest)
            if not oldest.expired():
                oldest.reschedule(asyncio.get_running_loop().time())
