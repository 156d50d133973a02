"""This room bounds what connections may do before anybody knows who it is: how much, how slowly, how many."""

import asyncio
from collections import Counter
from collections.abc import MutableMapping
from dataclasses import dataclass, field
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

import structlog
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from kafkaserver import open_files

LARGEST_HEAD_BYTES = 32_768
HEAD_WITHIN_MS = 10_000
"""From the connection, or from the first byte of a later request, to the end of its headers."""

SAY_EVERY_S = 1.0

log = structlog.get_logger(__name__)


@dataclass
class _Crowd:
    """Whoever is half open at one server, oldest first, and how many were sent away since it was said."""

    half_open: dict["BoundedHttp", None] = field(default_factory=dict)
    sent_away: Counter[str] = field(default_factory=Counter)
    said_at: float = -SAY_EVERY_S

    def say(self, why: str, now: float) -> None:
        """A stranger must not write our log for us: one line a second."""
        self.sent_away[why] += 1
        if now - self.said_at >= SAY_EVERY_S:
            log.info("connections were closed before their request was whole", **self.sent_away)
            self.sent_away.clear()
            self.said_at = now


class BoundedHttp(HttpToolsProtocol):
    """uvicorn's protocol, which by itself takes headers of any size and waits for them for ever.

    Whoever has sent no whole head is half open. When the process cannot hold more connections, or half of
    them are half open, the oldest of those makes room.
    """

    _deadline: asyncio.TimerHandle | None = None
    _head_bytes = 0
    _refused = False
    _crowds: ClassVar[MutableMapping[Any, _Crowd]] = WeakKeyDictionary()

    @property
    def _crowd(self) -> _Crowd:
        return self._crowds.setdefault(self.server_state, _Crowd())

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect_a_head()
        most, half_open = open_files.connections_max(), self._crowd.half_open
        if len(self.connections) > most or len(half_open) > max(most // 2, 1):
            next(iter(half_open))._refuse("too_many")

    def data_received(self, data: bytes) -> None:
        self._head_bytes += len(data)
        super().data_received(data)
        if self._deadline is not None and self._head_bytes > LARGEST_HEAD_BYTES:
            self._refuse("too_large")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self._deadline is None:
            self._expect_a_head()

    def on_headers_complete(self) -> None:
        self._head_came()
        # A head that came in one piece was parsed before its bytes were counted.
        headers_bytes = sum(len(name) + len(value) + 4 for name, value in self.headers)
        if len(self.url) + headers_bytes > LARGEST_HEAD_BYTES:
            self._refused = True
            return self._refuse("too_large")
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        if not self._refused:
            super().on_body(body)

    def on_message_complete(self) -> None:
        if not self._refused:
            super().on_message_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_came()
        # uvicorn forgets this timer when a connection breaks; it would hold on to it for seconds.
        self._unset_keepalive_if_required()
        super().connection_lost(exc)

    def _expect_a_head(self) -> None:
        self._head_bytes = 0
        self._crowd.half_open[self] = None
        self._deadline = self.loop.call_later(HEAD_WITHIN_MS / 1000, self._refuse, "too_slow")

    def _head_came(self) -> None:
        self._crowd.half_open.pop(self, None)
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _refuse(self, why: str) -> None:
        self._head_came()
        if not self.transport.is_closing():
            self._crowd.say(why, self.loop.time())
            self.transport.abort()
