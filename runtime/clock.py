"""This room reads the node's own clock, which also runs while the machine sleeps (leases.md section 5)."""

import time

from muster.kernel.instants import Instant

# CLOCK_MONOTONIC stands still in a suspended machine, and a node would wake up believing its lease.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def now() -> Instant:
    """Milliseconds since this machine was started; only differences mean anything."""
    return Instant(time.clock_gettime_ns(_CLOCK) // 1_000_000)
