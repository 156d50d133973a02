"""This room is the place of one answer: where it goes, who may still want it, and how much waits for it."""

from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from kafkaserver.outbox import Piece
from muster.kafkawire.api_table import RequestHeader

HEARD_AGAIN_MS: Final = 20
"""A frame that a gate cannot answer yet is heard again so much later."""


class Gate(Protocol):
    """What one connection must say before its requests are heard."""

    @property
    def admitted(self) -> object | None:
        """Who it is, once that is proved."""

    @property
    def ended(self) -> str:
        """Why the connection is to be closed behind the last answer; empty: it is not."""

    @property
    def held(self) -> bytes:
        """The frame last heard, if it is to be heard again HEARD_AGAIN_MS later; b"": it is not."""

    def hear(self, frame: memoryview) -> bytes:
        """The whole frame to answer; b"": none. Raises KafkaWireError: the connection is closed."""

    def leave(self) -> None:
        """The connection is closed."""


class Known(Protocol):
    """A request that was said before, and what answers it."""

    request_bytes: int
    """How long it is, with its length."""

    def answer(self, frame: memoryview) -> bytes | None:
        """The whole answer to the request in `frame` if it is the same; None: it is to be read."""

    def answers(self, received: bytes) -> bytes | None:
        """All answers if this is nothing but the same request, once or more; None: it is to be cut and read.

        What it is judged by cannot change between two that were received together.
        """


class Repeated(Protocol):
    """A request that was said before but for some numbers."""

    def ask(self, received: bytes, reply: "Reply") -> None:
        """Serve it; `received` is the whole request, with its length."""


class Session(Protocol):
    """What a door keeps for one connection."""

    @property
    def known(self) -> Known | None:
        """What may be said again and is answered at once; None: everything is read."""

    def repeated(self, received: bytes) -> Repeated | None:
        """What this whole request, with its length, repeats; None: it is to be read."""

    def admitted(self, identity: object) -> None:
        """Its client has proved who it is."""

    def ended(self) -> None:
        """The connection is gone."""


class Asker(Protocol):
    """The connection whose requests are answered, in their order."""

    peer: str
    identity: object
    session: Any
    is_closed: bool

    def may_park(self, elements: int) -> bool:
        """False if the requests that wait at this door name too many partitions already."""

    def count_parked(self, elements: int) -> None:
        """So many partitions more, or fewer, are waited for."""

    def mute(self, for_ms: int) -> None:
        """Hear no further request for so long (KIP-219)."""

    def reply_resolved(self) -> None:
        """Another answer is there; it leaves when its turn comes."""

    def close(self, reason: str) -> None:
        """Hang up; answers that have not left are dropped."""


class Reply:
    """The place of one answer in its connection's order; resolve it once, now or later."""

    __slots__ = ("_connection", "_when_gone", "elements", "pieces")

    def __init__(self, connection: Asker) -> None:
        self._connection = connection
        self._when_gone: Callable[[], None] | None = None
        self.pieces: Sequence[Piece] | None = None
        self.elements = 0

    @property
    def peer(self) -> str:
        """Who asked, for log lines."""
        return self._connection.peer

    @property
    def identity(self) -> object:
        """Who passed the door's gate on this connection; None where there is no gate."""
        return self._connection.identity

    @property
    def session(self) -> Any:
        """What the door keeps for this connection; None where it keeps nothing."""
        return self._connection.session

    @property
    def is_wanted(self) -> bool:
        """False once the connection is gone: work for this answer may be dropped."""
        return not self._connection.is_closed

    def may_park(self, elements: int) -> bool:
        """False if the requests that wait at this door name too many partitions already."""
        return self._connection.may_park(elements)

    def park(self, elements: int, when_gone: Callable[[], None]) -> None:
        """This answer waits for `elements` partitions; `when_gone` is called if its connection ends first."""
        self.elements = elements
        self._when_gone = when_gone
        self._connection.count_parked(elements)

    def throttle(self, for_ms: int) -> None:
        """Whoever asked was told to wait for so long: nothing more of it is heard until then (KIP-219)."""
        if for_ms > 0:
            self._connection.mute(for_ms)

    def send(self, *pieces: Piece) -> None:
        """Answer with `pieces`; none at all means that this request has no answer (acks=0)."""
        self.pieces = pieces
        if self._when_gone is not None:
            self._unpark()
        self._connection.reply_resolved()

    def connection_ended(self) -> None:
        """Whoever works for this answer may stop."""
        when_gone = self._when_gone
        if when_gone is not None:
            self._unpark()
            when_gone()

    def _unpark(self) -> None:
        self._when_gone = None
        self._connection.count_parked(-self.elements)

    def hang_up(self, reason: str) -> None:
        """Close the connection: the only way to refuse a request that has no answer."""
        self._connection.close(reason)


Handler = Callable[[RequestHeader, memoryview, Reply], None]
"""Serves one request. The frame is valid only during the call: what is parked must not hold it.
Raises KafkaWireError for what the peer may not send: the connection is closed."""
