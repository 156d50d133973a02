"""This room lets a shard's groups let go of what nobody needs: old offsets, and those of what is deleted."""

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from coordinator.cluster_view import Gone
from coordinator.core.events import OffsetsOrphaned, PartitionsRemoved, Swept, TopicsDeleted
from coordinator.leased import Premises
from coordinator.subject import Groups
from muster.kernel.instants import Instant, elapsed_ms
from runtime.ports import SHARD_COUNT, ConnectionLost, Lane, LaneLost

logger = logging.getLogger("muster.coordinator")


class Housekeeping:
    """Of one shard; `hand_in` gives a group an event to decide."""

    def __init__(self, shard: int, groups: Groups, premises: Premises, hand_in: Callable[..., None]) -> None:
        self._shard = shard
        self._groups = groups
        self._store = premises.store
        self._interval_ms = premises.settings.offsets_retention_check_interval_ms
        self._retention_minutes = premises.settings.offsets_retention_minutes
        self._hand_in = hand_in
        self._looked_at = Instant(0)
        self._wanted = self._looking = False

    def begin(self, now: Instant) -> None:
        """The shard was taken; the shards of a node are looked at one after the other."""
        self._wanted = False
        self._looked_at = Instant(now - self._interval_ms * self._shard // SHARD_COUNT)

    def is_due(self, now: Instant) -> bool:
        """True once an interval, and when partitions were seen to go."""
        if self._looking or not (self._wanted or elapsed_ms(self._looked_at, now) >= self._interval_ms):
            return False
        self._looked_at = now
        return True

    async def look(self, lane: Lane) -> None:
        """Let each group decide; it lets go only of what nobody has committed meanwhile."""
        if self._looking:
            # Both were due in one round of the loop; they would share a watch, and the first end it.
            return
        wanted, self._wanted, self._looking = self._wanted, False, True
        try:
            with self._groups.watching_commits():
                await self._look(lane)
        except (LaneLost, ConnectionLost) as problem:
            # What was seen to go meanwhile is wanted, too.
            self._wanted |= wanted
            logger.info("outlived offsets of shard %d: %s", self._shard, problem)
        finally:
            self._looking = False

    async def _look(self, lane: Lane) -> None:
        before = {key: state.rows for key, state in self._groups.states.items()}
        find = partial(self._store.outlived, shard=self._shard, retention_minutes=self._retention_minutes)
        found = await lane.read(find)
        orphaned = [(key, tuple(found.removed[key])) for key in before if key in found.removed]
        if orphaned:
            # Waited for, because commits are watched until it is decided about them.
            await asyncio.gather(
                *(lane.submit_turn(self._groups, key, OffsetsOrphaned(offsets)) for key, offsets in orphaned)
            )
        for key, rows in before.items():
            if key in found.topics:
                self._hand_in(key, TopicsDeleted(found.topics[key]))
            aged, empty_ms = tuple(found.aged.get(key, ())), found.empty_ms.get(key, 0)
            if aged or (empty_ms and not rows.offsets):
                self._groups.look_through(key, rows)
                self._hand_in(key, Swept(rows.version, self._retention_minutes * 60_000, empty_ms, aged))

    def are_gone(self, gone: Gone) -> bool:
        """Who committed anything for them lets go of it; what is missed now is found by the next `look`.

        True: that must be soon, for partitions are gone for which somebody committed something. Their numbers
        may have been given again, and somebody may have committed for those that bear them now. An id of a
        topic is never given again.
        """
        if not gone.topic_ids and not gone.partitions:
            return False
        for key, state in list(self._groups.states.items()):
            offsets = state.rows.offsets
            if gone.topic_ids and any(one.topic_id in gone.topic_ids for one in offsets):
                self._hand_in(key, TopicsDeleted(gone.topic_ids))
            if not gone.partitions:
                continue
            self._wanted |= any((one.topic_id, one.number) in gone.partitions for one in offsets)
            if any((one.topic_id, one.number) in gone.partitions for one in state.memory.dirty):
                self._hand_in(key, PartitionsRemoved(gone.partitions))
        return self._wanted
