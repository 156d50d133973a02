"""This room is the SDK's clock."""

import time

from muster.kernel.instants import Instant

# Goes on while the machine sleeps, where the system has such a clock: a session does not stand still.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def now() -> Instant:
    """Milliseconds of this machine's monotonic clock."""
    return Instant(time.clock_gettime_ns(_CLOCK) // 1_000_000)
