"""This room is one Kafka-protocol connection: a non-blocking socket of its own on the process's event loop.

The shape is `add_reader`, one receive buffer shared by all small connections, one send for each read event,
those of a loop turn together, and replies that leave in the order of their requests. It reached Kafka's
speed; asyncio's protocols did not.
"""

import asyncio
import contextlib
import socket
from collections import deque
from collections.abc import Callable
from typing import Final

import structlog

from kafkaserver.door import Door
from kafkaserver.outbox import FileEnded, Outbox
from kafkaserver.replies import HEARD_AGAIN_MS, Gate, Reply, Session
from kafkaserver.tls import TlsSocket
from muster.kafkawire.api_table import read_request_header
from muster.kafkawire.errors import KafkaWireError
from muster.kafkawire.framing import LENGTH_BYTES, SMALLEST_REQUEST_BYTES, frame_bytes

log = structlog.get_logger(__name__)

_BULK_BYTES: Final = 32 * 1024
_RECEIVES_PER_EVENT: Final = 8
_RECEIVES_AT_THE_END: Final = 64
_FIRST_BUFFER_BYTES: Final = 1024
_GATE_FRAME_BYTES: Final = 1024
_WHEN_SHORT_BYTES: Final = 16 * 1024
"""So much is received at once while memory is short."""

SERVE_AT_ONCE_S: Final = 0.02
"""For so long one connection is served before all others have their turn."""


