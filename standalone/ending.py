"""This room turns Ctrl-C, SIGTERM and the death of `make` into an orderly end of the process in front."""

import signal
import threading
from types import FrameType

from standalone.launch import die_with_parent


class EndRequested(BaseException):
    """Somebody asked this process to end; not an Exception, so that no handler of failures swallows it."""


def listen_for_the_end() -> threading.Event:
    """Raise EndRequested in the main thread at the first SIGINT or SIGTERM; the event is set as well."""
    requested = threading.Event()

    def end(number: int, frame: FrameType | None) -> None:
        if not requested.is_set():
            requested.set()
            raise EndRequested

    signal.signal(signal.SIGINT, end)
    signal.signal(signal.SIGTERM, end)
    return requested


def end_with_parent(started_by_make: str | None) -> None:
    """Under `make`, end in good order when make itself is killed: nobody would be left to press Ctrl-C."""
    if started_by_make:
        die_with_parent(0, signal.SIGTERM)
