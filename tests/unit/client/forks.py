"""This room forks the process of a test: the child tells what came of it by a pipe, and ends at once."""

import logging
import os
from collections.abc import Callable


def told_by_a_child(act: Callable[[Callable[[str], None]], None]) -> list[str]:
    """What the child said by the function that `act` gets, and what the SDK logged there, in their order."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            told: list[str] = []
            said = logging.Handler()
            said.emit = lambda record: told.append(record.getMessage())  # type: ignore[method-assign]
            logging.getLogger("muster.client").addHandler(said)
            act(told.append)
            os.write(write, "|".join(told).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    os.close(write)
    heard = os.read(read, 1_000).decode()
    os.close(read)
    return heard.split("|")
