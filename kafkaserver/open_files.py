"""This room knows how many files, sockets among them, a process may open, and keeps its doors below that."""

import contextlib
import resource
from typing import Final

BACKLOG_MAX: Final = 2_048
"""A thousand members that come back at once must not be refused by the kernel."""

OTHER_FILES: Final = 128
"""For the database, for logs, and for whatever else is neither a listener nor accepted by one."""


def allow_many_files() -> None:
    """Raise the soft limit to the hard one: many shells give 1,024, for logs and connections together."""
    allowed, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if allowed != most:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def backlog() -> int:
    """How many connections the kernel may keep ready for a listener, and asyncio accepts in one go."""
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return min(allowed // 16, BACKLOG_MAX)


def connections_max() -> int:
    """How many connections a listener of asyncio's may hold.

    When Python 3.11 cannot accept, it tries on for the whole backlog, writes a traceback each time, and
    a second later as often again. It never must come to that: some rounds of the loop pass between an accept
    and the moment in which the protocol can hang up, each with a backlog of its own.
    """
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(allowed - 4 * backlog() - OTHER_FILES, 1)
