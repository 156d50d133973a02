"""This room bounds what connections may do before anybody knows who it is: how much, how slowly, how many."""

import asyncio
import contextlib
import fcntl
import select
import sys
import termios
from collections import Counter
from collections.abc import MutableMapping
from dataclasses import dataclass, field
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

import httptools
import structlog
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from kafkaserver import open_files
from kafkaserver.strangers import IN_ALL, Strangers
from muster.kernel.addresses import network_of
from runtime import metrics

LARGEST_HEAD_BYTES = 32_768
HEAD_WITHIN_MS = 10_000
"""From the connection, or from the first byte of a later request, to the end of its headers."""

UNREAD_WITHIN_MS = 30_000
"""For so long nobody may take a byte of an answer that waits for him."""

MOST_PIPELINED = 16
"""Requests that were sent before the answer to the one before them; 18 bytes can make one of kilobytes."""

SAY_EVERY_S = 1.0

_GONE = select.POLLHUP | select.POLLERR | getattr(select, "POLLRDHUP", 0)

log = structlog.get_logger(__name__)


@dataclass
class _Crowd:
    """Whoever is half open at one server, and how many were sent away since it was said."""

    half_open: "Strangers[BoundedHttp]"
    sent_away: Counter[str] = field(default_factory=Counter)
    said_at: float = -SAY_EVERY_S

    def say(self, why: str, now: float) -> None:
        """A stranger must not write our log for us: one line a second."""
        self.sent_away[why] += 1
        metrics.strangers_closed.labels("http", why).inc()
        if now - self.said_at >= SAY_EVERY_S:
            log.info("connections that only held a place were closed", **self.sent_away)
            self.sent_away.clear()
            self.said_at = now


