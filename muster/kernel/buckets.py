"""This room bounds how often somebody may do something, in bounded memory, without a table."""

from collections import OrderedDict
from collections.abc import Callable

MOST_KEYS = 10_000
"""Beyond it the one that was quiet for longest is forgotten: strangers cannot make this grow."""


class Buckets:
    """For each key `burst` at once, refilled at `per_second`; for one thread. `clock` says seconds."""

    def __init__(
        self, burst: int, per_second: float, clock: Callable[[], float], *, most_keys: int = MOST_KEYS
    ) -> None:
        self._burst = burst
        self._per_second = per_second
        self._most_keys = most_keys
        self._clock = clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._left)

    def wait_s(self, key: str) -> float:
        """Seconds until `key` may do it again; 0.0 if it may now. Takes nothing."""
        left = self._refilled(key, self._clock())
        return 0.0 if left >= 1 else (1 - left) / self._per_second

    def take(self, key: str) -> float:
        """Take one for `key`: 0.0, or the seconds until there is one again."""
        now = self._clock()
        left = self._refilled(key, now)
        taken = left >= 1
        self._left[key] = (left - 1 if taken else left, now)
        self._left.move_to_end(key)
        while len(self._left) > self._most_keys:
            self._left.popitem(last=False)
        return 0.0 if taken else (1 - left) / self._per_second

    def forget(self) -> None:
        """Begin anew with everybody."""
        self._left.clear()

    def _refilled(self, key: str, now: float) -> float:
        left, at = self._left.get(key, (float(self._burst), now))
        return min(float(self._burst), left + (now - at) * self._per_second)
