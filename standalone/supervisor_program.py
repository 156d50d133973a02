"""This room is supervisor's own program: a disk without room costs lines of logs, not the stack.

Supervisor tells of a line that it could not write, where it cannot write that either, and ends by it, with
all of its children. It lets go of a file that it could not close, and writes to none any more.
"""

import contextlib
from typing import Any

from supervisor import loggers, supervisord

_tell = loggers.Handler.handleError
_roll_over = loggers.RotatingFileHandler.doRollover


def tell_if_that_is_possible(handler: Any) -> None:
    """Tell of what was not written; a line that cannot be told is lost."""
    with contextlib.suppress(OSError):
        _tell(handler)


def roll_over_if_that_is_possible(handler: Any) -> None:
    """Begin another file where one is full; without room for that go on in the one that is there."""
    with contextlib.suppress(OSError):
        if handler.stream.closed:
            _open_again(handler)
        _roll_over(handler)
    if handler.stream.closed:
        with contextlib.suppress(OSError):
            _open_again(handler)


def _open_again(handler: Any) -> None:
    handler.stream = open(handler.baseFilename, "ab")  # noqa: SIM115  # it stays open


def main() -> None:
    """Be supervisord, told by the command line."""
    loggers.Handler.handleError = tell_if_that_is_possible
    loggers.RotatingFileHandler.doRollover = roll_over_if_that_is_possible
    supervisord.main()


if __name__ == "__main__":
    main()
