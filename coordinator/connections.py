"""This room holds the websockets of members on this node: who is on them, and what waits to be sent.

Each connection has a bounded outbox and a writer while something waits in it, so that a peer that does not
read holds up nobody: its outbox overflows and it is closed.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from itertools import count
from secrets import token_hex
from typing import Any

from coordinator.core.events import ConnectionId
from muster.kernel.error_codes import ErrorCode
from muster.kernel.instants import Instant
from muster.kernel.scopes import EVERYTHING
from muster.messages import codec, limits
from muster.messages.errors import GOING_AWAY_CLOSE, NORMAL_CLOSE, POLICY_VIOLATION_CLOSE
from muster.messages.member import Frame, RegisterConsumerResponse

logger = logging.getLogger("muster.coordinator")

OUTBOX_FRAMES_MAX = 10_000
OUTBOX_BYTES_MAX = 16 * 1024 * 1024
"""A StartFetcher that names 100,000 partitions has 2 MB; a peer that lets eight of those lie is cut off."""

OUTBOXES_BYTES_MAX = 256 * 1024 * 1024
"""Of all connections of a node, beside what lies in their sockets; above it, who lets most lie is cut off."""

TEXT_COSTS_BYTES = 150
"""What a text that waits costs beside its letters."""

UNANSWERED_CHARACTERS = 64 * 1024
"""Of a connection's commits; who has more is read no further until some are answered. Taken apart and judged
they cost up to thirty times as much, and whoever says them may not wait for one of them.
"""

CLOSE_REASON_BYTES_MAX = 123
"""RFC 6455 section 5.5: a control frame carries at most 125 bytes, two of which are the code."""

CLOSE_WITHIN_S = 5.0
"""How long a peer that reads nothing may keep its connection after the decision to hang up."""

INTERNAL_ERROR_CLOSE = 1011

_CLOSE_OF = {
    ErrorCode.NONE: NORMAL_CLOSE,
    ErrorCode.NOT_COORDINATOR: GOING_AWAY_CLOSE,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: GOING_AWAY_CLOSE,
    ErrorCode.UNKNOWN_SERVER_ERROR: INTERNAL_ERROR_CLOSE,
}

Send = Callable[[dict[str, Any]], Awaitable[None]]
Rest = Callable[[], Callable[[], None]]
"""Reads nothing more from the peer until what is returned is called."""

SayNow = Callable[[bytes], bool]
"""Sends a text at once; False, and nothing is sent, when it would have to wait."""

_run = token_hex(4)
_numbers = count(1)


def never_now(payload: bytes) -> bool:
    """For servers without a short way: everything is sent by the writer."""
    return False


class MemberConnection:
    """One websocket of a consumer; `group_id` and `consumer_id` are set by its RegisterConsumer.

    `closing` is true from the decision to close on: what the peer still says is not heard. `is_member` is
    how its last RegisterConsumer was answered; None: none was yet. `is_asking`: its ClusterMetadata is held.
    """

    __slots__ = (
        "_close",
        "_count",
        "_end_socket",
        "_outbox",
        "_outbox_bytes",
        "_patience",
        "_read_on",
        "_say_now",
        "_send",
        "_writer",
        "closing",
        "consumer_id",
        "group_id",
        "groups",
        "id",
        "is_asking",
        "is_member",
        "peer",
        "presented",
        "principal",
        "shard",
        "topics",
        "unanswered_characters",
        "unanswered_commits",
        "verified_at",
    )

    def __init__(
        self, send: Send, peer: str, principal: str, presented: str, say_now: SayNow = never_now
    ) -> None:
        self.id = ConnectionId(f"{_run}-{next(_numbers)}")
        self.peer = peer
        self.principal = principal
        self.presented = presented
        self.group_id: str | None = None
        self.consumer_id: str | None = None
        self.shard: int | None = None
        self.closing = False
        self.is_member: bool | None = None
        self.is_asking = False
        self.unanswered_commits = 0
        self.unanswered_characters = 0
        self.verified_at = Instant(0)
        # What its token is good for.
        self.groups = self.topics = EVERYTHING
        self._send = send
        self._say_now = say_now
        self._outbox: deque[tuple[str, int]] | None = None
        self._outbox_bytes = 0
        self._count: Callable[[int], None] = _nobody_counts
        self._close: tuple[int, str] | None = None
        self._end_socket: Callable[[], None] | None = None
        self._writer: asyncio.Task[None] | None = None
        self._patience: asyncio.TimerHandle | None = None
        self._read_on: Callable[[], None] | None = None

    def begin(self, end_socket: Callable[[], None]) -> None:
        """The handshake is over: what waits may leave. `end_socket` is called when nothing more will."""
        self._end_socket = end_socket
        if self._outbox or self._close:
            self._write_on()

    def commit_came(self, characters: int) -> None:
        """It is to be answered."""
        self.unanswered_commits += 1
        self.unanswered_characters += characters

    def commit_answered(self, characters: int) -> None:
        """One of those that came."""
        self.unanswered_commits -= 1
        self.unanswered_characters -= characters
        if self.unanswered_characters < UNANSWERED_CHARACTERS:
            self._rest_no_more()

    def rest_until_answered(self, rest: Rest) -> None:
        """Read no further while too much of what was read is unanswered."""
        if self._read_on is None and not self.closing:
            self._read_on = rest()

    def _rest_no_more(self) -> None:
        if self._read_on is not None:
            read_on, self._read_on = self._read_on, None
            read_on()

    @property
    def waiting_bytes(self) -> int:
        """What its outbox costs, with the text that the server is about to send."""
        return self._outbox_bytes

    def count_by(self, count: Callable[[int], None]) -> None:
        """Tell `count` of each change of `waiting_bytes`."""
        self._count = count

    async def end(self) -> None:
        """The socket is gone."""
        self.closing, self._end_socket, self._read_on = True, None, None
        if self._writer is not None:
            self._writer.cancel()
            await asyncio.wait([self._writer])
        self._forget_patience()

    def say(self, message: Frame) -> None:
        """Send a message, at once if nothing waits before it; an overflowing outbox closes the connection."""
        if isinstance(message, RegisterConsumerResponse):
            self.is_member = message.error_code == ErrorCode.NONE
        encoded = codec.encode(message)
        # What is said while a text waits for its peer comes after it.
        waits = self._outbox or self._writer or self.closing
        if waits or not self._say_now(encoded):
            self.say_text(encoded.decode())

    def say_text(self, text: str) -> None:
        """Put an encoded message into the outbox."""
        if self.closing:
            return
        size_bytes = limits.bytes_of(text) + TEXT_COSTS_BYTES
        if self._outbox is None:
            self._outbox = deque()
        self._outbox.append((text, size_bytes))
        self._outbox_changes(size_bytes)
        if len(self._outbox) > OUTBOX_FRAMES_MAX or self._outbox_bytes > OUTBOX_BYTES_MAX:
            self.does_not_read()
        self._write_on()

    def does_not_read(self) -> None:
        """Close it, or let it close, without what lies in its outbox."""
        logger.warning("connection %s of %s does not read", self.id, self.principal)
        if self._outbox is not None:
            given_up = sum(size_bytes for _, size_bytes in self._outbox)
            self._outbox.clear()
            self._outbox_changes(-given_up)
        self.close(POLICY_VIOLATION_CLOSE, "the outbox is full")

    def _outbox_changes(self, by_bytes: int) -> None:
        self._outbox_bytes += by_bytes
        self._count(by_bytes)

    def hang_up(self, error: ErrorCode, text: str) -> None:
        """End it as a coordinator does (callers.Caller): the close tells the error and the text."""
        self.close(_CLOSE_OF.get(error, POLICY_VIOLATION_CLOSE), _reason(error, text))

    def close(self, close_code: int, reason: str) -> None:
        """Close after what lies in the outbox; nothing more is heard or said."""
        if not self.closing:
            self.closing = True
            encoded = reason.encode()[:CLOSE_REASON_BYTES_MAX]
            self._close = (close_code, encoded.decode(errors="ignore"))
            # Its answer to the close is to be read.
            self._rest_no_more()
            self._write_on()

    def _write_on(self) -> None:
        """See to it that somebody writes: most of the day nothing waits, and a task is kilobytes."""
        if self._end_socket is None:
            return
        if self._writer is None:
            self._writer = asyncio.create_task(self._write(), name=f"writer of {self.id}")
        if self._close is not None:
            # A peer that does not let the farewell through in time is not waited for.
            self._forget_patience()
            loop = asyncio.get_running_loop()
            self._patience = loop.call_later(CLOSE_WITHIN_S, self._writer.cancel)

    def _forget_patience(self) -> None:
        """For seconds the timer would hold on to all that this connection holds."""
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    async def _write(self) -> None:
        """Send what lies in the outbox, and the close if there is one."""
        over = True
        try:
            while self._outbox:
                text, size_bytes = self._outbox.popleft()
                try:
                    await self._send({"type": "websocket.send", "text": text})
                finally:
                    # Until then it waits for the peer as well, in the server.
                    self._outbox_changes(-size_bytes)
            over, self._outbox = self._close is not None, None
            if self._close is not None:
                close_code, reason = self._close
                await self._send({"type": "websocket.close", "code": close_code, "reason": reason})
        except Exception as gone:
            logger.debug("connection %s: %r", self.id, gone)
        finally:
            self._writer = None
            self._forget_patience()
            if over and self._end_socket is not None:
                self._end_socket()


class Connections:
    """All member connections of this node, by id, and how many each principal holds."""

    def __init__(self, *, max_connections: int, max_connections_per_principal: int) -> None:
        self._open: dict[ConnectionId, MemberConnection] = {}
        self._of_principal: dict[str, int] = {}
        self._max = max_connections
        self._max_per_principal = max_connections_per_principal
        self._waiting_bytes = 0

    def __len__(self) -> int:
        return len(self._open)

    def has_room_for(self, principal: str) -> bool:
        """False when the node, or this principal, holds as many connections as it may."""
        held = self._of_principal.get(principal, 0)
        return len(self._open) < self._max and held < self._max_per_principal

    def add(self, connection: MemberConnection) -> None:
        """The handshake of `connection` was accepted."""
        self._open[connection.id] = connection
        connection.count_by(self._waits)
        self._of_principal[connection.principal] = self._of_principal.get(connection.principal, 0) + 1

    def remove(self, connection: MemberConnection) -> None:
        """The socket is gone."""
        if self._open.pop(connection.id, None) is not None:
            connection.count_by(_nobody_counts)
            self._waiting_bytes -= connection.waiting_bytes
            left = self._of_principal[connection.principal] - 1
            if left:
                self._of_principal[connection.principal] = left
            else:
                del self._of_principal[connection.principal]

    def all(self) -> list[MemberConnection]:
        """Every open connection."""
        return list(self._open.values())

    def _waits(self, more_bytes: int) -> None:
        """The outboxes grew by so much, or shrank."""
        self._waiting_bytes += more_bytes
        if more_bytes > 0 and self._waiting_bytes > OUTBOXES_BYTES_MAX:
            # Who is being closed keeps one text at most, and not for long.
            open_ones = (one for one in self._open.values() if not one.closing)
            if (largest := max(open_ones, key=lambda one: one.waiting_bytes, default=None)) is not None:
                logger.warning("what waits for all members takes more than %d bytes", OUTBOXES_BYTES_MAX)
                largest.does_not_read()


def _nobody_counts(_bytes: int) -> None:
    """Of a connection that is not open yet, or gone."""


def _reason(error: ErrorCode, text: str) -> str:
    if error is ErrorCode.NONE:
        return text
    if error is ErrorCode.NOT_COORDINATOR:
        # What follows the word is an address.
        return f"{error.name} {text}".rstrip()
    return f"{error.name}: {text}" if text else error.name
