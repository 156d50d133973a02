"""This room is the Kafka-protocol sockets: own non-blocking connections on the process's event loop.

The shape is `add_reader`, one receive buffer shared by all small connections, one send for each
read event, and replies that leave in the order of their requests however late they are resolved.
It is the shape that reached Kafka's speed in plain Python; asyncio's streams and protocols did not.
"""

import asyncio
import contextlib
import socket
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import structlog

from kafkaserver.outbox import FileEnded, Outbox, Piece
from muster.kafkawire.api_table import RequestHeader, read_request_header
from muster.kafkawire.errors import FrameTooLarge, KafkaWireError
from muster.kafkawire.framing import DEFAULT_LIMIT_BYTES, LENGTH_BYTES, SMALLEST_REQUEST_BYTES, frame_bytes

log = structlog.get_logger(__name__)

_SHARED_BUFFER_BYTES: Final = 256 * 1024
_BULK_BYTES: Final = 32 * 1024
_RECEIVES_PER_EVENT: Final = 8
_RECEIVES_AT_THE_END: Final = 64


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """What a stranger may make this door do."""

    request_bytes: int = DEFAULT_LIMIT_BYTES
    connections: int = 5_000
    idle_ms: int = 600_000
    """Kafka's `connections.max.idle.ms`."""
    parked_replies: int = 128
    """Requests of one connection that may wait for an answer before it is read no further."""
    outbox_bytes: int = 64 * 1024 * 1024
    """Bytes that may wait for one connection before it is read no further."""


@dataclass(slots=True)
class ServerCounters:
    """What happened at this door since it was opened."""

    accepted: int = 0
    refused: int = 0
    requests: int = 0
    malformed: int = 0
    oversize: int = 0
    idle: int = 0
    failed: int = 0
    """Closed because of our own mistake, not the peer's."""


class Reply:
    """The place of one answer in its connection's order; resolve it once, now or later."""

    __slots__ = ("_connection", "pieces")

    def __init__(self, connection: "Connection") -> None:
        self._connection = connection
        self.pieces: Sequence[Piece] | None = None

    @property
    def peer(self) -> str:
        """Who asked, for log lines."""
        return self._connection.peer

    @property
    def is_wanted(self) -> bool:
        """False once the connection is gone: work for this answer may be dropped."""
        return not self._connection.is_closed

    def send(self, *pieces: Piece) -> None:
        """Answer with `pieces`; none at all means that this request has no answer (acks=0)."""
        self.pieces = pieces
        self._connection.reply_resolved()

    def hang_up(self, reason: str) -> None:
        """Close the connection: the only way to refuse a request that has no answer."""
        self._connection.close(reason)


Handler = Callable[[RequestHeader, memoryview, Reply], None]
"""Serves one request. The frame is valid only during the call: what is parked must not hold it.
Raises KafkaWireError for what the peer may not send: the connection is closed."""


