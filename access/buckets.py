"""This room bounds how often somebody may do something, for the threads of one process."""

import threading
from collections.abc import Callable
from time import monotonic

from muster.kernel import buckets


class Buckets(buckets.Buckets):
    """The same, safe for threads."""

    def __init__(
        self,
        burst: int,
        per_second: float,
        *,
        most_keys: int = buckets.MOST_KEYS,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        super().__init__(burst, per_second, clock, most_keys=most_keys)
        self._lock = threading.Lock()

    def wait_s(self, key: str) -> float:
        with self._lock:
            return super().wait_s(key)

    def take(self, key: str) -> float:
        with self._lock:
            return super().take(key)

    def forget(self) -> None:
        with self._lock:
            super().forget()
