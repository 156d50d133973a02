"""This room names connections: all of a node by its run; one of each web and worker process by its version.

What PostgreSQL says of these two ends with the process: they have no row, and nobody has to clear one away.
"""

import os
import socket
from typing import Final

from kafkaserver.version import own_version

WEB: Final = "muster-web-listen"
"""Older versions call it this alone."""
WORKER: Final = "muster:worker:"
"""A worker's child has such a connection, but between the loss of one and its next work."""
_LONGEST: Final = 63
"""Bytes of a name that PostgreSQL keeps."""


def as_web() -> str:
    """What the connection is called on which a web process listens, as long as it runs."""
    return f"{WEB}:{_this_one(os.getpid())}"[:_LONGEST]


def as_worker(pid: int) -> str:
    """What stands behind WORKER in the name of the connection of a worker's child."""
    return f"w{_this_one(pid)}"[: _LONGEST - len(WORKER)]


def as_node(node: str, run: str) -> str:
    """What every connection of a run is called, and by which it can be ended; at most 63 bytes."""
    return f"muster:{node}:{run}"


def _this_one(pid: int) -> str:
    # The host last: it alone may be cut.
    return f"{pid}:{own_version()}:{socket.gethostname()}"
