"""This room bounds what a connection may send before anybody knows who it is: how much, and how slowly."""

import asyncio

import structlog
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

LARGEST_HEAD_BYTES = 32_768
HEAD_WITHIN_MS = 10_000
"""From the connection, or from the first byte of a later request, to the end of its headers."""

log = structlog.get_logger(__name__)


class BoundedHttp(HttpToolsProtocol):
    """uvicorn's protocol, which by itself takes headers of any size and waits for them for ever."""

    _deadline: asyncio.TimerHandle | None = None
    _head_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect_a_head()

    def data_received(self, data: bytes) -> None:
        self._head_bytes += len(data)
        super().data_received(data)
        if self._deadline is not None and self._head_bytes > LARGEST_HEAD_BYTES:
            self._refuse("too large")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self._deadline is None:
            self._expect_a_head()

    def on_headers_complete(self) -> None:
        self._head_came()
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_came()
        super().connection_lost(exc)

    def _expect_a_head(self) -> None:
        self._head_bytes = 0
        self._deadline = self.loop.call_later(HEAD_WITHIN_MS / 1000, self._refuse, "too slow")

    def _head_came(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _refuse(self, why: str) -> None:
        self._head_came()
        if not self.transport.is_closing():
            log.info("a connection was closed before its request was whole", why=why)
            self.transport.close()
