"""This room compares each state of the simulated world with those before: what rises, and what stays gone."""

from collections import defaultdict
from typing import TYPE_CHECKING
from uuid import UUID

from controller.core.records import (
    ClusterRecord,
    MovesFailed,
    PartitionsRemoved,
    Phase,
    PossibleLoss,
    Reassignment,
    ReassignmentChanged,
)
from muster.kernel.topic_configs import floor
from muster.messages.link.rows import NO_LEADER, PartitionKey, PartitionRow
from tests.simulation.replication.memory_log import Stored, mark_of

if TYPE_CHECKING:
    from tests.simulation.replication.broker_process import Broker
    from tests.simulation.replication.world import World


Identity = tuple[PartitionKey, int]
"""A partition: its number, and the epochs that it begins above."""


def identity(row: PartitionRow) -> Identity:
    return row.key, row.base_epoch


class OverTime:
    """S16, S18 and S23 of rows; of topics that are gone: their rows, moves, logs and records."""

    def __init__(self) -> None:
        self._rows: dict[PartitionKey, PartitionRow] = {}
        self._leaders: dict[tuple[PartitionKey, int], int] = {}
        self._numbers: dict[object, int] = {}
        self._sessions: set[int] = set()
        self._moves: dict[PartitionKey, Reassignment] = {}
        self._journal_read = 0
        self._topics: dict[UUID, int] = {}
        """Those that are there, and how many partitions each has."""
        self._gone: dict[Identity, int] = {}
        """Partitions that were there and will never be again, and the metadata version that says so."""
        self._dropped: dict[int, set[Identity]] = {}
        """Of these, by broker, what it has heard of."""
        self._marks: dict[PartitionKey, set[int]] = defaultdict(set)
        """Of the records of all partitions that ever had the number."""

    def look(self, world: "World") -> str:
        """What is broken; "" if nothing is."""
        rows = world.rows()
        partitions = {row.key: row for row in rows.partitions.values()}
        text = self._look_at_numbers(world, partitions)
        text = text or self._look_at_admissions(world, partitions)
        text = text or self._look_at_floors(world, partitions)
        text = text or self._look_at_topics(world, partitions)
        text = text or self._look_at_moves(world, partitions)
        text = text or self._look_at_logs(world)
        self._rows, self._moves = partitions, dict(rows.reassignments)
        self._journal_read = len(world.database.journal)
        return text

    def set_back(self, world: "World") -> None:
        """The rows are of an earlier moment, with higher numbers: they are compared with none before."""
        self._rows = {row.key: row for row in world.rows().partitions.values()}
        self._moves = dict(world.rows().reassignments)

    def _rises(self, name: object, number: int) -> bool:
        before = self._numbers.get(name, number)
        self._numbers[name] = number
        return number >= before

    def _look_at_numbers(self, world: "World", partitions: dict[PartitionKey, PartitionRow]) -> str:
        rows = world.rows()
        risen = [self._rises("version", rows.metadata_version)]
        risen += [self._rises("lease", world.database.lease_epoch)]
        risen += [self._rises(("broker", b), row.broker_epoch) for b, row in rows.brokers.items()]
        for key, row in partitions.items():
            if row is self._rows.get(key):
                continue
            risen += [self._rises(("epoch", key), row.leader_epoch), self._rises(("row", key), row.version)]
            if row.leader != NO_LEADER:
                known = self._leaders.setdefault((key, row.leader_epoch), row.leader)
                if known != row.leader:
                    return "two leaders of one epoch"
        return "" if all(risen) else "an epoch or a version fell"

    def _look_at_admissions(self, world: "World", partitions: dict[PartitionKey, PartitionRow]) -> str:
        """Who comes into an ISR lives; a session that ends in the same turn may still be that of before."""
        sessions = set(world.controller.state.memory.sessions)
        lived, self._sessions = self._sessions | sessions, sessions
        if world.controller.deposed:
            return ""
        for key, row in partitions.items():
            before = self._rows.get(key)
            if before is not None and before is not row and not set(row.isr) - set(before.isr) <= lived:
                return "a broker without a session was admitted"
        return ""

    def _look_at_floors(self, world: "World", partitions: dict[PartitionKey, PartitionRow]) -> str:
        """No shrink goes below the floor, but for a lost tail or an election that may lose records."""
        if any(broker.crashed for broker in world.brokers.values()):
            return ""
        lossy = {(r.topic_id, r.partition) for r in self._new_records(world) if isinstance(r, PossibleLoss)}
        for key, row in partitions.items():
            before = self._rows.get(key)
            if before is None or before is row or key in lossy or len(row.isr) >= len(before.isr):
                continue
            if before.is_unproven:
                # Who was in sync by it was not believed.
                continue
            if all(key in world.brokers[b].confessed for b in set(before.isr) - set(row.isr)):
                continue
            if len(row.isr) < floor(world.configuring.least(world, row.topic_id), row.settled_count):
                return "an ISR shrank below its floor"
        return ""

    def _look_at_topics(self, world: "World", partitions: dict[PartitionKey, PartitionRow]) -> str:
        rows = world.rows()
        before, now = set(map(identity, self._rows.values())), set(map(identity, partitions.values()))
        self._gone.update(dict.fromkeys(before - now, rows.metadata_version))
        if not self._gone.keys().isdisjoint(now):
            return "a partition that was gone is there again"
        for row in partitions.values():
            self._marks[row.key].add(mark_of(row.topic_id, row.base_epoch))
        counts = {topic_id: len(found) for topic_id, found in rows.partitions.by_topic.items() if found}
        if counts != {topic_id: topic.partition_count for topic_id, topic in rows.topics.items()}:
            return "a topic has other partitions than it says"
        if any(set(found) != set(range(len(found))) for found in rows.partitions.by_topic.values()):
            return "the partitions of a topic have a gap"
        for record in self._new_records(world):
            if isinstance(record, PartitionsRemoved):
                self._numbers.pop(("partitions", record.topic_id), None)
        if not all(self._rises(("partitions", topic_id), count) for topic_id, count in counts.items()):
            return "a topic shrank"
        return ""

    def _new_records(self, world: "World") -> list[ClusterRecord]:
        return world.database.journal[self._journal_read :]

    def _look_at_moves(self, world: "World", partitions: dict[PartitionKey, PartitionRow]) -> str:
        """What moved a partition that is gone has failed, in the turn that took the partition away."""
        if not world.rows().reassignments.keys() <= partitions.keys():
            return "a reassignment of a partition that is gone"
        ended: dict[UUID, Phase] = {}
        failed: set[PartitionKey] = set()
        for record in self._new_records(world):
            if isinstance(record, ReassignmentChanged):
                ended[record.row.id] = record.row.phase
            elif isinstance(record, MovesFailed):
                failed.update((record.topic_id, number) for number in record.partitions)
        for key, one in self._moves.items():
            if key not in partitions and ended.get(one.id) is not Phase.FAILED and key not in failed:
                return "a reassignment outlived its partition"
        return ""

    def _look_at_logs(self, world: "World") -> str:
        """Who has heard that a partition is gone has no log of it any more, and never again."""
        for b, broker in world.brokers.items():
            logs, dropped = broker.logs, self._dropped.setdefault(b, set())
            if any(self._has_log_of(broker, one) for one in dropped):
                return "a log of a partition that was gone is there again"
            if broker.up and broker.view.ready:
                heard = {one for one, at in self._gone.items() if at <= broker.view.metadata_version}
                if any(self._has_log_of(broker, one) for one in heard):
                    return "a log of a partition that is gone is kept"
                dropped |= heard
            for key, log in logs.items():
                if log.records and not self._is_of_one(key, log.records):
                    return "a record of another partition is in the log"
        return ""

    def _has_log_of(self, broker: "Broker", gone: Identity) -> bool:
        """A log with records says by them whose it is; an empty one is of what the broker knows."""
        key, base_epoch = gone
        if key not in broker.logs:
            return False
        records = broker.logs[key].records
        if records:
            return bool(records[0].mark == mark_of(key[0], base_epoch))
        return broker.up and broker.view.ready and key not in broker.view.partitions

    def _is_of_one(self, key: PartitionKey, records: list[Stored]) -> bool:
        """What came in by a stray log stands first, what came in by a fetch or a produce stands last."""
        return records[0].mark == records[-1].mark and records[0].mark in self._marks[key]

    def left_over(self, world: "World") -> str:
        """At rest no live broker has a log of what is gone."""
        kept = any(
            broker.up and any(self._has_log_of(broker, one) for one in self._gone)
            for broker in world.brokers.values()
        )
        return "a log of a partition that is gone stays" if kept else ""
