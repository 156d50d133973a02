"""This room knows whether this node may answer: how old its last renewal is (leases.md section 5)."""

import asyncio
from collections.abc import Callable

from muster.kernel.instants import Instant, after, elapsed_ms

LEASE_TTL_MS = 5_000

STALLED_AFTER_MS = 200
"""A loop that has not ticked for so long was stopped: nothing is decided before expiries are postponed."""

STALLED_LOOK_MS = 5
"""So often it is looked whether they were: the tick that does it is next."""

_NEVER = Instant(-1)


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
        self.steady_until = _NEVER
        """Before it nothing rests: whoever asks at each answer asks no further."""

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
        self._foresee()

    @property
    def announced(self) -> bool:
        """True until `thaw`, also when the last renewal is young again."""
        return self._announced

    def confirm(self, sent_at: Instant) -> None:
        """A renewal that was sent at `sent_at` found our run alive."""
        self._confirmed_sent_at = sent_at
        self._foresee()

    def forget(self) -> None:
        """Our run has ended: its renewals count for nothing."""
        self._confirmed_sent_at = None
        self.freeze()

    def freeze(self) -> None:
        """Stay frozen until `thaw`, which follows only after expiries were postponed."""
        self._announced = True
        self._foresee()
        self._thawed.clear()

    def thaw(self) -> None:
        """The last renewal is young and everybody was told how long time stood still."""
        self._announced = False
        self._foresee()
        self._thawed.set()

    def _foresee(self) -> None:
        sent_at, ticked_at = self._confirmed_sent_at, self._ticked_at
        if self._announced or sent_at is None:
            self.steady_until = _NEVER
            return
        until = after(sent_at, self._lease_ttl_ms)
        # Stalled is later than so long after a tick, not as soon as.
        self.steady_until = until if ticked_at is None else min(until, after(ticked_at, STALLED_AFTER_MS + 1))

    async def wait(self) -> None:
        """Return when something may be decided: neither frozen nor stalled."""
        while self.resting:
            if not self.frozen:
                await asyncio.sleep(STALLED_LOOK_MS / 1000)
                continue
            self.freeze()
            await self._thawed.wait()
