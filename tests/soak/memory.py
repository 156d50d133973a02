"""This room watches how much memory each process of a stack takes for itself, and whether that grows."""

import contextlib
import threading
import time
from collections import defaultdict
from collections.abc import Callable

import psutil

from standalone.stack import Stack

LOOK_EVERY_S = 5.0
YOUNG_S = 30.0
"""What a process takes in its first moments says nothing of whether it grows."""

GROWTH_MAX = 0.15
"""The last third of the run may show so much more than the first."""

NOISE_MB = 1.0
"""Redis has two; what a client's connection takes is a tenth of that."""

SHARES_PAGES = "postgres"
"""Its shared buffers fill up to their bound, and are empty after each restart: told, not judged."""


class Memory:
    """Samples every few seconds, until it is stopped."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        self._began = time.monotonic()
        self._samples: dict[str, list[tuple[float, float]]] = defaultdict(list)
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> None:
        """Look no further."""
        self._ending.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ending.wait(LOOK_EVERY_S):
            for row in self._stack.info["processes"]:
                with contextlib.suppress(psutil.Error):
                    process = psutil.Process(row["pid"]) if row["pid"] else None
                    if process is not None and time.time() - process.create_time() > YOUNG_S:
                        self._samples[row["name"]].append(
                            (time.monotonic() - self._began, _megabytes(process))
                        )

    def judged(self, say: Callable[[str], None], *, strict: bool) -> list[str]:
        """Tell of each process, and return whose memory grew by too much."""
        lasted_s = time.monotonic() - self._began
        found = []
        say(f"{'MB (PSS)':<14}{'first third':>12}{'last third':>12}{'growth':>9}{'most':>8}")
        for name, samples in sorted(self._samples.items()):
            first = [size for at, size in samples if at < lasted_s / 3]
            last = [size for at, size in samples if at > lasted_s * 2 / 3]
            if not first or not last:
                say(f"{name:<14}{'too young to say':>33}")
                continue
            before, after = sum(first) / len(first), sum(last) / len(last)
            growth = after / before - 1
            most = max(size for _, size in samples)
            say(f"{name:<14}{before:>12.1f}{after:>12.1f}{growth:>9.0%}{most:>8.1f}")
            judged = name != SHARES_PAGES and not name.startswith("clients-")
            if strict and judged and growth > GROWTH_MAX and after - before > NOISE_MB:
                found.append(f"{name} grew by {growth:.0%}, from {before:.1f} to {after:.1f} MB")
        return found


def _megabytes(process: psutil.Process) -> float:
    """Of the process and all below it, each shared page by the share that is theirs."""
    total = 0
    for one in (process, *process.children(recursive=True)):
        with contextlib.suppress(psutil.Error):
            total += one.memory_full_info().pss
    return total / 1_000_000
