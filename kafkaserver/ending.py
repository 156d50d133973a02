"""This room ends a process that has done all it had to, whatever its threads wait for."""

import os
import threading
from typing import Final

THREADS_END_WITHIN_S: Final = 2.0


def end_without_threads(within_s: float = THREADS_END_WITHIN_S) -> None:
    """Exit with 0 when so many seconds have passed, unless the process ended by itself before.

    Python waits for each thread of a pool, and one that asks for the address of a name cannot be cut off: it
    has no socket of ours, and the system may ask for minutes.
    """
    timer = threading.Timer(within_s, os._exit, (0,))
    timer.daemon = True
    timer.start()
