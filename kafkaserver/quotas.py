"""This room knows how much each client may send and fetch at this door, and how long it has to wait then.

Pure: time is an argument. Whose quota holds is Kafka's order (KIP-55, KIP-257): user and client id before
user before client id, and of each a name before its default. Rates are per broker. A bucket holds what one
second brings; who finds anything in it is served whole and pays for the rest by waiting (KIP-219).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from muster.kernel.client_quotas import ANONYMOUS, CONSUMER_BYTE_RATE, DEFAULT, PRODUCER_BYTE_RATE
from muster.kernel.instants import Instant, elapsed_ms
from muster.messages.link.quotas import QuotaKey, QuotaRow

LONGEST_WAIT_MS: Final = 300_000
"""Nobody is told to wait for longer, nor owes more: a quota that is raised is felt by then."""

MOST_BUCKETS: Final = 10_000
"""Of each kind, as client ids are words of strangers; beyond, the one used longest ago is forgotten."""


class Bucket:
    """Tokens for bytes: `rate` of them come each second, and as many fit in."""

    __slots__ = ("_rate", "_seen_at", "_tokens")

    def __init__(self, rate: int, now: Instant) -> None:
        self._rate = rate
        self._tokens = float(rate)
        self._seen_at = now

    def take(self, size_bytes: int, now: Instant) -> int:
        """They were sent; after how many milliseconds nothing is owed for them any more."""
        self._refill(now)
        self._tokens = max(self._tokens - size_bytes, -self._rate * LONGEST_WAIT_MS / 1000)
        return self._owed_ms()

    def wait_ms(self, now: Instant) -> int:
        """After how many milliseconds anything may be sent again; 0: now."""
        self._refill(now)
        return self._owed_ms()

    def change(self, rate: int, now: Instant) -> None:
        """Another rate holds from now on; what is owed stays owed."""
        self._refill(now)
        self._rate = rate
        self._tokens = min(self._tokens, rate)

    def _refill(self, now: Instant) -> None:
        gained = elapsed_ms(self._seen_at, now) * self._rate / 1000
        self._tokens = min(self._tokens + gained, float(self._rate))
        self._seen_at = now

    def _owed_ms(self) -> int:
        if self._tokens >= 0:
            return 0
        return min(int(-self._tokens * 1000 / self._rate) + 1, LONGEST_WAIT_MS)

    @property
    def rate(self) -> int:
        """Bytes per second."""
        return self._rate


@dataclass(slots=True)
class Throttled:
    """How often clients were told to wait, and for how long in all."""

    answers: int = 0
    wait_ms: int = 0


class _Kind:
    """Quotas and buckets of one direction."""

    def __init__(self) -> None:
        self._rates: dict[QuotaKey, int] = {}
        self._buckets: dict[QuotaKey, Bucket] = {}
        self.throttled = Throttled()

    def know(self, rates: dict[QuotaKey, int]) -> None:
        """These rates hold; a bucket that stands gets its own when it is used next."""
        self._rates = rates
        if not rates:
            self._buckets.clear()

    @property
    def is_bounded(self) -> bool:
        """True if anybody has a quota."""
        return bool(self._rates)

    def bucket(self, user: str, client_id: str, now: Instant) -> Bucket | None:
        """Of whoever shares a quota with this client; None: it has none."""
        found = self._find(user, client_id)
        if found is None:
            return None
        key, rate = found
        bucket = self._buckets.pop(key, None)
        if bucket is None:
            bucket = Bucket(rate, now)
            if len(self._buckets) >= MOST_BUCKETS:
                del self._buckets[next(iter(self._buckets))]
        elif bucket.rate != rate:
            bucket.change(rate, now)
        self._buckets[key] = bucket
        return bucket

    def _find(self, user: str, client_id: str) -> tuple[QuotaKey, int] | None:
        """Who shares the bucket, and its rate: everybody of a default has a bucket of his own."""
        rates = self._rates
        for named_user in (user, DEFAULT, None):
            for named_client in (client_id, DEFAULT, None):
                rate = rates.get((named_user, named_client))
                if rate is not None:
                    shared_by = (
                        None if named_user is None else user,
                        None if named_client is None else client_id,
                    )
                    return shared_by, rate
        return None


class ClientQuotas:
    """The quotas of one process, as the controller last told them."""

    def __init__(self) -> None:
        self._produce = _Kind()
        self._fetch = _Kind()

    def know(self, rows: Iterable[QuotaRow]) -> None:
        """These hold from now on, and no others."""
        known = list(rows)
        self._produce.know({row.key: rate for row in known if (rate := row.producer_byte_rate) is not None})
        self._fetch.know({row.key: rate for row in known if (rate := row.consumer_byte_rate) is not None})

    @property
    def throttled(self) -> dict[str, Throttled]:
        """What clients were told so far, by what their quota is called."""
        return {PRODUCER_BYTE_RATE: self._produce.throttled, CONSUMER_BYTE_RATE: self._fetch.throttled}

    @property
    def bound_producers(self) -> bool:
        """True if anybody has a quota of what it sends."""
        return self._produce.is_bounded

    def produced(self, principal: str, client_id: str | None, size_bytes: int, now: Instant) -> int:
        """Count a request; how many milliseconds its client has to wait now."""
        return _take(self._produce, principal, client_id, size_bytes, now)

    def fetched(self, principal: str, client_id: str | None, size_bytes: int, now: Instant) -> int:
        """Count an answer; how many milliseconds its client has to wait now."""
        return _take(self._fetch, principal, client_id, size_bytes, now)

    def room_to_fetch(self, principal: str, client_id: str | None, now: Instant) -> tuple[int, int] | None:
        """How many milliseconds it has to wait before anything is fetched, and what one answer may hold.

        None: whatever it likes.
        """
        if not self._fetch.is_bounded:
            return None
        bucket = self._fetch.bucket(principal or ANONYMOUS, client_id or "", now)
        if bucket is None:
            return None
        wait_ms = bucket.wait_ms(now)
        _count(self._fetch.throttled, wait_ms)
        return wait_ms, bucket.rate


def _take(kind: _Kind, principal: str, client_id: str | None, size_bytes: int, now: Instant) -> int:
    if not kind.is_bounded:
        return 0
    bucket = kind.bucket(principal or ANONYMOUS, client_id or "", now)
    if bucket is None:
        return 0
    wait_ms = bucket.take(size_bytes, now)
    _count(kind.throttled, wait_ms)
    return wait_ms


def _count(throttled: Throttled, wait_ms: int) -> None:
    if wait_ms:
        throttled.answers += 1
        throttled.wait_ms += wait_ms
