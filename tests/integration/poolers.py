"""This room is poolers before PostgreSQL: one that refuses whoever comes, and one that lets everybody in."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from psycopg.conninfo import conninfo_to_dict, make_conninfo

_WHO_ANSWERS = b"K\0\0\0\x0c"
"""How BackendKeyData begins: four bytes of a process id follow."""


@contextmanager
def refusing_pooler(words: str) -> Iterator[str]:
    """The address of one that says `words`, as PgBouncer would, to the first who comes."""
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


@contextmanager
def pooler(url: str) -> Iterator[str]:
    """The address of one that hands on whatever is said, and calls itself the server's process."""
    server = conninfo_to_dict(url)
    with socket.create_server(("127.0.0.1", 0)) as door:

        def take() -> None:
            with suppress(OSError):
                while True:
                    client, _ = door.accept()
                    place = (str(server["host"]), int(str(server["port"])))
                    behind = socket.create_connection(place)
                    for pair in ((client, behind), (behind, client)):
                        threading.Thread(target=_hand_on, args=pair, daemon=True).start()

        threading.Thread(target=take, daemon=True).start()
        own = {"host": "127.0.0.1", "port": door.getsockname()[1], "sslmode": "disable"}
        yield make_conninfo(url, gssencmode="disable", **own)
        door.shutdown(socket.SHUT_RDWR)


def _hand_on(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError), source, target:
        while said := source.recv(65_536):
            before, found, behind = said.partition(_WHO_ANSWERS)
            target.sendall(before + found + b"\0\0\0\1" + behind[4:] if found else said)
