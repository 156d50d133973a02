"""This room bounds what a page's open websocket may do: pings, pieces of a word, an end that nobody takes."""

import asyncio
from collections import deque
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame

PINGS_A_SECOND = 10
"""A browser sends none by itself; each is answered, into memory where nobody takes the answers."""

MOST_FRAGMENTS = 64
"""Of one message; each is kept until the last, also one of nothing, of which no length is too much."""

CLOSE_WITHIN_MS = 5_000
"""For so long a peer that reads nothing keeps its socket when all is said."""

POLICY_VIOLATION = 1008


class BoundedWebSocket(WebSocketsSansIOProtocol):
    """uvicorn's websocket, which by itself answers every ping and waits for its peer for ever."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._pinged_at: deque[float] = deque(maxlen=PINGS_A_SECOND)
        self._cut_off: asyncio.TimerHandle | None = None

    def data_received(self, data: bytes) -> None:
        """As uvicorn, which fails on what is wrong and came before the handshake was answered.

        No browser says anything before that.
        """
        if self.handshake_initiated and not self.handshake_complete:
            self.transport.abort()
        else:
            super().data_received(data)

    def handle_ping(self) -> None:
        """As uvicorn, to a peer that does not ask too often."""
        if self.close_sent:
            return
        now = self.loop.time()
        if len(self._pinged_at) == PINGS_A_SECOND and now - self._pinged_at[0] < 1.0:
            self._hang_up("too many pings")
        else:
            self._pinged_at.append(now)
            super().handle_ping()

    def handle_cont(self, event: Frame) -> None:
        """As uvicorn, of a message in few pieces."""
        if self.close_sent:
            return
        if len(self.frames) >= MOST_FRAGMENTS:
            self._hang_up("too many fragments")
        else:
            super().handle_cont(event)

    def on_task_complete(self, task: asyncio.Task[None]) -> None:
        """As uvicorn; the socket does not outlive its application by long."""
        super().on_task_complete(task)
        if not self.disconnected:
            self._cut_off = self.loop.call_later(CLOSE_WITHIN_MS / 1000, self.transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        """As uvicorn; no timer keeps what nobody needs any more."""
        super().connection_lost(exc)
        if self._cut_off is not None:
            self._cut_off.cancel()

    def _hang_up(self, why: str) -> None:
        self.frames = []
        self.conn.fail(POLICY_VIOLATION, why)
        self.handle_parser_exception()