class Connection:
    """One client: its bytes in, its frames to the handler, its replies out in order."""

    __slots__ = (
        "_buffer",
        "_filled",
        "_gate",
        "_in_read_event",
        "_mute",
        "_outbox",
        "_parked_elements",
        "_paused",
        "_replies",
        "_server",
        "_socket",
        "_starved_of_bytes",
        "_tls",
        "_wanted",
        "_writing",
        "identity",
        "is_closed",
        "peer",
        "session",
        "was_active",
        "whose",
    )

    def __init__(
        self,
        server: "Door[Connection]",
        connection: socket.socket | TlsSocket,
        peer: str,
        gate: Gate | None = None,
        session: Session | None = None,
    ) -> None:
        self._server, self._gate, self.session, self.peer = server, gate, session, peer
        self.identity: object = None
        self.whose = ""
        """With whom it shares its turns: an address, or the principal that it has proved to be."""
        self._socket = connection
        self._tls = connection if isinstance(connection, TlsSocket) else None
        self._buffer: memoryview | None = None
        self._filled = self._wanted = self._starved_of_bytes = 0
        self._replies: deque[Reply] = deque()
        self._outbox = Outbox()
        self._parked_elements = 0
        self._mute: tuple[float, asyncio.Handle] | None = None
        """Until when, by the loop's clock, its client has to wait; nothing that it sends is heard."""
        self._paused = self._writing = self._in_read_event = self.is_closed = False
        self.was_active = True

    # -- bytes in

    def on_readable(self) -> None:
        """Receive, serve every whole frame, send all answers together."""
        self.was_active = True
        if not self._server.turns.has(self):
            return
        self._guarded(self._receive)
        if self._tls is not None and not self.is_closed and self._tls.pending_bytes:
            # The kernel has handed these over already, and announces nothing.
            self._server.loop.call_soon(self.read_if_it_may)

    def take_turn(self) -> None:
        """Its turn has come: what was kept is served first. By now it may be closed, or wait."""
        if self._may_resume:
            self._resume()
        else:
            self.read_if_it_may()

    def look_again(self) -> None:
        """Its turn has come: until then the loop did not tell of it, for very many waited."""
        if not (self.is_closed or self._paused or self._starved_of_bytes or self._server.is_draining):
            self._server.loop.add_reader(self._socket, self.on_readable)

    def read_if_it_may(self) -> None:
        """As `on_readable`, of which the loop told nothing; by now it may be closed, or wait."""
        if not (self.is_closed or self._paused or self._starved_of_bytes or self._server.is_draining):
            self.on_readable()

    def _guarded(self, serve: Callable[[], None]) -> None:
        """Run `serve` and send what it answered; whatever it raises ends this connection, no other."""
        self._in_read_event = True
        try:
            serve()
            self._server.answered(self, self._outbox.waiting_bytes)
        except KafkaWireError as error:
            self._refuse(error)
        except OSError as error:
            self._server.lost(self.peer, error)
            self.close(f"connection lost: {error}")
        except Exception:
            self._failed("kafka_request_failed")
        finally:
            self._in_read_event = False
        if self._paused and self._may_resume:
            self._server.flush_soon(self)  # All of it left at once: nothing else comes by to read on.

    def _failed(self, what: str) -> None:
        self._server.counters.failed += 1
        log.exception(what, peer=self.peer)
        self.close("our own mistake")

    def _receive(self) -> None:
        """Take what the socket holds: into the shared buffer, or behind the large frame that has begun."""
        server = self._server
        until = server.loop.time() + SERVE_AT_ONCE_S
        for _ in range(_RECEIVES_PER_EVENT):
            if self._buffer is None:
                shared = server.shared_buffer
                buffer = shared[:_WHEN_SHORT_BYTES] if server.memory.is_short else shared
            elif self._is_small and not server.memory.is_short:
                # To copy what there is of a small frame costs less than to receive the frames one by one.
                buffer = server.shared_buffer
                buffer[: self._filled] = self._buffer[: self._filled]
            elif self._filled < len(self._buffer) or self._grow():
                buffer = self._buffer
            else:
                return
            filled = self._filled
            bulk = self._wanted - filled > _BULK_BYTES
            room = buffer[filled : min(self._wanted, len(buffer)) if bulk else None] if filled else buffer
            try:
                count = self._socket.recv_into(room)
            except BlockingIOError:
                return
            if count == 0:
                self.close("closed by the peer")
                return
            self._filled += count
            if not bulk or self._filled >= self._wanted:
                self._serve_frames(buffer, until)
            if self.is_closed or self._paused or not self._wanted:
                return  # Nothing of a frame is waiting: whatever else arrives brings its own event.
            if count < len(room) and self._tls is None:
                return  # Nothing more is here.

    def _serve_frames(self, buffer: memoryview, until: float) -> None:
        start, filled = 0, self._filled
        server = self._server
        limit_bytes = server.limits.request_bytes
        self._wanted = 0
        replies, outbox = self._replies, self._outbox
        while filled - start >= LENGTH_BYTES:
            most = limit_bytes if self._gate is None else _GATE_FRAME_BYTES
            length = frame_bytes(buffer, start, most, SMALLEST_REQUEST_BYTES)
            end = start + LENGTH_BYTES + length
            if end > filled:
                self._wanted = LENGTH_BYTES + length
                break
            self._serve(buffer[start + LENGTH_BYTES : end])
            start = end
            if self.is_closed:
                return
            # Mostly it was answered at once, so that hardly anything waits.
            some_wait = replies or outbox.waiting_bytes > server.few_bytes
            enough = some_wait and self._has_enough_waiting()
            if enough or self._mute is not None or (start < filled and server.loop.time() > until):
                self._pause()
                break
        if start < filled or self._buffer is not None:
            self._keep(buffer, start, filled)
        else:
            self._filled = 0

    # -- the buffer of a frame that has begun

    @property
    def _is_small(self) -> bool:
        return self._wanted <= _BULK_BYTES and self._buffer is not None and len(self._buffer) <= _BULK_BYTES

    def _keep(self, buffer: memoryview, start: int, filled: int) -> None:
        """Move the bytes of a frame that has only begun to the front of the connection's own buffer.

        The buffer follows the bytes that came, not those that were promised.
        """
        left = filled - start
        self._filled = left
        if left == 0:
            if self._buffer is not None and self._server.memory.is_short:
                self._hold(None)
            return
        if self._buffer is None or len(self._buffer) < left:
            size = max(left, min(self._wanted, 2 * left), _FIRST_BUFFER_BYTES)
            self._hold(memoryview(bytearray(size)))
        assert self._buffer is not None
        if start or buffer is not self._buffer:
            self._buffer[:left] = buffer[start:filled]

    def _grow(self) -> bool:
        """A buffer twice as large, at most the frame's size; False if it has to wait for memory."""
        assert self._buffer is not None
        held = len(self._buffer)
        more = min(2 * held, max(self._wanted, 2 * _BULK_BYTES)) - held
        server = self._server
        if server.memory.is_short:
            server.reclaim_buffers()
        if not server.memory.take(self, more):
            self._starved_of_bytes = more
            server.loop.remove_reader(self._socket)
            return False
        self._enlarge(more)
        return True

    def _enlarge(self, more: int) -> None:
        assert self._buffer is not None
        larger = memoryview(bytearray(len(self._buffer) + more))
        larger[: self._filled] = self._buffer[: self._filled]
        self._buffer = larger

    def read_on(self) -> None:
        """The memory that this connection waited for is counted as its own: receive the rest."""
        more, self._starved_of_bytes = self._starved_of_bytes, 0
        if self.is_closed or self._buffer is None:
            self._server.memory.give_back(more)
            return
        self._enlarge(more)
        if self._mute is not None:
            self._paused = True
        elif not self._server.is_draining:
            self._read_again()

    def _read_again(self) -> None:
        self._server.loop.add_reader(self._socket, self.on_readable)
        if self._tls is not None and self._tls.pending_bytes:
            self._server.loop.call_soon(self.read_if_it_may)

    def _hold(self, buffer: memoryview | None) -> None:
        """Own this buffer, or none, and count it."""
        memory = self._server.memory
        before, self._buffer = self._buffer, buffer
        if buffer is not None:
            memory.hold(len(buffer))
        if before is not None:
            memory.frame_served(self)
            memory.give_back(len(before))

    def _pass_gate(self, gate: Gate, frame: memoryview) -> None:
        answer = gate.hear(frame)
        if gate.held:
            self.mute(HEARD_AGAIN_MS)
        if gate.admitted is not None:
            self.identity, self._gate = gate.admitted, None
            self._server.admitted(self)
            if self.session is not None:
                self.session.admitted(self.identity)
        if answer:
            reply = Reply(self)
            self._replies.append(reply)
            reply.send(answer)
        if gate.ended:
            self._server.not_admitted(self.peer, gate.ended)
            self.flush_now()
            self.close_gracefully(gate.ended)

    def close_unless_admitted(self) -> None:
        """The time in which a peer must say who it is has passed."""
        if self._gate is not None:
            self._server.counters.late += 1
            self.close("it did not say who it is")

    def _serve(self, frame: memoryview) -> None:
        if self._gate is not None:
            self._pass_gate(self._gate, frame)
            return
        known = self.session.known if self.session is not None else None
        if known is not None and not self._replies and (answer := known.answer(frame)) is not None:
            self._outbox.put_answer(answer)
            self._server.counters.requests += 1
            return
        header = read_request_header(frame)
        reply = Reply(self)
        self._replies.append(reply)
        self._server.counters.requests += 1
        self._server.handler(header, frame, reply)

    def _refuse(self, error: KafkaWireError) -> None:
        self._server.frame_refused(self.peer, error)
        self.close(str(error))

    # -- too much waiting

    def _has_enough_waiting(self) -> bool:
        limits, outbox = self._server.limits, self._outbox
        return (
            len(self._replies) >= limits.parked_replies
            or outbox.waiting_bytes > limits.outbox_bytes
            or outbox.in_memory_bytes > limits.answers_bytes
            or self._parked_elements > limits.parked_elements
            or self._mute is not None
        )

    @property
    def _may_resume(self) -> bool:
        return self._paused and not self.is_closed and not self._has_enough_waiting()

    def may_park(self, elements: int) -> bool:
        """False if the requests that wait at this door name too many partitions already."""
        server = self._server
        return server.parked_elements + elements <= server.limits.parked_elements_in_all

    def count_parked(self, elements: int) -> None:
        """So many partitions more, or fewer, are waited for."""
        self._parked_elements += elements
        self._server.parked_elements += elements

    def mute(self, for_ms: int) -> None:
        """Hear no further request for so long; who is mute already stays so for the longer time."""
        loop = self._server.loop
        until = loop.time() + for_ms / 1000
        if self.is_closed or (self._mute is not None and self._mute[0] >= until):
            return
        if self._mute is not None:
            self._mute[1].cancel()
        self._mute = until, loop.call_at(until, self._unmute)
        # Whoever waits for memory is not read now, and pauses when that is there.
        if not (self._in_read_event or self._paused or self._starved_of_bytes):
            self._pause()

    @property
    def is_mute(self) -> bool:
        """True while its client has to wait."""
        return self._mute is not None

    def _unmute(self) -> None:
        self._mute = None
        self.was_active = True
        gate = self._gate
        if gate is not None and gate.held:
            self._guarded(lambda: self._pass_gate(gate, memoryview(gate.held)))
        self.flush()

    def _pause(self) -> None:
        self._paused = True
        self._server.loop.remove_reader(self._socket)

    def _resume(self) -> None:
        """Serve what arrived before the pause, then read on; a door that stops serves nothing more."""
        if self._server.is_draining:
            return
        self._paused = False
        self._guarded(self._serve_what_is_kept)
        if not self.is_closed and not self._paused:
            self._read_again()

    def _serve_what_is_kept(self) -> None:
        if self._buffer is not None and self._filled:
            self._serve_frames(self._buffer, self._server.loop.time() + SERVE_AT_ONCE_S)

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
            self.flush_now()
        except OSError as error:
            self.close(f"connection lost: {error}")
        except Exception:
            self._failed("kafka_answer_failed")  # Others are flushed behind it: they must not be forgotten.
        if self._paused and self._may_resume and self._server.turns.has(self):
            self._resume()

    def flush_now(self) -> None:
        """The same, and nothing else. Raises OSError."""
        outbox = self._outbox
        if self.is_closed or not (outbox.waiting_bytes or self._writing or outbox.counted_bytes):
            return
        try:
            done = outbox.send_to(self._socket)
        except FileEnded as error:
            self._server.counters.failed += 1
            log.warning("kafka_region_ended", peer=self.peer, reason=str(error))
            self.close(str(error))
            return
        if outbox.in_memory_bytes != outbox.counted_bytes:
            self._server.answers_grew(outbox.uncounted_bytes())
        if done == self._writing:
            self._writing = not done
            if done:
                self._server.loop.remove_writer(self._socket)
            else:
                self._server.loop.add_writer(self._socket, self._on_writable)

    @property
    def answers_bytes(self) -> int:
        """Bytes of answers in memory that the peer has not taken."""
        return self._outbox.in_memory_bytes

    def _on_writable(self) -> None:
        self.was_active = True
        self.flush()

    # -- the end

    @property
    def is_quiet(self) -> bool:
        """True if no request waits for an answer and every answer has left."""
        return self.is_closed or (not self._replies and not self._outbox.waiting_bytes)

    @property
    def is_idle(self) -> bool:
        """True if nothing happened since `was_active` was unset, and it waits for nothing but the peer.

        Whoever takes not one byte of its answers would else be held for ever, and they with it.
        """
        return not self.was_active and (self.is_quiet or self._outbox.waiting_bytes > 0)

    def stop_reading(self) -> None:
        """Take no further request; answers still leave."""
        if not self.is_closed:
            self._server.loop.remove_reader(self._socket)

    def rest(self) -> None:
        """Give back the memory of a connection on which nothing has happened for a while."""
        if not self._filled and self._buffer is not None:
            self._hold(None)

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
        if self._gate is not None:
            self._gate.leave()
        if self._mute is not None:
            self._mute[1].cancel()
            self._mute = None
        loop = self._server.loop
        loop.remove_reader(self._socket)
        loop.remove_writer(self._socket)
        self._socket.close()
        replies, self._replies = self._replies, deque()
        for reply in replies:
            reply.connection_ended()
        self._server.memory.leave(self)
        self._hold(None)
        counted_bytes, self._outbox = self._outbox.counted_bytes, Outbox()
        self._server.answers_grew(-counted_bytes)
        self._server.forget(self)
        if self.session is not None:
            self.session.ended()
        log.debug("kafka_connection_closed", peer=self.peer, reason=reason)
