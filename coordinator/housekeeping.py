"""This room lets a shard's groups let go of what nobody needs: old offsets, and those of what is deleted."""

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

    def begin(self, now: Instant) -> None:
        """The shard was taken; the shards of a node are looked at one after the other."""
        self._looked_at = Instant(now - self._interval_ms * self._shard // SHARD_COUNT)

    def is_due(self, now: Instant) -> bool:
        """True once an interval."""
        if elapsed_ms(self._looked_at, now) < self._interval_ms:
            return False
        self._looked_at = now
        return True

    async def look(self, lane: Lane) -> None:
        """Let each group decide; it lets go only of what nobody has committed meanwhile."""
        before = {key: state.rows for key, state in self._groups.states.items()}
        find = partial(self._store.outlived, shard=self._shard, retention_minutes=self._retention_minutes)
        try:
            found = await lane.read(find)
        except (LaneLost, ConnectionLost) as problem:
            logger.info("outlived offsets of shard %d: %s", self._shard, problem)
            return
        for key, rows in before.items():
            if key in found.topics:
                self._hand_in(key, TopicsDeleted(found.topics[key]))
            if key in found.removed:
                self._hand_in(key, OffsetsOrphaned(tuple(found.removed[key])))
            aged, empty_ms = tuple(found.aged.get(key, ())), found.empty_ms.get(key, 0)
            if aged or (empty_ms and not rows.offsets):
                self._groups.look_through(key, rows)
                self._hand_in(key, Swept(rows.version, self._retention_minutes * 60_000, empty_ms, aged))

    def are_gone(self, gone: Gone) -> None:
        """Who committed anything for them lets go of it at once; what is missed now is found by `look`."""
        if not gone.topic_ids and not gone.partitions:
            return
        for key, state in list(self._groups.states.items()):
            offsets = state.rows.offsets
            if gone.topic_ids and any(one.topic_id in gone.topic_ids for one in offsets):
                self._hand_in(key, TopicsDeleted(gone.topic_ids))
            if gone.partitions and any((one.topic_id, one.number) in gone.partitions for one in offsets):
                self._hand_in(key, PartitionsRemoved(gone.partitions))
