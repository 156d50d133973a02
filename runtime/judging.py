"""This room judges peers by this node's own looks and clock, and touches nothing (leases.md section 5)."""

from collections.abc import Iterable
from dataclasses import dataclass

from muster.kernel.instants import Instant, elapsed_ms
from runtime.database import Peer
from runtime.freshness import LEASE_TTL_MS

LOOK_EVERY_MS = 400
LONGEST_GAP_MS = 1_000
"""A look that comes later than this after the one before proves nothing about what lies between."""

HUNG_AFTER_MS = LEASE_TTL_MS + LOOK_EVERY_MS + 100
"""lease_ttl, the difference of two clocks' rates, and one look: whoever is judged hung is frozen by then."""

CRASHED, HUNG = "crashed", "hung"


@dataclass(slots=True)
class _Observation:
    """Since when a peer's renewals have stood still, and since which look its backend was gone."""

    renewals: int
    since: Instant
    gone_since: Instant | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """A run to be ended, on condition that it has not renewed since it was seen."""

    run: str
    renewals: int
    why: str


class Judge:
    """What one node has seen of its peers. Feed it each look, in the order in which they were sent."""

    def __init__(self) -> None:
        self._seen: dict[str, _Observation] = {}
        self._last_look_at: Instant | None = None

    def begin_again(self) -> None:
        """The connection is new, or an end found no row: nothing that was seen counts any more."""
        self._seen.clear()
        self._last_look_at = None

    def forget(self, run: str) -> None:
        """This run was ended, or turned out to live: observe it anew."""
        self._seen.pop(run, None)

    def look(self, peers: Iterable[Peer], sent_at: Instant) -> list[Verdict]:
        """Who is to be ended after this look; `sent_at` by this node's clock.

        Crashed: two looks in a row, 0.4 s apart, without its session's backend. Hung: its renewals stood
        still for HUNG_AFTER_MS of time in which this node looked without a gap.
        """
        last, self._last_look_at = self._last_look_at, sent_at
        if last is None or elapsed_ms(last, sent_at) > LONGEST_GAP_MS:
            self._seen.clear()
        verdicts: list[Verdict] = []
        alive: dict[str, _Observation] = {}
        for peer in peers:
            before = self._seen.get(peer.run)
            if before is None or before.renewals != peer.renewals:
                gone_since = None if peer.there else sent_at
                alive[peer.run] = _Observation(peer.renewals, sent_at, gone_since)
                continue
            alive[peer.run] = before
            if peer.there:
                before.gone_since = None
            elif before.gone_since is None:
                before.gone_since = sent_at
            elif elapsed_ms(before.gone_since, sent_at) >= LOOK_EVERY_MS:
                verdicts.append(Verdict(peer.run, peer.renewals, CRASHED))
                continue
            if elapsed_ms(before.since, sent_at) >= HUNG_AFTER_MS:
                verdicts.append(Verdict(peer.run, peer.renewals, HUNG))
        self._seen = alive
        return verdicts
