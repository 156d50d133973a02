"""This room bounds how many topics clients may have created through one door: a bucket of tokens.

Pure; Kafka's `controller_mutation_rate`, per door and for everybody, as long as nobody is known by name.
"""

from typing import Final

from muster.kernel.instants import Instant, elapsed_ms

BURST_TOPICS: Final = 1_000
TOPICS_PER_SECOND: Final = 5


class CreationQuota:
    """Tokens for topics; a request that finds any left is let in whole, and the next ones pay for it."""

    def __init__(
        self, now: Instant, burst: float = BURST_TOPICS, per_second: float = TOPICS_PER_SECOND
    ) -> None:
        self._burst = burst
        self._per_second = per_second
        self._tokens = burst
        self._seen_at = now

    def take(self, topics: int, now: Instant) -> int:
        """0 if they may be created; else after how many milliseconds to ask again."""
        gained = elapsed_ms(self._seen_at, now) * self._per_second / 1000
        self._tokens = min(self._burst, self._tokens + gained)
        self._seen_at = now
        if self._tokens > 0:
            self._tokens -= topics
            return 0
        return int(-self._tokens * 1000 / self._per_second) + 1
