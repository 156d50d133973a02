"""This room is the simulated database with the times at which its rows were written.

Its calendar runs ten times as fast as the world's clock: a minute's retention passes within a seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from coordinator.core.events import AgedOffset
from coordinator.settings import CoordinatorSettings
from coordinator.store_offsets import GroupOffsets
from coordinator.store_outlived import Outlived
from groups.core import records
from groups.core.classic import CLASSIC
from groups.core.phases import Phase
from groups.core.records import GroupRecord
from groups.core.state import GroupRows
from muster.messages.partitions import each_position
from tests.simulation.native.rows import GROUP, Store

CALENDAR = 10
RETENTION_MINUTES = 1
RETENTION_MS = RETENTION_MINUTES * 60_000
SWEEP_MS = 2_000
NOTHING_AGED = Outlived({}, {}, {})


def database_ms(world_ms: float) -> int:
    """How much time has passed in the database."""
    return int(world_ms * CALENDAR)


def of_short_memory(settings: CoordinatorSettings) -> CoordinatorSettings:
    """A node looks every other second for what is older than that."""
    return replace(
        settings,
        offsets_retention_minutes=RETENTION_MINUTES,
        offsets_retention_check_interval_ms=SWEEP_MS,
    )


class AgedStore(Store):
    """With `outlived`: what `coordinator.store_outlived` asks in SQL."""

    def save(self, connection: Any, key: str, before: GroupRows, records_: Sequence[GroupRecord]) -> None:
        super().save(connection, key, before, records_)
        times, now = connection.table("times"), self._owner.world.now
        after: GroupRows | None = connection.table("groups").get(key)
        if after is None:
            times.clear()
            return
        if before.phase is not after.phase or not before.version:
            times["phase"] = now
        for record in records_:
            if isinstance(record, records.OffsetsSet | records.OffsetsFlushed):
                times.update((partition, now) for partition, _ in each_position(record.offset_info))

    def write_offsets(self, connection: Any, offsets: GroupOffsets) -> None:
        super().write_offsets(connection, offsets)
        now = self._owner.world.now
        connection.table("times").update((partition, now) for _, partition in offsets)

    def outlived(self, connection: Any, shard: int, retention_minutes: int) -> Outlived:
        rows: GroupRows | None = connection.table("groups").get(GROUP)
        if rows is None:
            return NOTHING_AGED
        times, now = connection.table("times"), self._owner.world.now
        by_id = {layout.topic_id: layout for layout in self._owner.world.layouts.values()}
        topics = frozenset(one.topic_id for one in rows.offsets if one.topic_id not in by_id)
        removed = [
            (one, offset)
            for one, offset in rows.offsets.items()
            if one.topic_id in by_id and self._owner.world.is_of_another(one, times[one])
        ]
        aged = []
        if rows.phase in (Phase.EMPTY, Phase.STABLE):
            simple = rows.protocol == CLASSIC and rows.classic is not None and not rows.classic.protocol_type
            by_commit = rows.phase is Phase.STABLE or simple
            for partition, offset in rows.offsets.items():
                age_ms = database_ms(now - times[partition])
                since_ms = age_ms if by_commit else database_ms(now - times["phase"])
                if since_ms >= retention_minutes * 60_000:
                    aged.append(AgedOffset(partition, offset, age_ms))
        empty_ms = database_ms(now - times["phase"]) if rows.phase is Phase.EMPTY else 0
        empty = {GROUP: empty_ms} if empty_ms >= retention_minutes * 60_000 else {}
        return Outlived(
            {GROUP: aged} if aged else {},
            empty,
            {GROUP: topics} if topics else {},
            {GROUP: removed} if removed else {},
        )
