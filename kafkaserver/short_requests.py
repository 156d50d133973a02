"""This room is a connection of a door whose clients say little at a time: mostly one whole request at once.

Such a request is served from the bytes as they were received, and one that is said again is answered with one
receive and one send. Whatever else comes goes the way of `kafkaserver.sockets`.
"""

import socket
from functools import partial
from typing import Final, Never

from kafkaserver.door import Door
from kafkaserver.replies import Gate, Reply, Session
from kafkaserver.sockets import SERVE_AT_ONCE_S, Connection
from muster.kafkawire.framing import LENGTH_BYTES, SMALLEST_REQUEST_BYTES

RECEIVED_BYTES: Final = 960
"""So many are received at first: Python and its C library keep such small pieces of memory at hand."""

_SMALLEST_FRAME_BYTES: Final = LENGTH_BYTES + SMALLEST_REQUEST_BYTES


class ShortRequests(Connection):
    """One client without TLS, of whom its door keeps something."""

    __slots__ = ("_kept", "_plain", "_received")

    def __init__(
        self, server: Door[Connection], connection: socket.socket, peer: str, gate: Gate | None, kept: Session
    ) -> None:
        super().__init__(server, connection, peer, gate, kept)
        self._plain = connection
        self._kept = kept
        self._received = b""

    def on_readable(self) -> None:
        """Receive, serve every whole frame, send all answers together."""
        if self._buffer is not None or self._replies or self._outbox.waiting_bytes or self._gate is not None:
            # What comes now belongs to what has begun, or is answered behind what waits.
            super().on_readable()
            return
        self.was_active = True
        if not self._server.turns.has(self):
            return
        try:
            received = self._plain.recv(RECEIVED_BYTES)
        except BlockingIOError:
            return
        except OSError as error:
            self.close(f"connection lost: {error}")
            return
        known = self._kept.known
        if known is not None:
            try:
                answers = known.answers(received)
            except Exception as error:
                self._guarded(partial(_fail, error))
                return
            if answers is not None:
                self._server.counters.requests += len(received) // known.request_bytes
                self._send_at_once(answers)
                return
        if received:
            self._received = received
            self._guarded(self._serve_received)
        else:
            self.close("closed by the peer")

    def _send_at_once(self, answers: bytes) -> None:
        """Nothing waits before these."""
        try:
            sent = self._plain.send(answers)
        except BlockingIOError:
            sent = 0
        except OSError as error:
            self.close(f"connection lost: {error}")
            return
        if sent < len(answers):
            self._outbox.put_answer(answers[sent:])
            self.flush()

    def _serve_received(self) -> None:
        received, self._received = self._received, b""
        size_bytes, server = len(received), self._server
        if size_bytes < RECEIVED_BYTES and _is_one_frame(received):
            repeated = self._kept.repeated(received)
            if repeated is None:
                self._serve(memoryview(received)[LENGTH_BYTES:])
            else:
                reply = Reply(self)
                self._replies.append(reply)
                server.counters.requests += 1
                repeated.ask(received, reply)
            some_wait = self._replies or self._outbox.waiting_bytes > server.few_bytes
            if not self.is_closed and (self._mute is not None or (some_wait and self._has_enough_waiting())):
                self._pause()
            return
        buffer = server.shared_buffer
        buffer[:size_bytes] = received
        self._filled = size_bytes
        self._serve_frames(buffer, server.loop.time() + SERVE_AT_ONCE_S)
        if size_bytes == RECEIVED_BYTES and not (self.is_closed or self._paused):
            self._receive()


def _is_one_frame(received: bytes) -> bool:
    size_bytes = len(received)
    promised = int.from_bytes(received[:LENGTH_BYTES], "big")
    return size_bytes >= _SMALLEST_FRAME_BYTES and promised == size_bytes - LENGTH_BYTES


def _fail(error: Exception) -> Never:
    raise error
