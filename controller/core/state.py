"""This room holds what the controller knows: rows, which only `apply` changes, and its own memory."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from uuid import UUID

from controller.core.events import Link
from controller.core.records import (
    BrokerChanged,
    ClusterRecord,
    PartitionChanged,
    PartitionCreated,
    ProducerIdsGiven,
    TopicCreated,
    TurnStamped,
)
from muster.kernel.instants import Instant
from muster.kernel.invariants import invariant
from muster.messages.cluster import NO_LEADER, BrokerRow, CreatedTopic, PartitionRow, TopicRow

PartitionKey = tuple[UUID, int]


class ClusterRows:
    """Brokers, topics and partitions as they are stored, with the indexes that decisions need.

    Changed in place by `apply`, and by nothing else: one change of an ISR among ten thousand partitions
    copies none of them.
    """

    def __init__(self, cluster_id: str, metadata_version: int, next_producer_id: int) -> None:
        self.cluster_id = cluster_id
        self.metadata_version = metadata_version
        self.next_producer_id = next_producer_id
        self.brokers: dict[int, BrokerRow] = {}
        self.topics: dict[UUID, TopicRow] = {}
        self.topic_ids: dict[str, UUID] = {}
        """By folded name: `.` and `_` are one character there (conformance line 199)."""
        self.partitions: dict[PartitionKey, PartitionRow] = {}
        self.by_broker: dict[int, dict[PartitionKey, None]] = {}
        """Partitions assigned to each broker, in order of creation."""
        self.leaderless: dict[PartitionKey, None] = {}

    @classmethod
    def of(
        cls,
        cluster_id: str,
        metadata_version: int,
        next_producer_id: int,
        brokers: Iterable[BrokerRow],
        topics: Iterable[TopicRow],
        partitions: Iterable[PartitionRow],
    ) -> "ClusterRows":
        """What the store read. Brokers that are enrolled but never registered are left out by the caller."""
        rows = cls(cluster_id, metadata_version, next_producer_id)
        for broker in brokers:
            rows.brokers[broker.broker_id] = broker
        for topic in topics:
            rows.put_topic(topic)
        for partition in partitions:
            rows.put_partition(partition)
        return rows

    def put_topic(self, row: TopicRow) -> None:
        self.topics[row.topic_id] = row
        self.topic_ids[folded(row.name)] = row.topic_id

    def put_partition(self, row: PartitionRow) -> None:
        # The key is made once: its hash is computed in Python, and an election does this ten thousand times.
        key = row.key
        before = self.partitions.get(key)
        if before is None or before.assigned != row.assigned:
            for broker_id in before.assigned if before else ():
                self.by_broker[broker_id].pop(key, None)
            for broker_id in row.assigned:
                self.by_broker.setdefault(broker_id, {})[key] = None
        self.partitions[key] = row
        if row.leader == NO_LEADER:
            self.leaderless[key] = None
        elif before is not None and before.leader == NO_LEADER:
            self.leaderless.pop(key, None)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ClusterRows) and self._content == other._content

    __hash__ = None  # type: ignore[assignment]

    @property
    def _content(self) -> tuple[object, ...]:
        return (
            self.cluster_id,
            self.metadata_version,
            self.next_producer_id,
            self.brokers,
            self.topics,
            self.partitions,
        )


def folded(name: str) -> str:
    """The name as metrics show it; two topics that fold to one name cannot both exist."""
    return name.replace(".", "_")


def apply(rows: ClusterRows, record: ClusterRecord) -> None:
    """Make `record` true. Raises InvariantViolation for one that was decided on another state."""
    match record:
        case PartitionChanged():
            known = rows.partitions[record.row.key]
            invariant(known.version == record.base_version, "a partition changed underneath the turn")
            rows.put_partition(record.row)
        case TurnStamped():
            invariant(record.version == rows.metadata_version + 1, "a turn was decided on another version")
            rows.metadata_version = record.version
        case BrokerChanged():
            rows.brokers[record.row.broker_id] = record.row
        case TopicCreated():
            rows.put_topic(record.row)
        case PartitionCreated():
            invariant(record.row.key not in rows.partitions, "a partition is created twice")
            rows.put_partition(record.row)
        case ProducerIdsGiven():
            rows.next_producer_id = record.first + record.count
        case _:
            pass


@dataclass(frozen=True, slots=True)
class ParkedAnswer:
    """A CreateTopics whose new partitions do not all have leaders yet."""

    link: Link
    correlation_id: int
    topics: tuple[CreatedTopic, ...]
    waiting_for: frozenset[UUID]
    due_at: Instant


@dataclass(slots=True)
class Session:
    """A live broker: it is heard until `deadline`; `link` is None between two links."""

    link: Link | None
    deadline: Instant


@dataclass(slots=True)
class Memory:
    """What only the present owner knows: who is live, on which link, and who waits for an answer."""

    controller_epoch: int = 0
    sessions: dict[int, Session] = field(default_factory=dict)
    parked: list[ParkedAnswer] = field(default_factory=list)

    def copy(self) -> "Memory":
        """Another memory with the same Session objects: what is heard meanwhile counts in both."""
        return Memory(self.controller_epoch, dict(self.sessions), list(self.parked))

    def broker_of(self, link: Link) -> int | None:
        """The broker that `link` is bound to; None: unbound, nothing from it is read."""
        for broker_id, session in self.sessions.items():
            if session.link is not None and session.link == link:
                return broker_id
        return None


@dataclass(slots=True)
class ClusterState:
    """Rows and memory of the controller's lane."""

    rows: ClusterRows
    memory: Memory = field(default_factory=Memory)
