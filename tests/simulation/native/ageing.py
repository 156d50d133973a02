"""This room watches what goes by itself: offsets and groups by age, and offsets of removed partitions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from coordinator.core.events import GroupEvent, OffsetsOrphaned, ToolRequest
from groups.core import records
from groups.core.phases import Phase
from groups.core.requests import GroupRequest
from groups.core.state import GroupRows
from muster.messages.partitions import Partition, each_partition
from tests.simulation.native.aged import RETENTION_MS, database_ms

if TYPE_CHECKING:
    from tests.simulation.native.node import Node
    from tests.simulation.native.world import World


def goes_by_itself(events: Iterable[GroupEvent]) -> bool:
    """Whether nobody asked for anything in this turn that deletes offsets."""
    return not any(isinstance(event, ToolRequest | GroupRequest) for event in events)


class Ageing:
    """When each offset was committed last, and since when the group is in its phase."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._committed_at: dict[Partition, float] = {}
        self._phase_at = 0.0

    def written(self, partitions: Iterable[Partition]) -> None:
        """These offsets are durable from now on."""
        self._committed_at.update(dict.fromkeys(partitions, self.world.now))

    def turn(self, node: Node, turn: Sequence[Any], before: GroupRows, rows: GroupRows) -> None:
        """A turn is durable, in which nobody asked for a deletion."""
        events = node.decided_on
        for record in turn:
            if isinstance(record, records.OffsetsDeleted):
                for partition in each_partition(record.partitions):
                    self._went(partition, events, before)
            elif isinstance(record, records.GroupDeleted):
                young = not before.ephemeral and not self._is_old(self._phase_at)
                self.world.forbid(young, "a group expired that was not without members for the retention")
                self.world.tell("        the group expires")
        if before.phase is not rows.phase or not before.version:
            self._phase_at = self.world.now

    def _went(self, partition: Partition, events: Iterable[GroupEvent], before: GroupRows) -> None:
        found = [one for event in events if isinstance(event, OffsetsOrphaned) for one, _ in event.offsets]
        if partition in found:
            stays = not self.is_of_another(partition)
            self.world.forbid(stays, f"an offset went that was committed for the {partition} that is there")
            self.world.tell(f"        the offset of a {partition} that was removed goes")
            return
        reason = self._why_kept(partition, before)
        self.world.forbid(reason, f"the offset of {partition} went: {reason}")
        self.world.tell(f"        the offset of {partition} expires")

    def _why_kept(self, partition: Partition, before: GroupRows) -> str:
        if before.phase not in (Phase.EMPTY, Phase.STABLE):
            return f"the group is {before.phase}"
        if before.phase is Phase.EMPTY:
            return "" if self._is_old(self._phase_at) else "members were there not long ago"
        matches = self.world.surroundings.matches
        for member in before.members.values():
            for wish in member.topic_count:
                if (matches if wish.is_pattern else str.__eq__)(wish.topic, partition.topic):
                    return f"{member.member_id} reads it"
        return "" if self._is_old(self._committed_at[partition]) else "it is not old"

    def _is_old(self, since: float) -> bool:
        return database_ms(self.world.now - since) >= RETENTION_MS

    def is_of_another(self, partition: Partition) -> bool:
        """Whether what is committed is of a partition that is no more, or has another in its place."""
        return self.world.is_of_another(partition, self._committed_at[partition])

    def orphans(self) -> list[str]:
        """Of which partitions offsets are left behind."""
        return [str(one) for one in self.world.rows.rows.offsets if self.is_of_another(one)]
