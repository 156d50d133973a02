"""This room is TLS on a door's own non-blocking sockets: the same calls as a socket's, slower, no sendfile.

OpenSSL may hold bytes that it has decrypted and that the kernel will never announce: `pending_bytes` tells.
"""

import os
import socket
import ssl
import time
from pathlib import Path
from typing import Final

import structlog

from kafkaserver.certificate_end import end_of, what_is_wrong

_CHUNK_BYTES: Final = 64 * 1024

log = structlog.get_logger(__name__)


class TlsSocket:
    """One accepted connection behind TLS; the handshake happens with the first bytes.

    Where a socket would block, all methods raise BlockingIOError, as a socket does.
    """

    def __init__(self, connection: ssl.SSLSocket) -> None:
        self._connection = connection

    @property
    def pending_bytes(self) -> int:
        """Decrypted and not received yet."""
        return self._connection.pending()

    def fileno(self) -> int:
        """The descriptor, for the loop."""
        return self._connection.fileno()

    def recv_into(self, room: memoryview) -> int:
        """Fill `room` as far as bytes are there; 0 if the peer has closed. Raises OSError."""
        filled = 0
        while filled < len(room):
            try:
                count = self._connection.recv_into(room[filled:])
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                break
            if not count:
                return filled
            filled += count
        if not filled:
            raise BlockingIOError
        return filled

    def send(self, data: bytes | memoryview, _flags: int = 0) -> int:
        """Send `data`, all of it or, with BlockingIOError, none that counts. Raises OSError."""
        try:
            return self._connection.send(data)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError) as error:
            raise BlockingIOError from error

    def send_region(self, source: int, position: int, size_bytes: int) -> int:
        """Send bytes of the file `source`; the bytes that left, 0 at its end. Raises OSError."""
        chunk = os.pread(source, min(size_bytes, _CHUNK_BYTES), position)
        return self.send(chunk) if chunk else 0

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def why_tls_failed(error: ssl.SSLError) -> str:
    """Who gave up, and OpenSSL's word for why."""
    reason = error.reason or type(error).__name__
    if "_ALERT_" in reason:
        return f"the client ended TLS: {reason}"
    return f"what the client says is not the TLS that is spoken here: {reason}"


class Certificate:
    """A certificate chain and its key in files, which are read again when they change."""

    def __init__(self, chain: Path, key: Path) -> None:
        """Raises OSError, ssl.SSLError if they cannot be used."""
        self._chain, self._key = chain, key
        self._stamp = self._stamp_of_files()
        self._missing = ""
        self._context = self._read()
        self.ends_at = self._end()
        """As a Unix time in seconds; None: it could not be found out."""

    def wrap(self, accepted: socket.socket) -> TlsSocket:
        """Put TLS before an accepted, non-blocking connection. Raises OSError for one that is gone."""
        # Python would take it for one that is to be connected, and leave what it made of it open.
        accepted.getpeername()
        self.read_again_if_changed()
        return TlsSocket(
            self._context.wrap_socket(
                accepted, server_side=True, do_handshake_on_connect=False, suppress_ragged_eofs=True
            )
        )

    def _read(self) -> ssl.SSLContext:
        """A context of its own: one into which half a pair was read has lost the pair that it had."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        # Each costs us a handshake and the peer nothing.
        context.options |= ssl.OP_NO_RENEGOTIATION
        # A key that wants a password is refused: OpenSSL would ask for it at the terminal, and wait.
        context.load_cert_chain(self._chain, self._key, password="")
        return context

    def _stamp_of_files(self) -> tuple[int, ...]:
        """A key that this process may read at last was written no later than before."""
        stats = (os.stat(self._chain), os.stat(self._key))
        return tuple(
            number for one in stats for number in (one.st_mtime_ns, one.st_ctime_ns, one.st_size, one.st_ino)
        )

    def read_again_if_changed(self) -> None:
        """Called before each connection, and now and then.

        Whatever is wrong with the new files, the old certificate is served until they are right.
        What is wrong is said once, however many connect meanwhile.
        """
        try:
            stamp = self._stamp_of_files()
        except OSError as error:
            if str(error) != self._missing:
                self._missing = str(error)
                self._say_why(error)
            return
        self._missing = ""
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self._context = self._read()
            self.ends_at = self._end()
        except (OSError, ssl.SSLError) as error:
            self._say_why(error)

    def _end(self) -> float | None:
        """Who serves a certificate that ends soon is told so once; its metric goes on saying when."""
        ends_at = end_of(self._context, self._chain)
        wrong = "" if ends_at is None else what_is_wrong(ends_at, time.time())
        if wrong:
            log.warning("certificate_ends", file=str(self._chain), reason=wrong)
        return ends_at

    def _say_why(self, error: Exception) -> None:
        """OpenSSL does not say which of the two files it means."""
        log.warning("certificate_not_read", file=str(self._chain), key=str(self._key), reason=str(error))
