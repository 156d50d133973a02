"""This room is the simulated database: the one in memory, the group's rows in it, and who watches commits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from coordinator.store import REBALANCE, GroupStore
from coordinator.store_offsets import GroupOffsets, StoredOffset
from groups.core.records import GroupDeleted, GroupRecord, HandlerAsked, ItemAdopted, RequestDecided
from groups.core.rows import apply
from groups.core.state import GroupRows, OffsetNote
from muster.kernel.shards import shard_of
from runtime import requests, work
from runtime.database import Backend, Held, JournalRow, Written
from runtime.memory import MemoryDatabase, MemoryLink
from runtime.ports import VersionConflict, shard_lane
from tests.simulation.node_process import NodesDatabase

if TYPE_CHECKING:
    from tests.simulation.native.node import Node
    from tests.simulation.native.world import World

GROUP = "readers"
LANE = shard_lane(shard_of(GROUP))


class Rows(MemoryDatabase):
    """One group, one lease, journal and work items; the world hears of every commit."""

    def __init__(self, world: World, empty: GroupRows) -> None:
        super().__init__([LANE])
        self.world = world
        self.empty = empty
        self.tables["groups"] = {}
        self.tables["times"] = {}

    @property
    def rows(self) -> GroupRows:
        """The group as it is stored."""
        found: GroupRows | None = self.tables["groups"].get(GROUP)
        return self.absent(self.tables.get("floor", {})) if found is None else found

    def absent(self, floors: Mapping[str, int]) -> GroupRows:
        """A group that does not exist; one that did before goes on above its generations."""
        floor = floors.get(GROUP, 0)
        return replace(self.empty, generation=floor) if floor else self.empty

    @property
    def lease(self) -> tuple[str | None, int]:
        """The run that holds the lease, and the epoch."""
        found: tuple[str | None, int] = self.tables["lease"][LANE]
        return found


class GroupsDatabase(NodesDatabase):
    """The database as one node reaches it, where commits of groups' rows are told to the world."""

    _rows: Rows
    _node: Node

    def _link(self, run: str, backend: Backend) -> MemoryLink:
        return NodesLink(self._rows, run, backend, self._node)


class NodesLink(MemoryLink):
    """A node's connection; each commit of groups' rows is told to the world."""

    def __init__(self, rows: Rows, run: str, backend: Backend, node: Node) -> None:
        super().__init__(rows, run, backend)
        self._rows = rows
        self._node = node

    def end_run(self, run: str, seen_renewals: int) -> bool:
        """End a peer's run (Link.end_run)."""
        ended = super().end_run(run, seen_renewals)
        if ended:
            self._node.cluster.checks.run_ended(run)
        return ended

    def turn(self, held: Held, write: Callable[[Any], None], *rows: JournalRow) -> Written:
        """Fence, write, journal, commit (Link.turn)."""
        before, table = self._rows.rows, self._rows.tables["groups"]
        try:
            return super().turn(held, write, *rows)
        finally:
            if self._rows.tables["groups"] is not table:
                # There is one group, so no turn shares its transaction with another key's.
                (row,) = rows
                self._rows.world.turn_committed(self._node, before, row.records)

    def batch(self, held: Sequence[Held], write: Callable[[Any], None]) -> None:
        """Fence all, write, commit (Link.batch)."""
        table = self._rows.tables["groups"]
        try:
            super().batch(held, write)
        finally:
            if self._rows.tables["groups"] is not table:
                self._rows.world.batch_committed(self._node, self._node.store.written)


class Store(GroupStore):
    """The group's rows in memory: what `coordinator.store` says in SQL."""

    def __init__(self, node: Node) -> None:
        super().__init__(node.name)
        self._owner = node
        self.written: GroupOffsets = {}

    def load(self, connection: Any, key: str) -> GroupRows:
        return self._owner.world.as_loaded(self._stored(connection, key), connection.table("times"))

    def _stored(self, connection: Any, key: str) -> GroupRows:
        """Also what a load leaves out."""
        rows: GroupRows | None = connection.table("groups").get(key)
        if rows is None:
            rows = self._owner.world.rows.absent(connection.table("floor"))
        return replace(rows, handler_asked=bool(work.open_keys(connection, REBALANCE, [key])))

    def load_shard(self, connection: Any, shard: int) -> dict[str, GroupRows]:
        keys = [key for key in connection.table("groups") if shard_of(key) == shard]
        return {key: self.load(connection, key) for key in keys}

    def save(self, connection: Any, key: str, before: GroupRows, records: Sequence[GroupRecord]) -> None:
        self._owner.may_fail()
        table = connection.table("groups")
        now = self._stored(connection, key)
        if now.version != before.version:
            raise VersionConflict(key)
        after = apply(now, records)
        if after.version != now.version:
            table[key] = after
        for record in records:
            if isinstance(record, HandlerAsked):
                work.offer(connection, REBALANCE, key, now.version, {})
            elif isinstance(record, ItemAdopted):
                work.adopt(connection, record.item_id)
            elif isinstance(record, RequestDecided):
                requests.conclude(connection, record.request_id, record.answer)
            elif isinstance(record, GroupDeleted):
                connection.table("floor")[key] = table.pop(key).generation + 1
                work.withdraw(connection, REBALANCE, key)

    def save_all(
        self, connection: Any, turns: Sequence[tuple[str, GroupRows, Sequence[GroupRecord]]]
    ) -> None:
        for key, before, records in turns:
            self.save(connection, key, before, records)

    def write_offsets(self, connection: Any, offsets: GroupOffsets) -> None:
        self._owner.may_fail()
        self.written = offsets
        table = connection.table("groups")
        for (key, partition), stored in offsets.items():
            rows, (offset, note) = table[key], _parts(stored)
            notes = {one: kept for one, kept in rows.offset_notes.items() if one != partition}
            if note is not None:
                notes[partition] = note
            table[key] = replace(rows, offsets={**rows.offsets, partition: offset}, offset_notes=notes)


def _parts(stored: StoredOffset) -> tuple[int, OffsetNote | None]:
    return (stored, None) if isinstance(stored, int) else stored
