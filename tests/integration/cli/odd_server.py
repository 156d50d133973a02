"""This room is a server that is not Muster's, or is in trouble: a real socket that answers as it is told."""

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

Answer = Callable[[socket.socket], None]


@contextmanager
def accepting(serve: Answer) -> Iterator[str]:
    """Host and port of a listener that gives each connection to `serve`, in a thread of its own."""
    listening = socket.create_server(("127.0.0.1", 0), backlog=64)

    def accept() -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(connection,), daemon=True).start()

    thread = threading.Thread(target=accept)
    thread.start()
    try:
        yield f"127.0.0.1:{listening.getsockname()[1]}"
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join()


@contextmanager
def stranger(answer: Answer, tls: Path | None = None, asked: list[bytes] | None = None) -> Iterator[str]:
    """The address of a server that answers each connection like this, once it was asked.

    `tls`: its certificate and key, but for .crt and .key. `asked` keeps what it was asked.
    """
    context = None
    if tls is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(tls.with_suffix(".crt"), tls.with_suffix(".key"))

    def serve(connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection:
            spoken = connection if context is None else context.wrap_socket(connection, server_side=True)
            with spoken:
                seen = spoken.recv(65536)
                if asked is not None:
                    asked.append(seen)
                answer(spoken)

    with accepting(serve) as place:
        yield f"http{'s' if tls else ''}://{place}"


def http(status: str, body: bytes, *headers: str) -> Answer:
    """Answers with this."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close", *headers, "", ""]
    return lambda connection: connection.sendall("\r\n".join(lines).encode() + body)


def said(text: bytes) -> Answer:
    """Says this, whatever it is, and hangs up."""
    return lambda connection: connection.sendall(text)


def endless(head: bytes, part: bytes) -> Answer:
    """Says the head, and then the part again and again until nobody reads any more."""

    def answer(connection: socket.socket) -> None:
        connection.sendall(head)
        while True:
            connection.sendall(part)

    return answer


def trickling(head: bytes) -> Answer:
    """Says the head and then a blank now and then, for ever: each read of its peer ends in time."""

    def answer(connection: socket.socket) -> None:
        connection.settimeout(0.02)
        connection.sendall(head)
        while True:
            try:
                if not connection.recv(65536):
                    return
            except TimeoutError:
                connection.sendall(b" ")

    return answer


def silent(connection: socket.socket) -> None:
    """Never answers: waits until the other one goes."""
    while connection.recv(65536):
        pass
