"""This room notes for pages for whom open rebalances wait, in rows on which nothing is decided.

Who has joined is known to the owner alone. A rebalance that is over within a second is not noted; one that
waits is, when it waits for others, and now and then that it still waits for the same.
"""

from collections.abc import Hashable, Mapping
from typing import Any

from coordinator.core.waiting import Waiting, waits
from coordinator.store import GroupStore
from coordinator.subject import Groups
from muster.kernel.instants import Instant, elapsed_ms

EVERY_MS = 1_000
AGAIN_MS = 5_000
GROUPS_MAX = 500
"""Groups that are looked at in one go; a shard that was just taken may hold thousands that wait."""


class Waits:
    """`runtime.ports.BatchSource` of one shard, beside its commits."""

    has_more = False
    """They are few, and all in one batch."""

    def __init__(self, groups: Groups, store: GroupStore) -> None:
        self._groups = groups
        self._looked_at = self._lanes_now = Instant(0)
        self._open: set[str] = set()
        self._told: dict[str, tuple[Waiting, Instant]] = {}
        self._due: dict[str, Waiting] = {}
        self.write = store.write_waiting

    def look(self, now: Instant, lanes_now: Instant) -> bool:
        """Whether something is to be noted; looks once a second. What ends, ends by the lane's own time."""
        if elapsed_ms(self._looked_at, now) < EVERY_MS:
            return False
        self._looked_at, self._lanes_now = now, lanes_now
        if not self._groups.rebalancing and not self._open:
            return False
        before, self._open = self._open, set(self._groups.rebalancing)
        self._told = {key: told for key, told in self._told.items() if key in self._open}
        self._due = {}
        for key in sorted(before & self._open)[:GROUPS_MAX]:
            state = self._groups.states.get(key)
            waiting = waits(state) if state is not None else None
            if waiting is None:
                continue
            last, at = self._told.get(key, (None, now))
            if last != waiting or elapsed_ms(at, now) >= AGAIN_MS:
                self._due[key] = waiting
        return bool(self._due)

    def gather(self) -> Mapping[Hashable, Any]:
        """The rows by group, with the milliseconds that are left, −1 where nobody knows."""
        due, self._due = self._due, {}
        for key, waiting in due.items():
            self._told[key] = (waiting, self._looked_at)
        return {
            key: (one, -1 if one.ends_at is None else max(elapsed_ms(self._lanes_now, one.ends_at), 0))
            for key, one in due.items()
        }

    def belongs_to(self, key: str) -> str:
        """Each row is a group's."""
        return key

    def committed(self, rows: Mapping[Any, Any]) -> None:
        """Nobody waits to hear it."""

    def refused(self, rows: Mapping[Any, Any], error: Exception) -> None:
        """They are noted again, if they still wait."""
        for key in rows:
            self._told.pop(key, None)

    def forget(self) -> None:
        """The shard was given up."""
        self._open.clear()
        self._told.clear()
        self._due.clear()
