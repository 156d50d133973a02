"""This room is the simulated workers: asked by message, they claim, compute and finish, or die in between."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec

from coordinator.core import rebalance

if TYPE_CHECKING:
    from runtime.work_table import WorkRow
    from tests.simulation.native.world import World


def matches(pattern: str, topic: str) -> bool:
    """The patterns of the simulation mean the same to Python and to RE2."""
    return re.fullmatch(pattern, topic) is not None


class Workers:
    """runtime.desk.Asks: whoever is asked may never hear of it."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._link = world.rows.connect("workers", "work")

    def publish(self, item_id: str) -> None:
        """Somebody claims the item after a while."""
        chance = self._world.chance
        if chance.random() < 0.1 and not self._world.quiet:
            return
        slow = chance.random() < 0.1 and not self._world.quiet
        delay = chance.uniform(300, 3_000) if slow else chance.uniform(2, 60)
        self._world.later(delay, lambda: self._claim(item_id))

    def _claim(self, item_id: str) -> None:
        row = self._on("claim", item_id, "worker")
        chance = self._world.chance
        if row is None or (chance.random() < 0.1 and not self._world.quiet):
            return
        rows = self._world.rows.rows
        result = msgspec.to_builtins(rebalance.compute(rows, self._world.layouts, matches))
        slow = chance.random() < 0.1 and not self._world.quiet
        delay = chance.uniform(500, 4_000) if slow else chance.uniform(1, 80)
        self._world.later(delay, lambda: self._finish(row, result))

    def _finish(self, row: WorkRow, result: Any) -> None:
        if self._on("finish", row.id, row.claim_epoch, result, "") and self._world.chance.random() < 0.7:
            self._world.later(1, lambda: self._world.woken("work", f"{row.kind} {row.key}"))

    def _on(self, method: str, *arguments: Any) -> Any:
        return self._link.transaction(lambda one: getattr(one.work_table, method)(*arguments))
