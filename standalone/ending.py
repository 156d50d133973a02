"""This room turns Ctrl-C, SIGTERM, a closed terminal and the death of `make` into an orderly end in front."""

import signal
import time
from types import FrameType

from standalone.launch import die_with_parent

ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class EndRequested(BaseException):
    """Somebody asked this process to end; not an Exception, so that no handler of failures swallows it."""


class End:
    """Whether somebody asked this process to end.

    No `threading.Event`: who begins to wait for one holds its lock for a moment. A signal that comes in that
    moment is handled in the same thread, and to set the event would wait for the lock for ever.
    """

    def __init__(self) -> None:
        self._requested = False

    def is_set(self) -> bool:
        """True once somebody asked."""
        return self._requested

    def set(self) -> None:
        """Somebody asks."""
        self._requested = True

    def wait(self, seconds: float) -> bool:
        """Let so much time pass; EndRequested breaks it off in the main thread. True if it is the end."""
        if not self._requested:
            time.sleep(seconds)
        return self._requested


def listen_for_the_end() -> End:
    """Raise EndRequested in the main thread at the first SIGINT, SIGTERM or SIGHUP, and set what is returned.

    A SIGHUP that was ignored before stays so: that is what `nohup` asks for.
    """
    requested = End()

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
