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

RECONNECTED_MS = 3_000
"""For how long after this node lost its own connection a peer without one may be on its way back as well."""

CRASHED, HUNG, GONE = "crashed", "hung", "gone"

HASTE_MS = 50
"""Between two looks while it is proved that a peer's process has ended, and its session is still there."""

PROOF_MS = 1_000
"""For how long that proof counts: the server ends a session as soon as it hears of its client's end."""


@dataclass(slots=True)
class _Observation:
    """Since when a peer's renewals have stood still, and since which look its backend was gone."""

    renewals: int
    since: Instant
    gone_since: Instant | None = None


@dataclass(slots=True)
class _Refusal:
    """When a peer's address refused, and how often the peer had renewed at the first look sent after it."""

    at: Instant
    renewals: int | None = None


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
        self._refusals: dict[str, _Refusal] = {}
        self._was_cut_off = False
        self._back_since: Instant | None = None

    def begin_again(self) -> None:
        """The connection is new, or an end found no row: nothing that was seen counts any more."""
        # What has looked before lost its connection: a server that starts again ends those of all nodes.
        self._was_cut_off = self._was_cut_off or self._last_look_at is not None
        self._seen.clear()
        self._refusals.clear()
        self._last_look_at = None

    def forget(self, run: str) -> None:
        """This run was ended, or turned out to live: observe it anew."""
        self._seen.pop(run, None)
        self._refusals.pop(run, None)

    def refused(self, run: str, now: Instant) -> None:
        """A connection to this run's address broke, and nobody listens there any more."""
        self._refusals[run] = _Refusal(now)

    def look_after_ms(self, now: Instant) -> int:
        """How long after the look before the next is due."""
        waits = any(elapsed_ms(refusal.at, now) <= PROOF_MS for refusal in self._refusals.values())
        return HASTE_MS if waits else LOOK_EVERY_MS

    def look(self, peers: Iterable[Peer], sent_at: Instant) -> list[Verdict]:
        """Who is to be ended after this look; `sent_at` by this node's clock.

        Gone: its address refuses, and then one look finds it without its session's backend. Crashed: two
        looks in a row, 0.4 s apart, do, unless this node has just lost its own. Hung: its renewals stood
        still for HUNG_AFTER_MS of time in which this node looked without a gap.
        """
        last, self._last_look_at = self._last_look_at, sent_at
        if self._was_cut_off:
            self._was_cut_off, self._back_since = False, sent_at
        elif self._back_since is not None and elapsed_ms(self._back_since, sent_at) >= RECONNECTED_MS:
            self._back_since = None
        if last is None or elapsed_ms(last, sent_at) > LONGEST_GAP_MS:
            self._seen.clear()
        verdicts: list[Verdict] = []
        alive: dict[str, _Observation] = {}
        for peer in peers:
            if self._is_gone(peer, sent_at):
                verdicts.append(Verdict(peer.run, peer.renewals, GONE))
                continue
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
            elif self._back_since is None and elapsed_ms(before.gone_since, sent_at) >= LOOK_EVERY_MS:
                verdicts.append(Verdict(peer.run, peer.renewals, CRASHED))
                continue
            if elapsed_ms(before.since, sent_at) >= HUNG_AFTER_MS:
                verdicts.append(Verdict(peer.run, peer.renewals, HUNG))
        self._seen = alive
        self._refusals = {run: refusal for run, refusal in self._refusals.items() if run in alive}
        return verdicts

    def _is_gone(self, peer: Peer, sent_at: Instant) -> bool:
        refusal = self._refusals.get(peer.run)
        if refusal is None or sent_at < refusal.at:
            return False
        if elapsed_ms(refusal.at, sent_at) > PROOF_MS or refusal.renewals not in (None, peer.renewals):
            # It was there for so long, or renews: its door is closed, but it lives.
            del self._refusals[peer.run]
            return False
        refusal.renewals = peer.renewals
        return not peer.there
