"""This room knows how much each client may send and fetch at this door, and how long it has to wait then.

Pure: time is an argument. Whose quota holds is Kafka's order (KIP-55, KIP-257): user and client id before
user before client id, and of each a name before its default. Rates are per broker. A bucket holds what one
second brings; who finds anything in it is served whole and pays for the rest by waiting (KIP-219).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from muster.kernel.client_quotas import (
    ANONYMOUS,
    CONSUMER_BYTE_RATE,
    DEFAULT,
    NAME_LENGTH,
    PRODUCER_BYTE_RATE,
)
from muster.kernel.instants import Instant, after, elapsed_ms
from muster.messages.link.condition import ThrottledClient
from muster.messages.link.quotas import QuotaKey, QuotaRow

LONGEST_WAIT_MS: Final = 300_000
"""Nobody is told to wait for longer, nor owes more: a quota that is raised is felt by then."""

MOST_BUCKETS: Final = 10_000
"""Of each kind, as client ids are words of strangers; beyond, the one used longest ago is forgotten."""

STILL_MS: Final = 5_000
"""Whoever was made to wait and is over with it for no longer is told of as waiting still: he goes on."""


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


@dataclass(slots=True)
class _Waiting:
    """Somebody who is made to wait, time and again, since `began_at`; of the latest time how long."""

    began_at: Instant
    until: Instant
    wait_ms: int
    answers: int


class _Kind:
    """Quotas and buckets of one direction."""

    def __init__(self) -> None:
        self._rates: dict[QuotaKey, int] = {}
        self._buckets: dict[QuotaKey, Bucket] = {}
        self._waiting: dict[QuotaKey, _Waiting] = {}
        """By whoever shares the bucket, the latest last; no more than there are buckets."""
        self.throttled = Throttled()

    def know(self, rates: dict[QuotaKey, int]) -> None:
        """These rates hold; a bucket that stands gets its own when it is used next."""
        self._rates = rates
        if not rates:
            self._buckets.clear()
            self._waiting.clear()

    @property
    def is_bounded(self) -> bool:
        """True if anybody has a quota."""
        return bool(self._rates)

    def bucket(self, user: str, client_id: str, now: Instant) -> tuple[QuotaKey, Bucket] | None:
        """Whoever shares a quota with this client, and theirs; None: it has none."""
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
        return key, bucket

    def count(self, key: QuotaKey, wait_ms: int, now: Instant) -> None:
        """They were told to wait for so long; 0: they were not."""
        if not wait_ms:
            return
        self.throttled.answers += 1
        self.throttled.wait_ms += wait_ms
        waiting = self._waiting.pop(key, None)
        if waiting is None or _is_over(waiting, now):
            waiting = _Waiting(now, now, 0, 0)
            if len(self._waiting) >= MOST_BUCKETS:
                del self._waiting[next(iter(self._waiting))]
        waiting.until, waiting.wait_ms = after(now, wait_ms), wait_ms
        waiting.answers += 1
        self._waiting[key] = waiting

    def waiting(self, quota: str, now: Instant) -> list[ThrottledClient]:
        """Who is made to wait at this time; `quota` is what this kind is called."""
        self._waiting = {key: one for key, one in self._waiting.items() if not _is_over(one, now)}
        return [
            ThrottledClient(
                user=key[0],
                client_id=key[1],
                quota=quota,
                rate=self._buckets[key].rate if key in self._buckets else 0,
                wait_ms=one.wait_ms,
                answers=one.answers,
                age_ms=elapsed_ms(one.began_at, now),
            )
            for key, one in self._waiting.items()
        ]

    def _find(self, user: str, client_id: str) -> tuple[QuotaKey, int] | None:
        """Who shares the bucket, and its rate: everybody of a default has a bucket of his own."""
        rates = self._rates
        for named_user in (user, DEFAULT, None):
            for named_client in (client_id, DEFAULT, None):
                rate = rates.get((named_user, named_client))
                if rate is not None:
                    shared_by = (
                        None if named_user is None else user,
                        None if named_client is None else _told(client_id),
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

    def waiting(self, now: Instant) -> list[ThrottledClient]:
        """Who is made to wait at this time, the longest wait first."""
        found = self._produce.waiting(PRODUCER_BYTE_RATE, now) + self._fetch.waiting(CONSUMER_BYTE_RATE, now)
        return sorted(found, key=lambda one: -one.wait_ms)

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

    @property
    def bounds_fetches(self) -> bool:
        """Whether anybody's fetches have a quota: where nobody's have, they need not be counted."""
        return self._fetch.is_bounded

    def room_to_fetch(self, principal: str, client_id: str | None, now: Instant) -> tuple[int, int] | None:
        """How many milliseconds it has to wait before anything is fetched, and what one answer may hold.

        None: whatever it likes.
        """
        if not self._fetch.is_bounded:
            return None
        found = self._fetch.bucket(principal or ANONYMOUS, client_id or "", now)
        if found is None:
            return None
        key, bucket = found
        wait_ms = bucket.wait_ms(now)
        self._fetch.count(key, wait_ms, now)
        return wait_ms, bucket.rate


def _told(client_id: str) -> str:
    """How it is remembered and told: a client id is a stranger's word, 32 KB of whatever he likes, and a ping
    names fifty of them. Those that begin alike share what each of a default has.
    """
    if len(client_id) > NAME_LENGTH:
        client_id = client_id[: NAME_LENGTH - 1] + "…"
    if client_id.isprintable():
        return client_id
    return "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in client_id)


def _take(kind: _Kind, principal: str, client_id: str | None, size_bytes: int, now: Instant) -> int:
    if not kind.is_bounded:
        return 0
    found = kind.bucket(principal or ANONYMOUS, client_id or "", now)
    if found is None:
        return 0
    key, bucket = found
    wait_ms = bucket.take(size_bytes, now)
    kind.count(key, wait_ms, now)
    return wait_ms


def _is_over(waiting: _Waiting, now: Instant) -> bool:
    return now >= after(waiting.until, STILL_MS)
