"""This room is a pooler before PostgreSQL that refuses whoever comes, in the words of PgBouncer."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def refusing_pooler(words: str) -> Iterator[str]:
    """The address of one that says `words` to the first who comes."""
    said = f"SFATAL\0VFATAL\0C08P01\0M{words}\0\0".encode()
    with socket.create_server(("127.0.0.1", 0)) as pooler:

        def refuse() -> None:
            client, _ = pooler.accept()
            with client:
                client.recv(1_024)
                client.sendall(b"E" + (len(said) + 4).to_bytes(4, "big") + said)

        refusing = threading.Thread(target=refuse)
        refusing.start()
        port = pooler.getsockname()[1]
        yield f"postgresql://muster@127.0.0.1:{port}/muster?sslmode=disable&gssencmode=disable"
        refusing.join()
