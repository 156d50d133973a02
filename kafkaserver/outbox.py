"""This room holds what one connection has still to send: bytes and regions of files, in order."""

import os
import socket
from collections import deque
from collections.abc import Iterable
from typing import Final, Protocol

from kafkaserver.tls import TlsSocket

_MSG_MORE: Final = getattr(socket, "MSG_MORE", 0)
_JOINED_BYTES: Final = 256 * 1024


class OpenFile(Protocol):
    """A file that stays open as long as somebody holds the object."""

    def fileno(self) -> int: ...


class FileRegion:
    """Bytes of a file that will be sent with sendfile; holding the region keeps the file open."""

    __slots__ = ("file", "position", "size_bytes")

    def __init__(self, file: OpenFile, position: int, size_bytes: int) -> None:
        self.file = file
        self.position = position
        self.size_bytes = size_bytes

    def __len__(self) -> int:
        return self.size_bytes

    def copied(self) -> bytes:
        """The bytes themselves. Raises OSError."""
        return os.pread(self.file.fileno(), self.size_bytes, self.position)


Piece = bytes | memoryview | FileRegion


class FileEnded(Exception):
    """A file has become shorter than the region that was promised; the connection must be closed."""


class Outbox:
    """An ordered queue of pieces for one non-blocking socket."""

    __slots__ = ("_pieces", "counted_bytes", "in_memory_bytes", "waiting_bytes")

    def __init__(self) -> None:
        self._pieces: deque[Piece] = deque()
        self.waiting_bytes = 0
        self.in_memory_bytes = 0
        """Of the bytes that wait, those that are no region of a file."""
        self.counted_bytes = 0
        """So many of these has the door counted."""

    def uncounted_bytes(self) -> int:
        """How many more there are, or fewer, than the door has counted; it counts them now."""
        more = self.in_memory_bytes - self.counted_bytes
        self.counted_bytes += more
        return more

    def put(self, pieces: Iterable[Piece]) -> None:
        """Queue `pieces` behind what waits."""
        for piece in pieces:
            size_bytes = len(piece)
            self._pieces.append(piece)
            self.waiting_bytes += size_bytes
            if not isinstance(piece, FileRegion):
                self.in_memory_bytes += size_bytes

    def put_answer(self, answer: bytes | memoryview) -> None:
        """The same for one piece in memory."""
        size_bytes = len(answer)
        self._pieces.append(answer)
        self.waiting_bytes += size_bytes
        self.in_memory_bytes += size_bytes

    def send_to(self, connection: socket.socket | TlsSocket) -> bool:
        """Send as much as the socket takes; True if nothing is left.

        Raises OSError from the socket, FileEnded if a file was cut below a promised region.
        """
        pieces = self._pieces
        try:
            if len(pieces) == 1 and not isinstance(only := pieces[0], FileRegion):
                # Mostly it is one answer, and the socket takes all of it.
                sent = connection.send(only)
                pieces.clear()
                if sent == self.waiting_bytes:
                    self.waiting_bytes = self.in_memory_bytes = 0
                    return True
                self._took_of(only, sent)
            while pieces:
                head = pieces.popleft()
                if isinstance(head, FileRegion):
                    self._send_region(connection, head)
                else:
                    self._send_bytes(connection, head)
        except BlockingIOError:
            return False
        return True

    def _send_bytes(self, connection: socket.socket | TlsSocket, head: bytes | memoryview) -> None:
        """One send for all bytes up to the next region; the region's bytes join its last packet."""
        pieces = self._pieces
        if pieces and not isinstance(pieces[0], FileRegion):
            head = self._joined(head)
        try:
            sent = connection.send(head, _MSG_MORE if pieces else 0)
        except BlockingIOError:
            pieces.appendleft(head)
            raise
        self._took_of(head, sent)

    def _took_of(self, head: bytes | memoryview, sent: int) -> None:
        """The socket has taken so much of `head`, which is not in the queue any more."""
        self.waiting_bytes -= sent
        self.in_memory_bytes -= sent
        if sent < len(head):
            self._pieces.appendleft(memoryview(head)[sent:])

    def _joined(self, head: bytes | memoryview) -> bytes:
        pieces = self._pieces
        parts, size = [head], len(head)
        while pieces and size < _JOINED_BYTES:
            part = pieces[0]
            if isinstance(part, FileRegion):
                break
            parts.append(part)
            size += len(part)
            pieces.popleft()
        return b"".join(parts)

    def _send_region(self, connection: socket.socket | TlsSocket, region: FileRegion) -> None:
        source = region.file.fileno()
        try:
            if isinstance(connection, TlsSocket):
                sent = connection.send_region(source, region.position, region.size_bytes)
            else:
                sent = os.sendfile(connection.fileno(), source, region.position, region.size_bytes)
        except BlockingIOError:
            self._pieces.appendleft(region)
            raise
        if sent == 0:
            raise FileEnded(f"{region.size_bytes} bytes are missing behind {region.position}")
        self.waiting_bytes -= sent
        region.position += sent
        region.size_bytes -= sent
        if region.size_bytes:
            self._pieces.appendleft(region)