class Connection:
    """One client: its bytes in, its frames to the handler, its replies out in order."""

    __slots__ = (
        "_buffer",
        "_filled",
        "_in_read_event",
        "_outbox",
        "_paused",
        "_replies",
        "_server",
        "_socket",
        "_wanted",
        "_writing",
        "is_closed",
        "peer",
        "was_active",
    )

    def __init__(self, server: "KafkaServer", connection: socket.socket, peer: str) -> None:
        self._server = server
        self._socket = connection
        self.peer = peer
        self._buffer: memoryview | None = None
        self._filled = 0
        self._wanted = 0
        self._replies: deque[Reply] = deque()
        self._outbox = Outbox()
        self._in_read_event = False
        self._paused = False
        self._writing = False
        self.is_closed = False
        self.was_active = True

    # -- bytes in

    def on_readable(self) -> None:
        """Receive, serve every whole frame, send all answers together."""
        self.was_active = True
        self._guarded(self._receive)

    def _guarded(self, serve: Callable[[], None]) -> None:
        """Run `serve` and send what it answered; whatever it raises ends this connection, no other."""
        self._in_read_event = True
        try:
            serve()
            self._flush()
        except KafkaWireError as error:
            self._refuse(error)
        except OSError as error:
            self.close(f"connection lost: {error}")
        except Exception:
            self._server.counters.failed += 1
            log.exception("kafka_request_failed", peer=self.peer)
            self.close("our own mistake")
        finally:
            self._in_read_event = False
        if self._paused and not self.is_closed and not self._has_enough_waiting():
            # All of it left at once, so nothing else will come by to read on.
            self._server.flush_soon(self)

    def _receive(self) -> None:
        """Take what the socket holds: into the shared buffer, or behind the frame that has begun."""
        for _ in range(_RECEIVES_PER_EVENT):
            buffer = self._buffer
            if buffer is None:
                buffer = self._server.shared_buffer
            elif self._filled == len(buffer):
                buffer = self._grow(buffer)
            bulk = self._wanted - self._filled > _BULK_BYTES
            room = buffer[self._filled : min(self._wanted, len(buffer))] if bulk else buffer[self._filled :]
            try:
                count = self._socket.recv_into(room)
            except BlockingIOError:
                return
            if count == 0:
                self.close("closed by the peer")
                return
            self._filled += count
            if not bulk or self._filled >= self._wanted:
                self._serve_frames(buffer)
            if self.is_closed or self._paused or not self._wanted:
                # Nothing of a frame is waiting: whatever else arrives brings its own event.
                return

    def _grow(self, buffer: memoryview) -> memoryview:
        """A buffer twice as large, at most the frame's size: memory follows bytes, not promises."""
        larger = memoryview(bytearray(min(2 * len(buffer), max(self._wanted, 2 * _BULK_BYTES))))
        larger[: self._filled] = buffer[: self._filled]
        self._buffer = larger
        return larger

    def _serve_frames(self, buffer: memoryview) -> None:
        start, filled = 0, self._filled
        limit_bytes = self._server.limits.request_bytes
        self._wanted = 0
        while filled - start >= LENGTH_BYTES:
            length = frame_bytes(buffer, start, limit_bytes, SMALLEST_REQUEST_BYTES)
            end = start + LENGTH_BYTES + length
            if end > filled:
                self._wanted = LENGTH_BYTES + length
                break
            self._serve(buffer[start + LENGTH_BYTES : end])
            start = end
            if self.is_closed:
                return
            if self._has_enough_waiting():
                self._pause()
                break
        self._keep(buffer, start, filled)

    def _keep(self, buffer: memoryview, start: int, filled: int) -> None:
        """Move the bytes of a frame that has only begun to the front of the connection's own buffer."""
        left = filled - start
        self._filled = left
        if left == 0:
            return
        if self._buffer is None:
            self._buffer = memoryview(bytearray(max(left, min(self._wanted, 2 * _SHARED_BUFFER_BYTES), 1024)))
        if start or buffer is not self._buffer:
            self._buffer[:left] = buffer[start:filled]

    def _serve(self, frame: memoryview) -> None:
        header = read_request_header(frame)
        reply = Reply(self)
        self._replies.append(reply)
        self._server.counters.requests += 1
        self._server.handler(header, frame, reply)

    def _refuse(self, error: KafkaWireError) -> None:
        counters = self._server.counters
        if isinstance(error, FrameTooLarge):
            counters.oversize += 1
        else:
            counters.malformed += 1
        log.warning("kafka_frame_refused", peer=self.peer, kind=type(error).__name__, reason=str(error))
        self.close(str(error))

    # -- too much waiting

    def _has_enough_waiting(self) -> bool:
        limits = self._server.limits
        return len(self._replies) >= limits.parked_replies or self._outbox.waiting_bytes > limits.outbox_bytes

    def _pause(self) -> None:
        self._paused = True
        self._server.loop.remove_reader(self._socket)

    def _resume(self) -> None:
        """Serve what arrived before the pause, then read on."""
        self._paused = False
        self._guarded(self._serve_what_is_kept)
        if not self.is_closed and not self._paused and not self._server.is_draining:
            self._server.loop.add_reader(self._socket, self.on_readable)

    def _serve_what_is_kept(self) -> None:
        if self._buffer is not None and self._filled:
            self._serve_frames(self._buffer)

    # -- replies out

    def reply_resolved(self) -> None:
        """Move every answer whose turn has come into the outbox."""
        replies = self._replies
        while replies and replies[0].pieces is not None:
            self._outbox.put(replies.popleft().pieces or ())
        if not self._in_read_event and not self.is_closed:
            self._server.flush_soon(self)

    def flush(self) -> None:
        """Send what waits; the rest leaves when the socket takes more."""
        if self.is_closed:
            return
        try:
            self._flush()
        except OSError as error:
            self.close(f"connection lost: {error}")
        if self._paused and not self.is_closed and not self._has_enough_waiting():
            self._resume()

    def _flush(self) -> None:
        if self.is_closed:
            return
        try:
            done = self._outbox.send_to(self._socket)
        except FileEnded as error:
            self._server.counters.failed += 1
            log.warning("kafka_region_ended", peer=self.peer, reason=str(error))
            self.close(str(error))
            return
        if done == self._writing:
            self._writing = not done
            if done:
                self._server.loop.remove_writer(self._socket)
            else:
                self._server.loop.add_writer(self._socket, self._on_writable)

    def _on_writable(self) -> None:
        self.was_active = True
        self.flush()

    # -- the end

    @property
    def is_quiet(self) -> bool:
        """True if no request waits for an answer and every answer has left."""
        return self.is_closed or (not self._replies and not self._outbox.waiting_bytes)

    def stop_reading(self) -> None:
        """Take no further request; answers still leave."""
        if not self.is_closed:
            self._server.loop.remove_reader(self._socket)

    def rest(self) -> None:
        """Give back the memory of a connection on which nothing has happened for a while."""
        if not self._filled:
            self._buffer = None

    def close_gracefully(self, reason: str) -> None:
        """Hang up without a reset: one would take answers away that the client has not read yet."""
        if self.is_closed:
            return
        with contextlib.suppress(OSError):
            for _ in range(_RECEIVES_AT_THE_END):
                if not self._socket.recv_into(self._server.shared_buffer):
                    break
        self.close(reason)

    def close(self, reason: str) -> None:
        """Hang up; answers that have not left are dropped."""
        if self.is_closed:
            return
        self.is_closed = True
        loop = self._server.loop
        loop.remove_reader(self._socket)
        loop.remove_writer(self._socket)
        self._socket.close()
        self._replies.clear()
        self._buffer = None
        self._outbox = Outbox()
        self._server.forget(self)
        log.debug("kafka_connection_closed", peer=self.peer, reason=reason)


