"""This room compares each state of the simulated world with those before: what rises, and what stays gone."""

from typing import TYPE_CHECKING
from uuid import UUID

from controller.core.records import Phase, Reassignment, ReassignmentChanged
from muster.messages.link.rows import NO_LEADER, PartitionKey, PartitionRow
from tests.simulation.replication.memory_log import Stored, mark_of

if TYPE_CHECKING:
    from tests.simulation.replication.world import World


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
        self._gone: dict[PartitionKey, int] = {}
        """Partitions that were there and will never be again, and the metadata version that says so."""
        self._dropped: dict[int, set[PartitionKey]] = {}
        """Of these, by broker, what it has heard of."""

    def look(self, world: "World") -> str:
        """What is broken; "" if nothing is."""
        rows = world.rows()
        partitions = {row.key: row for row in rows.partitions.values()}
        text = self._look_at_numbers(world, partitions)
        text = text or self._look_at_admissions(world, partitions)
        text = text or self._look_at_topics(world, partitions)
        text = text or self._look_at_moves(world, partitions)
        text = text or self._look_at_logs(world)
        self._rows, self._moves = partitions, dict(rows.reassignments)
        self._journal_read = len(world.database.journal)
        return text

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

    def _look_at_topics(self, world: "World", partitions: dict[PartitionKey, PartitionRow]) -> str:
        rows = world.rows()
        self._gone.update(dict.fromkeys(self._rows.keys() - partitions.keys(), rows.metadata_version))
        if not self._gone.keys().isdisjoint(partitions):
            return "a partition that was gone is there again"
        counts = {topic_id: len(found) for topic_id, found in rows.partitions.by_topic.items() if found}
        if counts != {topic_id: topic.partition_count for topic_id, topic in rows.topics.items()}:
            return "a topic has other partitions than it says"
        if any(set(found) != set(range(len(found))) for found in rows.partitions.by_topic.values()):
            return "the partitions of a topic have a gap"
        if not all(self._rises(("partitions", topic_id), count) for topic_id, count in counts.items()):
            return "a topic shrank"
        return ""

    def _look_at_moves(self, world: "World", partitions: dict[PartitionKey, PartitionRow]) -> str:
        """What moved a partition that is gone has failed, in the turn that took the partition away."""
        if not world.rows().reassignments.keys() <= partitions.keys():
            return "a reassignment of a partition that is gone"
        ended = {
            record.row.id: record.row.phase
            for record in world.database.journal[self._journal_read :]
            if isinstance(record, ReassignmentChanged)
        }
        for key, one in self._moves.items():
            if key not in partitions and ended.get(one.id) is not Phase.FAILED:
                return "a reassignment outlived its partition"
        return ""

    def _look_at_logs(self, world: "World") -> str:
        """Who has heard that a partition is gone has no log of it any more, and never again."""
        for b, broker in world.brokers.items():
            logs, dropped = broker.logs, self._dropped.setdefault(b, set())
            if not dropped.isdisjoint(logs):
                return "a log of a partition that was gone is there again"
            if broker.up and broker.view.ready:
                heard = {key for key, at in self._gone.items() if at <= broker.view.metadata_version}
                if not heard.isdisjoint(logs):
                    return "a log of a partition that is gone is kept"
                dropped |= heard
            for key, log in logs.items():
                if log.records and not _is_of(key, log.records):
                    return "a record of another topic is in the log"
        return ""

    def left_over(self, world: "World") -> str:
        """At rest no live broker has a log of what is gone."""
        kept = any(broker.up and self._gone.keys() & broker.logs.keys() for broker in world.brokers.values())
        return "a log of a partition that is gone stays" if kept else ""


def _is_of(key: PartitionKey, records: list[Stored]) -> bool:
    """What came in by a stray log stands first, what came in by a fetch or a produce stands last."""
    return records[0].mark == records[-1].mark == mark_of(key[0])
