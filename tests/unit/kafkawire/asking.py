"""This room is the asking side of one Kafka connection of a test, without a socket: bytes out, replies in."""

from collections import deque
from typing import Any, NamedTuple

from muster.kafkawire import api_table
from muster.kafkawire.errors import MalformedFrame
from muster.kafkawire.framing import DEFAULT_LIMIT_BYTES, LENGTH_BYTES, Buffer, frame_bytes


class Reply(NamedTuple):
    """The answer to one request; `body` is kio's class for its key and version."""

    correlation_id: int
    api_key: int
    body: Any


class ClientConnection:
    """Requests in flight on one connection, in order; replies come back in the same order.

    After any exception the connection must be closed: the stream cannot be found again.
    """

    def __init__(self, client_id: str, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> None:
        self.client_id = client_id
        self._limit_bytes = limit_bytes
        self._next_correlation_id = 0
        self._in_flight: deque[tuple[int, int, int]] = deque()
        self._received = bytearray()

    @property
    def in_flight(self) -> int:
        """How many requests are not answered yet."""
        return len(self._in_flight)

    def request(
        self, api_key: int, version: int, body: Any, *, expects_reply: bool = True
    ) -> tuple[int, bytes]:
        """(correlation id, the frame to send). Produce with acks=0 expects no reply."""
        correlation_id = self._next_correlation_id
        self._next_correlation_id = (correlation_id + 1) & 0x7FFFFFFF
        frame = api_table.encode_request(api_key, version, correlation_id, self.client_id, body)
        if expects_reply:
            self._in_flight.append((correlation_id, api_key, version))
        return correlation_id, frame

    def receive_data(self, data: Buffer) -> list[Reply]:
        """The replies that are complete now. Raises FrameTooLarge, MalformedFrame."""
        self._received += data
        replies = []
        start = 0
        view = memoryview(self._received)
        try:
            while len(view) - start >= LENGTH_BYTES:
                end = start + LENGTH_BYTES + frame_bytes(view, start, self._limit_bytes, LENGTH_BYTES)
                if end > len(view):
                    break
                replies.append(self._reply(view[start + LENGTH_BYTES : end]))
                start = end
        finally:
            view.release()
        del self._received[:start]
        return replies

    def _reply(self, frame: memoryview) -> Reply:
        with frame:
            correlation_id = api_table.correlation_id_of(frame)
            if not self._in_flight or self._in_flight[0][0] != correlation_id:
                raise MalformedFrame(f"a reply to {correlation_id}, which is not the oldest question")
            _, key, version = self._in_flight.popleft()
            start = api_table.reply_body_start(key, version, frame)
            # A reply that arrives whole is decoded once; kio copies the records out of the buffer.
            body = api_table.read_body(api_table.response_class(key, version), frame, start)
            return Reply(correlation_id, key, body)
