"""This room measures how long a group waits when nothing is broken any more (L1 to L4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from groups.core.phases import Phase
from runtime.freshness import LEASE_TTL_MS
from tests.simulation.classic.client import HEARTBEAT_MS, REBALANCE_MS
from tests.simulation.native.world import SESSION_MS

if TYPE_CHECKING:
    from tests.simulation.classic.cluster import Cluster

CLOCKS_MS = 200
SERVED_MS = 2 * LEASE_TTL_MS + 2_000
"""L4, detection and load: a lease is taken when its holder was seen not to renew for as long as it lasts."""

WAITS_MS = REBALANCE_MS + 2_000 + CLOCKS_MS
"""L2, from the turn that opened the phase, or from the load that opened it again."""

SETTLED_MS = SERVED_MS + SESSION_MS + LEASE_TTL_MS + 1_000 + REBALANCE_MS + HEARTBEAT_MS + WAITS_MS
"""L1 and L3: by then whoever was dead is out, and all others share everything in one generation."""


class Waits:
    """Since when a group waits; a fault begins all clocks anew, as does each load that of its phase."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.world = cluster, cluster.world
        self._calm_at = 0.0
        self._place: tuple[str, int] = ("", 0)
        self._since = 0.0
        self._unserved_since = 0.0

    def begin(self) -> None:
        """The last fault is over."""
        self._calm_at = self._unserved_since = self.world.now

    def look(self) -> None:
        """Called again and again in the calm."""
        now, owner, rows = self.world.now, self.cluster.owner, self.world.rows.rows
        if owner is not None and owner.status == "up" and owner.service.accepting:
            self._unserved_since = now
        self.world.forbid(now - self._unserved_since > SERVED_MS, "nobody serves the group (L4)")
        if (place := (rows.phase.value, rows.generation)) != self._place:
            self._place, self._since = place, now
        if rows.phase not in (Phase.PREPARING_REBALANCE, Phase.COMPLETING_REBALANCE):
            return
        if rows.classic is not None and self.cluster.nobody_comes():
            # Static members that do not join are waited for until their sessions end (conformance 91).
            return
        if any(one.mute and one.instance for one in self.cluster.alive()):
            # Nor is anybody else given its place while it hangs and beats.
            self._calm_at = now
        since = max(self._since, self._calm_at, self.cluster.checks.loaded_at)
        self.world.forbid(now - since > WAITS_MS, f"the group is {rows.phase} for too long (L2)")
