"""This room watches how much of the machine others take: who gets no processor misses his session."""

import contextlib
import os
import threading
import time

import psutil

LOOK_EVERY_S = 2.0
BEFORE_S = 25.0
"""A session, and how long it takes until its end is noticed."""

OURS_BELOW = 0.25
"""Of all cores; when others take more, the soak says so and judges no session."""


class Machine:
    """Samples every two seconds, until the process ends."""

    def __init__(self) -> None:
        self._shares: list[tuple[float, float]] = []
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        me, cores = psutil.Process(), os.cpu_count() or 1
        ours, busy, at = _ours(me), _busy(), time.monotonic()
        while True:
            time.sleep(LOOK_EVERY_S)
            ours_now, busy_now, now = _ours(me), _busy(), time.monotonic()
            # A process that ended took along what it had used.
            used = max(ours_now - ours, 0.0)
            others = max(busy_now - busy - used, 0.0) / (now - at) / cores
            self._shares.append((time.time(), others))
            ours, busy, at = ours_now, busy_now, now

    def others(self, at: float) -> float:
        """Which share of the machine others took shortly before that moment of the wall clock."""
        shares = [share for when, share in self._shares if 0 <= at - when <= BEFORE_S]
        return sum(shares) / len(shares) if shares else 0.0

    @property
    def on_average(self) -> float:
        """The same over the whole run."""
        return sum(share for _, share in self._shares) / max(len(self._shares), 1)


def _busy() -> float:
    times = psutil.cpu_times()
    return sum(times) - times.idle - times.iowait


def _ours(me: psutil.Process) -> float:
    total = 0.0
    for one in (me, *me.children(recursive=True)):
        with contextlib.suppress(psutil.Error):
            times = one.cpu_times()
            total += times.user + times.system
    return total