class BoundedHttp(HttpToolsProtocol):
    """uvicorn's protocol, which by itself takes headers of any size and waits for them for ever.

    Whoever has sent no whole head is half open, and so is whoever does not take an answer. When the process
    cannot hold more connections, or half of them are half open, or too many of one address, the oldest of
    those makes room.
    """

    of_one_address: ClassVar[int] = 0
    """So many of one address may be half open; 0: any number."""

    _deadline: asyncio.TimerHandle | None = None
    _untaken: asyncio.TimerHandle | None = None
    _untaken_bytes = 0
    _head_bytes = 0
    _refused = False
    _crowds: ClassVar[MutableMapping[Any, _Crowd]] = WeakKeyDictionary()

    @property
    def _crowd(self) -> _Crowd:
        crowd = self._crowds.get(self.server_state)
        if crowd is None:
            most = max(open_files.connections_max() // 2, 1)
            crowd = self._crowds[self.server_state] = _Crowd(Strangers(most, self.of_one_address))
        return crowd

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        # Whatever waits to be taken is told at once: uvicorn closes softly, and waits for it for ever.
        transport.set_write_buffer_limits(high=0)
        crowding = self._expect_a_head()
        if crowding is None and len(self.connections) > open_files.connections_max():
            oldest = self._crowd.half_open.oldest()
            crowding = (oldest, IN_ALL) if oldest is not None else None
        _make_room(crowding)

    def data_received(self, data: bytes) -> None:
        """As uvicorn, whose log a stranger writes: a line for each request that is none."""
        self._head_bytes += len(data)
        self._unset_keepalive_if_required()
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserError:
            if not self._refused:
                self._crowd.say("malformed", self.loop.time())
                self.send_400_response("Invalid HTTP request received.")
        except httptools.HttpParserUpgrade:
            if self._should_upgrade():
                self.handle_websocket_upgrade()
        if self._deadline is not None and self._head_bytes > LARGEST_HEAD_BYTES:
            self._refuse("too_large")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self._deadline is None:
            _make_room(self._expect_a_head())

    def on_headers_complete(self) -> None:
        self._head_came()
        if len(self.pipeline) >= MOST_PIPELINED:
            self._refused = True
            self._refuse("too_many_at_once")
            # The parser hears it, and reads no further; what is left of the bytes may be thousands more.
            raise _TooMany
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

    def handle_websocket_upgrade(self) -> None:
        """As uvicorn, for a peer that still waits.

        When thousands come back at once, or the processor is short, those behind the first give up before
        their turn and ask again. A handshake for nobody costs as much as one for somebody: the queue would
        never again be shorter than their patience.
        """
        if self._refused:
            # Its head was too large, and it is hung up on: nothing of it was kept.
            return
        if self._untaken is not None:
            # Its websocket would never be told to wait: the transport has told it already.
            self._refuse("unread")
        elif _has_given_up(self.transport):
            self._crowd.say("gave_up", self.loop.time())
            self.transport.abort()
        else:
            self.transport.set_write_buffer_limits()
            super().handle_websocket_upgrade()

    def pause_writing(self) -> None:
        """The peer has not taken what was sent."""
        super().pause_writing()
        _make_room(self._crowd.half_open.enter(self, network_of(self.client[0]) if self.client else ""))
        self._await_the_peer()

    def resume_writing(self) -> None:
        """It has now."""
        super().resume_writing()
        self._was_taken()

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_came()
        self._was_taken()
        # uvicorn forgets this timer when a connection breaks; it would hold on to it for seconds.
        self._unset_keepalive_if_required()
        super().connection_lost(exc)

    def _expect_a_head(self) -> "tuple[BoundedHttp, str] | None":
        """It is half open from now on; who makes room for it, and why."""
        self._head_bytes = 0
        self._deadline = self.loop.call_later(HEAD_WITHIN_MS / 1000, self._refuse, "too_slow")
        return self._crowd.half_open.enter(self, network_of(self.client[0]) if self.client else "")

    def _head_came(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        self._leave_the_crowd()

    def _await_the_peer(self) -> None:
        self._untaken_bytes = _waiting_bytes(self.transport)
        self._untaken = self.loop.call_later(UNREAD_WITHIN_MS / 1000, self._look_at_the_peer)

    def _look_at_the_peer(self) -> None:
        if _waiting_bytes(self.transport) < self._untaken_bytes:
            return self._await_the_peer()
        return self._refuse("unread")

    def _was_taken(self) -> None:
        if self._untaken is not None:
            self._untaken.cancel()
            self._untaken = None
        self._leave_the_crowd()

    def _leave_the_crowd(self) -> None:
        """Once its head came and its answers were taken: one alone of these frees no place."""
        if self._deadline is None and self._untaken is None:
            self._crowd.half_open.leave(self)

    def _refuse(self, why: str) -> None:
        # Who takes no answer may have been closed already, softly.
        is_held = self._untaken is not None or not self.transport.is_closing()
        self._head_came()
        self._was_taken()
        if is_held:
            self._crowd.say(why, self.loop.time())
            self.transport.abort()


class _TooMany(Exception):
    """More requests came at once than one connection may have waiting."""


def _waiting_bytes(transport: asyncio.Transport) -> int:
    """What the peer has not taken yet, here and in the kernel, where it tells: it may keep megabytes."""
    count = transport.get_write_buffer_size()
    with contextlib.suppress(OSError):
        told = fcntl.ioctl(transport.get_extra_info("socket").fileno(), termios.TIOCOUTQ, bytes(4))
        count += int.from_bytes(told, sys.byteorder)
    return count


def _make_room(crowding: tuple[BoundedHttp, str] | None) -> None:
    if crowding is not None:
        oldest, why = crowding
        oldest._refuse(why)


def bounded(of_one_address: int, kind: type[BoundedHttp] = BoundedHttp) -> type[BoundedHttp]:
    """The protocol for a server at which so many of one address may be half open; 0: any number."""
    return type(kind.__name__, (kind,), {"of_one_address": of_one_address})


def _has_given_up(transport: asyncio.BaseTransport) -> bool:
    """Whether the peer has closed its end already; where the system cannot tell, nobody has."""
    asked = select.poll()
    asked.register(transport.get_extra_info("socket"), _GONE)
    return bool(asked.poll(0))
