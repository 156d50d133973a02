"""This room knows whether this node may answer: how old its last renewal is (leases.md section 5)."""

import asyncio
from collections.abc import Callable

from muster.kernel.instants import Instant, elapsed_ms

LEASE_TTL_MS = 5_000

STALLED_AFTER_MS = 200
"""A loop that has not ticked for so long was stopped: nothing is decided before expiries are postponed."""


class Freshness:
    """The age of the last renewal, counted from the *sending* of the one that was last confirmed.

    `frozen` is asked at every answer, not only by a timer: a process that was stopped wakes up in the
    middle of whatever it was doing.
    """

    def __init__(self, clock: Callable[[], Instant], lease_ttl_ms: int = LEASE_TTL_MS) -> None:
        self._clock = clock
        self._lease_ttl_ms = lease_ttl_ms
        self._confirmed_sent_at: Instant | None = None
        self._announced = True
        self._thawed = asyncio.Event()
        self._ticked_at: Instant | None = None

    @property
    def age_ms(self) -> int:
        """Since the last confirmed renewal was sent; lease_ttl if there was none yet."""
        if self._confirmed_sent_at is None:
            return self._lease_ttl_ms
        return elapsed_ms(self._confirmed_sent_at, self._clock())

    @property
    def frozen(self) -> bool:
        """True while nothing may be answered, expired, taken or ended."""
        return self.frozen_at(self._clock())

    @property
    def stalled(self) -> bool:
        """True between waking up from a stop and the tick that postpones expiries; False without ticks.

        Answers that expire nothing (pings) are still allowed: the lease is ours.
        """
        return self.stalled_at(self._clock())

    @property
    def resting(self) -> bool:
        """True while nothing may be decided: what the clock shows may yet be given back."""
        return self.resting_at(self._clock())

    def resting_at(self, now: Instant) -> bool:
        """The same for whoever has looked at the clock already, which shows `now`."""
        return self.frozen_at(now) or self.stalled_at(now)

    def frozen_at(self, now: Instant) -> bool:
        """`frozen`, as well."""
        sent_at = self._confirmed_sent_at
        return self._announced or sent_at is None or now - sent_at >= self._lease_ttl_ms

    def stalled_at(self, now: Instant) -> bool:
        """`stalled`, as well."""
        return self._ticked_at is not None and now - self._ticked_at > STALLED_AFTER_MS

    def tick(self, now: Instant) -> None:
        """The loop runs, and everybody was told how late it is."""
        self._ticked_at = now

    @property
    def announced(self) -> bool:
        """True until `thaw`, also when the last renewal is young again."""
        return self._announced

    def confirm(self, sent_at: Instant) -> None:
        """A renewal that was sent at `sent_at` found our run alive."""
        self._confirmed_sent_at = sent_at

    def forget(self) -> None:
        """Our run has ended: its renewals count for nothing."""
        self._confirmed_sent_at = None
        self.freeze()

    def freeze(self) -> None:
        """Stay frozen until `thaw`, which follows only after expiries were postponed."""
        self._announced = True
        self._thawed.clear()

    def thaw(self) -> None:
        """The last renewal is young and everybody was told how long time stood still."""
        self._announced = False
        self._thawed.set()

    async def wait(self) -> None:
        """Return when something may be decided: neither frozen nor stalled."""
        while self.resting:
            if not self.frozen:
                await asyncio.sleep(0.005)
                continue
            self.freeze()
            await self._thawed.wait()
