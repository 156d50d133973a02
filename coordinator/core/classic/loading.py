"""This room makes memory anew from a classic group's rows, at a takeover and after each dropped cache."""

from coordinator.core.classic.draft import ClassicDraft
from coordinator.core.draft import GroupDecision
from coordinator.core.memory import GroupState
from coordinator.core.settings import GroupSettings
from groups.core.state import GroupRows
from muster.kernel.instants import Instant


def load(rows: GroupRows, now: Instant, settings: GroupSettings) -> GroupDecision:
    """Sessions are full and `lease_ttl_ms` longer; nobody has joined (design 6.3)."""
    return ClassicDraft(GroupState(rows), now, settings).finish()
