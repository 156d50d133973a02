"""This room turns Ctrl-C, SIGTERM, a closed terminal and the death of `make` into an orderly end in front."""

import signal
import threading
from types import FrameType

from standalone.launch import die_with_parent

ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class EndRequested(BaseException):
    """Somebody asked this process to end; not an Exception, so that no handler of failures swallows it."""


def listen_for_the_end() -> threading.Event:
    """Raise EndRequested in the main thread at the first SIGINT, SIGTERM or SIGHUP; the event is set as well.

    A SIGHUP that was ignored before stays so: that is what `nohup` asks for.
    """
    requested = threading.Event()

    def end(number: int, frame: FrameType | None) -> None:
        if not requested.is_set():
            requested.set()
            raise EndRequested

    for number in ENDINGS:
        if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, end)
    return requested


def do_not_disturb() -> None:
    """From now on the end is under way: whoever presses Ctrl-C again does not break it off."""
    for number in ENDINGS:
        signal.signal(number, signal.SIG_IGN)


def end_with_parent(started_by_make: str | None) -> None:
    """Under `make`, end in good order when make itself is killed: nobody would be left to press Ctrl-C."""
    if started_by_make:
        die_with_parent(0, signal.SIGTERM)
