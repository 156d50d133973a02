"""This room is the simulated world of one seed: clock, chance, database, and what must never happen."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import UUID

from coordinator.core.draft import GroupDecision
from coordinator.core.settings import GroupSettings, Surroundings
from coordinator.store_offsets import GroupOffsets
from groups.core import records
from groups.core.state import GroupRows
from muster.kernel.ids import TopicName
from muster.messages.partitions import Partition, each_partition, each_position
from runtime.freshness import LEASE_TTL_MS
from tests.simulation.native.rows import GROUP, Rows
from tests.simulation.native.topics import layout, layouts
from tests.simulation.native.workers import Workers, matches
from tests.simulation.timeline import Timeline

if TYPE_CHECKING:
    from tests.simulation.native.node import Node

SESSION_MS = 6_000
OPERATED = (5, 15)
"""In these of twenty seeds operators ask, tools delete, and outsiders commit."""
WORDY = range(10, 17)
"""In these of twenty seeds nodes speak in slices, with time between them."""
AGEING = (6, 18)
"""In these of twenty seeds what is old goes, nodes are drained, partitions are removed and added again."""
WATCHFUL = (8, 14, 19)
"""In these of twenty seeds nodes hear of each other: that a peer died, or that it only closed its door."""
CLICKS = 20
"""So many records each partition of `clicks` has, where what is old goes."""
UNTOLD = frozenset({"item_id", "token_hash", "client_id", "client_host", "auto_commit", "auto_offset_reset"})


class World(Timeline):
    """Everything of one seed."""

    may_age = True
    """Else every seed is one of those in which nothing of AGEING happens."""

    def __init__(self, seed: int, settings: GroupSettings | None = None) -> None:
        super().__init__(seed)
        self.is_wordy = seed % 20 in WORDY
        self.commits_in_portions = seed % 3 == 1
        mode = "eager" if self.chance.random() < 0.15 else "incremental"
        # Told by the seed alone, so that all other seeds play as they did before.
        self.redundant = seed % 20 == 11
        self.is_operated = seed % 20 in OPERATED
        self.is_ageing = self.may_age and seed % 20 in AGEING
        self.is_watchful = seed % 20 in WATCHFUL
        self.added_again_at: dict[tuple[UUID, int], float] = {}
        assignor, copies = ("redundant", 2 + seed // 20 % 2) if self.redundant else ("sticky", 2)
        self.rows = Rows(self, GroupRows(GROUP, rebalance_mode=mode, assignor=assignor, copies=copies))
        self.workers = Workers(self)
        crowded = self.is_operated and seed // 20 % 3 == 0
        self.settings = settings or GroupSettings(
            lease_ttl_ms=LEASE_TTL_MS, rebalance_max_retries=1, group_max_size=3 if crowded else 100
        )
        self.surroundings = Surroundings(matches=matches)
        self.layouts = layouts(
            layout("orders", 1, self.chance.randint(2, 6)), layout("clicks", 2, self.chance.randint(0, 3))
        )
        self.attempts = 0
        self.overlaps = 0
        self.floor: dict[Partition, int] = {}
        self.when_it_matters: Callable[[], None] = lambda: None
        self.woken: Callable[[str, str], None] = lambda name, key: None

    # -- topics -----------------------------------------------------------------------------

    def is_at_its_end(self, partition: Partition, position: int) -> bool:
        """Whether nothing is left to read there: who reads it commits nothing new, and it grows old."""
        return self.is_ageing and partition.topic == "clicks" and position >= CLICKS

    def is_of_another(self, partition: Partition, at: float) -> bool:
        """Whether what was committed at that time was for a partition that is not there any more."""
        if not self.is_ageing:
            return False
        layout = self.layouts[TopicName(partition.topic)]
        added_at = self.added_again_at.get((partition.topic_id, partition.number), at)
        return partition.number >= layout.partition_count or added_at > at

    # -- the database -----------------------------------------------------------------------

    def as_loaded(self, rows: GroupRows, times: Mapping[Partition, float]) -> GroupRows:
        """Without what was committed before another partition took the number (`load_offsets.sql`)."""
        return _without(
            rows,
            [
                one
                for one in rows.offsets
                if self.added_again_at.get((one.topic_id, one.number), 0) > times.get(one, self.now)
                and one.number < self.layouts[TopicName(one.topic)].partition_count
            ],
        )

    def same(self, remembered: GroupRows, stored: GroupRows) -> bool:
        """Whether both are the same but for what loads of before may have left out, or not."""
        if remembered == stored:
            return True
        times = self.rows.tables["times"]
        gone = [one for one in stored.offsets if self.is_of_another(one, times.get(one, self.now))]
        return _without(remembered, gone) == _without(stored, gone)

    def turn_committed(self, node: Node, before: GroupRows, written: Sequence[Any]) -> None:
        """A turn is durable, whether or not its node will hear of it."""
        decision, after = node.decision, self.rows.rows
        assert decision is not None and list(decision.records) == list(written)
        if isinstance(written[-1], records.GroupDeleted):
            self.forbid(after.version, "a group is stored that was deleted")
        else:
            self.forbid(not self.same(decision.state.rows, after), "what is stored is not what is remembered")
        for record in written:
            self._note(record, before, decision)
        flushed = {
            partition: position.offset
            for record in written
            if isinstance(record, records.OffsetsFlushed)
            for partition, position in each_position(record.offset_info)
        }
        node.cluster.checks.written(flushed)
        self._check_rows(before, after)
        node.cluster.checks.committed(node, written, before, after)

    def batch_committed(self, node: Node, written: GroupOffsets) -> None:
        """A batch is durable, whether or not its node will hear of it."""
        offsets = {one: stored for (_, one), stored in written.items() if isinstance(stored, int)}
        node.cluster.checks.written(offsets)
        node.cluster.checks.batch(self.rows.rows, offsets)

    def _note(self, record: records.GroupRecord, before: GroupRows, decision: GroupDecision) -> None:
        match record:
            case records.HandlerAsked():
                self.tell(f"        handler asked: {record.cause}")
            case records.GenerationOpened():
                self.attempts += 1
            case records.PhaseEntered():
                self.when_it_matters()
            case records.PartitionsReleased():
                for partition in each_partition(record.partitions):
                    self._hand_over(partition, decision)
            case records.MemberRemoved():
                for partition in before.owned.get(record.member_id, {}):
                    self._hand_over(partition, decision)
            case _:
                pass
        if not isinstance(record, records.HandlerAsked | records.OffsetsFlushed):
            self.tell(f"        row {_short(record)}")

    def _hand_over(self, partition: Partition, decision: GroupDecision) -> None:
        """Whoever owns this next starts no earlier than the position that is known now."""
        committed = self.as_loaded(self.rows.rows, self.rows.tables["times"]).offsets.get(partition, -1)
        self.floor[partition] = decision.state.memory.dirty.get(partition, committed)

    def _check_rows(self, before: GroupRows, rows: GroupRows) -> None:
        owners: dict[Partition, str] = {}
        for member_id, tenures in rows.owned.items():
            self.forbid(member_id not in rows.members, f"{member_id} owns, but is no member")
            for partition in tenures:
                self.forbid(partition in owners, f"{partition} has two owners")
                owners[partition] = member_id
        self.forbid(rows.generation < before.generation, "the generation went back")


def _without(rows: GroupRows, gone: Sequence[Partition]) -> GroupRows:
    if not gone:
        return rows
    offsets = {one: offset for one, offset in rows.offsets.items() if one not in gone}
    notes = {one: note for one, note in rows.offset_notes.items() if one not in gone}
    return replace(rows, offsets=offsets, offset_notes=notes)


def _short(record: records.GroupRecord) -> str:
    text = []
    for name in record.__struct_fields__:
        value = getattr(record, name)
        if name == "partitions":
            value = ",".join(f"{topic.topic}{list(topic.partitions)}" for topic in value)
        elif name in (
            "item_id",
            "token_hash",
            "client_id",
            "client_host",
            "auto_commit",
            "auto_offset_reset",
        ):
            continue
        elif name == "topic_count":
            value = ",".join(entry.topic for entry in value)
        text.append(f"{name}={value}")
    return f"{type(record).__name__}({' '.join(text)})"