class KafkaServer:
    """One listening address and its connections, served on the running event loop."""

    def __init__(self, name: str, handler: Handler, limits: ServerLimits | None = None) -> None:
        self.name = name
        self.handler = handler
        self.limits = limits or ServerLimits()
        self.counters = ServerCounters()
        self.shared_buffer = memoryview(bytearray(_SHARED_BUFFER_BYTES))
        self.is_draining = False
        self._connections: set[Connection] = set()
        self._to_flush: set[Connection] = set()
        self._listening: socket.socket | None = None
        self._sweep: asyncio.TimerHandle | None = None
        self.loop: asyncio.AbstractEventLoop

    @property
    def connection_count(self) -> int:
        """How many clients are connected."""
        return len(self._connections)

    def listen(self, host: str, port: int) -> int:
        """`bind`, then `accept`; returns the port. Raises OSError."""
        bound = self.bind(host, port)
        self.accept()
        return bound

    def bind(self, host: str, port: int) -> int:
        """Hold the address without taking anybody; returns the port, chosen by the system if 0 was asked.

        Until `accept` clients are refused at once, so that they ask another broker. Raises OSError.
        """
        self.loop = asyncio.get_running_loop()
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.socket(family, socket.SOCK_STREAM)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind((host, port))
            listening.setblocking(False)
        except OSError:
            listening.close()
            raise
        self._listening = listening
        bound: int = listening.getsockname()[1]
        return bound

    def accept(self) -> None:
        """Take clients from now on; nothing happens when it does already, or was drained."""
        if self._listening is None or self._sweep is not None:
            return
        self._listening.listen(1024)
        self.loop.add_reader(self._listening, self._accept)
        self._arm_sweep()

    def _accept(self) -> None:
        assert self._listening is not None
        for _ in range(64):
            try:
                accepted, address = self._listening.accept()
            except BlockingIOError:
                return
            except OSError as error:
                log.warning("kafka_accept_failed", listener=self.name, reason=str(error))
                return
            if len(self._connections) >= self.limits.connections:
                self.counters.refused += 1
                accepted.close()
                continue
            accepted.setblocking(False)
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection = Connection(self, accepted, f"{address[0]}:{address[1]}")
            self._connections.add(connection)
            self.counters.accepted += 1
            self.loop.add_reader(accepted, connection.on_readable)

    def flush_soon(self, connection: Connection) -> None:
        """Send this connection's outbox once, after everything else of this loop turn."""
        if not self._to_flush:
            self.loop.call_soon(self._flush_all)
        self._to_flush.add(connection)

    def _flush_all(self) -> None:
        waiting, self._to_flush = self._to_flush, set()
        for connection in waiting:
            connection.flush()

    def forget(self, connection: Connection) -> None:
        """A connection is gone."""
        self._connections.discard(connection)

    def _arm_sweep(self) -> None:
        self._sweep = self.loop.call_later(self.limits.idle_ms / 1000, self._close_idle)

    def _close_idle(self) -> None:
        """Close what was silent for one whole sweep, so after one to two times the idle limit."""
        for connection in list(self._connections):
            if not connection.was_active and connection.is_quiet:
                self.counters.idle += 1
                connection.close("idle")
            else:
                connection.was_active = False
                connection.rest()
        self._arm_sweep()

    async def drain(self, grace_ms: int) -> None:
        """Accept nothing more, let answers leave for at most `grace_ms`, then close everything."""
        self.is_draining = True
        if self._sweep is not None:
            self._sweep.cancel()
        if self._listening is not None:
            self.loop.remove_reader(self._listening)
            self._listening.close()
            self._listening = None
        for connection in list(self._connections):
            connection.stop_reading()
        deadline = self.loop.time() + grace_ms / 1000
        while self.loop.time() < deadline and not all(c.is_quiet for c in self._connections):
            await asyncio.sleep(0.01)
        for connection in list(self._connections):
            connection.close_gracefully("the server stops")
