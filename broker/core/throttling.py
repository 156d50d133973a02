"""This room holds the token buckets by which replicas that are not in sync yet are sent and taken no faster.

Pure: time is an argument. What holds is derived from the partition's row each time, so it ends with the move
and nothing has to be taken away. A member of the ISR is never throttled (`throttle_isr`): acknowledgements
wait for it. Where a move's own rate and a configured one hold, both buckets are paid, so the smaller holds.
"""

from typing import Final

from muster.kernel.instants import Instant, elapsed_ms
from muster.messages.link.rows import PartitionRow

MOST_BUCKETS: Final = 100
"""Rates of moves that are remembered; the one used longest ago is forgotten."""
SENT_AT_ONCE_MS: Final = 500
"""What a leader may send at once after it was idle, as time at the rate."""
TAKEN_AT_ONCE_MS: Final = 1_000
"""The same of a follower: more, as its leader counts the same bytes before it."""
LOOK_AGAIN_MS: Final = 500
"""Who waits looks again so often at least: another rate may hold by then, or none."""
LEAST_WAIT_BYTES: Final = 64 * 1024
"""Who waits does so until this much may be sent, or a quarter of what may be at once: not byte by byte."""


class Bucket:
    """Tokens for bytes, `rate` of them each second; who finds enough may take more, and waits the longer."""

    __slots__ = ("_capacity", "_enough", "_seen_at", "_tokens", "rate")

    def __init__(self, rate: int, at_once_ms: int, now: Instant) -> None:
        self.rate = rate
        self._capacity = max(1.0, rate * at_once_ms / 1000)
        self._enough = min(self._capacity / 4, LEAST_WAIT_BYTES)
        self._tokens = 0.0
        self._seen_at = now

    def room(self, now: Instant) -> int:
        """How many bytes may go now; 0: wait."""
        self._refill(now)
        return int(self._tokens) + 1 if self._tokens >= self._enough else 0

    def wait_ms(self, now: Instant) -> int:
        """After how many milliseconds there is room."""
        self._refill(now)
        missing = self._enough - self._tokens
        return 0 if missing <= 0 else int(missing * 1000 / self.rate) + 1

    def take(self, size_bytes: int) -> None:
        """So many go; less than none were given back."""
        self._tokens = min(self._tokens - size_bytes, self._capacity)

    def _refill(self, now: Instant) -> None:
        gained = max(0, elapsed_ms(self._seen_at, now)) * self.rate / 1000
        self._tokens = min(self._tokens + gained, self._capacity)
        self._seen_at = now


class Throttle:
    """All that one broker sends as a leader, or all that it takes as a follower, of replicas that come."""

    def __init__(self, at_once_ms: int) -> None:
        self._at_once_ms = at_once_ms
        self._by_rate: dict[int, Bucket] = {}
        self._configured: Bucket | None = None

    def holding(
        self, row: PartitionRow, follower: int, configured_rate: int | None, now: Instant
    ) -> tuple[Bucket, ...]:
        """The buckets that `follower` of this partition has to find room in; none: as fast as it can.

        `configured_rate`: that of this broker, if its configs list the replica; None: they do not.
        """
        if follower in row.isr:
            return ()
        found = []
        if row.throttle > 0 and follower in row.adding:
            found.append(self._of_rate(row.throttle, now))
        if configured_rate is not None:
            rate = max(1, configured_rate)
            if self._configured is None or self._configured.rate != rate:
                self._configured = Bucket(rate, self._at_once_ms, now)
            found.append(self._configured)
        return tuple(found)

    def _of_rate(self, rate: int, now: Instant) -> Bucket:
        bucket = self._by_rate.pop(rate, None) or Bucket(rate, self._at_once_ms, now)
        if len(self._by_rate) >= MOST_BUCKETS:
            del self._by_rate[next(iter(self._by_rate))]
        self._by_rate[rate] = bucket
        return bucket


def room(buckets: tuple[Bucket, ...], now: Instant) -> int:
    """How many bytes find room in all of them; 0: wait."""
    return min(bucket.room(now) for bucket in buckets)


def wait_ms(buckets: tuple[Bucket, ...], now: Instant) -> int:
    """After how many milliseconds to look again: all of them have room, or other rates may hold. 0: now."""
    return min(LOOK_AGAIN_MS, max((bucket.wait_ms(now) for bucket in buckets), default=0))


def take(buckets: tuple[Bucket, ...], size_bytes: int) -> None:
    """So many bytes go through all of them; less than none are given back."""
    for bucket in buckets:
        bucket.take(size_bytes)
