"""This room holds what the controller knows: rows, which only `apply` changes, and its own memory."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from uuid import UUID

import msgspec

from controller.core.events import LinkId, PlanComputed, ProposalsReady
from controller.core.loss_rows import Loss, LossTable
from controller.core.partition_table import PartitionTable
from controller.core.plan_rows import PlanTable
from controller.core.proposing import LeaderProposal, Seats
from controller.core.records import (
    BrokerChanged,
    BrokerConfigsChanged,
    BrokerUnregistered,
    ClientQuotaChanged,
    ClusterRecord,
    LossChanged,
    MovesFailed,
    PartitionsChanged,
    PartitionsCreated,
    PartitionsRemoved,
    Phase,
    PlanChanged,
    PlanStepsAdded,
    PlanStepsChanged,
    PossibleLoss,
    ProducerIdsGiven,
    Reassignment,
    ReassignmentChanged,
    SetBackProven,
    TopicChanged,
    TopicCreated,
    TopicDeleted,
    TurnStamped,
)
from controller.core.shown_logs import ShownLogs
from controller.core.waiting import WaitingMoves
from muster.kernel.instants import Instant
from muster.kernel.invariants import invariant
from muster.messages.link.from_broker import AlterReassignments
from muster.messages.link.quotas import QuotaKey, QuotaRow
from muster.messages.link.rows import (
    NO_LEADER,
    BrokerConfigs,
    BrokerRow,
    PartitionKey,
    PartitionRow,
    TopicRow,
)
from muster.messages.link.to_broker import CreateTopicsAnswer, ReassignmentResult, TopicResults


class ClusterRows:
    """Brokers, topics and partitions as they are stored; changed by `apply`, and by nothing else."""

    def __init__(self, cluster_id: str, metadata_version: int, next_producer_id: int) -> None:
        self.cluster_id = cluster_id
        self.metadata_version = metadata_version
        self.next_producer_id = next_producer_id
        self.proven_version = 0
        """Of the turn that was the last one before a standby was promoted; 0: none is believed."""
        self.brokers: dict[int, BrokerRow] = {}
        self.topics: dict[UUID, TopicRow] = {}
        self.topic_ids: dict[str, UUID] = {}
        """By folded name: `.` and `_` are one character there (conformance line 199)."""
        self.partitions = PartitionTable()
        self.reassignments: dict[PartitionKey, Reassignment] = {}
        """The active ones, in the order in which they were asked for."""
        self.moving: dict[PartitionKey, None] = {}
        """Those of them that are in progress: a turn looks at each, and must not at a hundred thousand."""
        self.plans = PlanTable()
        self.configs: dict[int, BrokerConfigs] = {}
        """What was set for brokers, and for EVERY_BROKER."""
        self.quotas: dict[QuotaKey, QuotaRow] = {}
        self.losses = LossTable()
        self.preferred: Counter[int] = Counter()
        """How many partitions each broker stands first for; counted as rows come, not when topics do."""
        self.leaderless: Counter[UUID] = Counter()
        """By topic, how many partitions nobody leads: there alone is sought what whoever comes may lead, and
        what replicas have to show their logs of."""

    @classmethod
    def of(
        cls,
        cluster_id: str,
        metadata_version: int,
        next_producer_id: int,
        brokers: Iterable[BrokerRow],
        topics: Iterable[TopicRow],
        partitions: Iterable[PartitionRow],
        reassignments: Iterable[Reassignment] = (),
        configs: Iterable[BrokerConfigs] = (),
        plans: PlanTable | None = None,
        quotas: Iterable[QuotaRow] = (),
        losses: Iterable[Loss] = (),
        proven_version: int = 0,
    ) -> "ClusterRows":
        """What the store read. Brokers that are enrolled but never registered are left out by the caller."""
        rows = cls(cluster_id, metadata_version, next_producer_id)
        rows.proven_version = proven_version
        for broker in brokers:
            rows.brokers[broker.broker_id] = broker
        for topic in topics:
            rows.put_topic(topic)
        for partition in partitions:
            rows.partitions.put(partition)
            rows.preferred[partition.assigned[0]] += 1
            if partition.leader == NO_LEADER:
                rows.leaderless[partition.topic_id] += 1
        rows.configs = {one.broker_id: one for one in configs}
        for one in reassignments:
            _reassign(rows, one)
        if plans is not None:
            rows.plans = plans
        rows.quotas = {one.key: one for one in quotas}
        rows.losses = LossTable({one.key: one for one in losses})
        return rows

    def copy(self) -> "ClusterRows":
        """Rows that may be changed while these stay as they are; the partitions of a topic are shared as
        long as nobody changes one: an ISR among a hundred thousand partitions costs its topic's.
        """
        other = ClusterRows(self.cluster_id, self.metadata_version, self.next_producer_id)
        other.proven_version = self.proven_version
        other.brokers = dict(self.brokers)
        other.topics = dict(self.topics)
        other.topic_ids = dict(self.topic_ids)
        other.partitions = self.partitions.copy()
        other.reassignments = dict(self.reassignments)
        other.configs = dict(self.configs)
        other.moving = dict(self.moving)
        other.plans = self.plans.copy()
        other.quotas = dict(self.quotas)
        other.losses = LossTable(self.losses)
        other.preferred = self.preferred.copy()
        other.leaderless = self.leaderless.copy()
        return other

    def put_topic(self, row: TopicRow) -> None:
        self.topics[row.topic_id] = row
        self.topic_ids[folded(row.name)] = row.topic_id

    def drop_partitions(self, topic_id: UUID, first: int) -> None:
        """The partitions of a topic from `first` on are no more."""
        self.losses.drop(topic_id, first)
        known = self.partitions.of_topic(topic_id)
        for number in [one for one in known if one >= first]:
            gone = known.pop(number)
            self.preferred[gone.assigned[0]] -= 1
            self.change_leaderless(topic_id, -(gone.leader == NO_LEADER))

    def drop_topic(self, topic_id: UUID) -> None:
        """The topic and its partitions are no more. Raises KeyError."""
        self.losses.drop(topic_id)
        del self.topic_ids[folded(self.topics.pop(topic_id).name)]
        self.leaderless.pop(topic_id, None)
        self.preferred.subtract(row.assigned[0] for row in self.partitions.drop_topic(topic_id).values())

    def change_leaderless(self, topic_id: UUID, by: int) -> None:
        """So many more partitions of a topic nobody leads; a topic without any is not named."""
        if by:
            self.leaderless[topic_id] += by
            if not self.leaderless[topic_id]:
                del self.leaderless[topic_id]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ClusterRows) and self._content == other._content

    __hash__ = None  # type: ignore[assignment]

    @property
    def _content(self) -> tuple[object, ...]:
        return (
            self.cluster_id,
            self.metadata_version,
            self.next_producer_id,
            self.proven_version,
            self.brokers,
            self.topics,
            self.partitions,
            self.reassignments,
            self.configs,
            self.plans,
            self.quotas,
            self.losses,
        )


def folded(name: str) -> str:
    """The name as metrics show it; two topics that fold to one name cannot both exist."""
    return name.replace(".", "_")


def apply(rows: ClusterRows, record: ClusterRecord) -> None:
    """Make `record` true. Raises InvariantViolation for one that was decided on another state."""
    match record:
        case PartitionsChanged():
            topic_id = record.alike.topic_id
            known = rows.partitions.of_topic(topic_id)
            are_led, led_before = record.alike.leader != NO_LEADER, 0
            changed = zip(record.alike.rows(record.version), record.base_versions, strict=True)
            for row, base_version in changed:
                before = known[row.partition]
                invariant(before.version == base_version, "a partition changed underneath the turn")
                known[row.partition] = row
                led_before += before.leader != NO_LEADER
                if row.assigned[0] != before.assigned[0]:
                    rows.preferred.update({row.assigned[0]: 1, before.assigned[0]: -1})
            rows.change_leaderless(topic_id, led_before - len(record.base_versions) * are_led)
        case TurnStamped():
            invariant(record.version == rows.metadata_version + 1, "a turn was decided on another version")
            rows.metadata_version = record.version
        case BrokerChanged():
            broker = msgspec.structs.replace(record.row, version=rows.metadata_version)
            rows.brokers[broker.broker_id] = broker
        case BrokerUnregistered():
            del rows.brokers[record.broker_id]
        case SetBackProven(broker_id) if broker_id in rows.brokers:
            # Its row says so to people, and is of this version, too.
            broker = rows.brokers[broker_id]
            rows.brokers[broker_id] = msgspec.structs.replace(broker, version=rows.metadata_version)
        case TopicCreated() | TopicChanged():
            rows.put_topic(record.row)
        case BrokerConfigsChanged():
            rows.configs[record.row.broker_id] = record.row
        case TopicDeleted():
            rows.drop_topic(record.topic_id)
        case PartitionsRemoved():
            rows.drop_partitions(record.topic_id, record.first)
        case PartitionsCreated():
            known = rows.partitions.of_topic(record.alike.topic_id)
            for row in record.alike.rows(record.version):
                invariant(row.partition not in known, "a partition is created twice")
                known[row.partition] = row
                rows.preferred[row.assigned[0]] += 1
            if record.alike.leader == NO_LEADER:
                rows.change_leaderless(record.alike.topic_id, len(record.alike.partitions))
        case ReassignmentChanged():
            _reassign(rows, record.row)
        case MovesFailed():
            for number in record.partitions:
                del rows.reassignments[record.topic_id, number]
                rows.moving.pop((record.topic_id, number), None)
        case PlanChanged():
            rows.plans.put(record.row)
        case PlanStepsAdded():
            rows.plans.add_steps(record.plan_id, record.steps)
        case PlanStepsChanged():
            rows.plans.change_steps(record.plan_id, record.state, record.numbers)
        case ClientQuotaChanged(row):
            if row.is_empty:
                rows.quotas.pop(row.key, None)
            else:
                rows.quotas[row.key] = row
        case PossibleLoss():
            _may_have_lost(rows, record)
        case LossChanged():
            rows.losses.put(record.row)
        case ProducerIdsGiven():
            rows.next_producer_id = record.first + record.count
        case _:
            pass


def _may_have_lost(rows: ClusterRows, record: PossibleLoss) -> None:
    """An election that may have lost records, unless its partition is gone with the same turn."""
    topic = rows.topics.get(record.topic_id)
    key = record.topic_id, record.partition
    if topic is None or not record.leader_epoch or rows.partitions.get(key) is None:
        return
    rows.losses.put(record.loss(topic.name, rows.metadata_version))


def _reassign(rows: ClusterRows, row: Reassignment) -> None:
    active = rows.reassignments.get(row.key)
    if row.is_active:
        invariant(active is None or active.id == row.id, "a partition has two active reassignments")
        rows.reassignments[row.key] = row
        if row.phase is Phase.IN_PROGRESS:
            rows.moving[row.key] = None
    elif active is not None and active.id == row.id:
        del rows.reassignments[row.key]
        rows.moving.pop(row.key, None)


def after_records(rows: ClusterRows, records: Sequence[ClusterRecord]) -> ClusterRows:
    """The rows once all `records` are true; `rows` stay as they are."""
    if not records:
        return rows
    changed = rows.copy()
    for record in records:
        apply(changed, record)
    return changed


@dataclass(frozen=True, slots=True)
class ParkedAnswer:
    """The answer to who asked for partitions, of which not all have leaders yet."""

    link: LinkId
    answer: CreateTopicsAnswer | TopicResults
    waiting_for: frozenset[UUID]
    due_at: Instant


class LostTail(NamedTuple):
    """Which logs of a broker may lack records that they once held: all, or those it names."""

    everywhere: bool = False
    logs: frozenset[PartitionKey] = frozenset()

    def covers(self, row: PartitionRow) -> bool:
        return self.everywhere or (bool(self.logs) and row.key in self.logs)


NOTHING_LOST: Final = LostTail()


@dataclass(frozen=True, slots=True)
class Adopting:
    """Proposals of a worker that are being adopted, by what they are for, and which topics are left.

    None: all. By their ids, as rows that were read again may stand in another order.
    """

    event: ProposalsReady
    proposed: Mapping[Seats, LeaderProposal]
    left: Sequence[UUID] | None = None


@dataclass(frozen=True, slots=True)
class AddingSteps:
    """A computed plan, and how many parts of its steps are stored."""

    event: PlanComputed
    stored_parts: int = 0


@dataclass(frozen=True, slots=True)
class Altering:
    """A request for reassignments that is carried out in part; `results`: what became of its first places.

    `named_twice`: partitions, by topic and number, that it names more than once.
    """

    link: LinkId
    frame: AlterReassignments
    fresh: UUID
    named_twice: frozenset[tuple[str, int]]
    results: tuple[ReassignmentResult, ...] = ()


@dataclass(slots=True)
class Session:
    """A live broker: it is heard until `deadline`; `link` is None between two links.

    `applied` is the metadata version that it last stated on this link.
    """

    link: LinkId | None
    deadline: Instant
    applied: int = 0
    protocol: int = 0
    """What its last hello to this owner stated; 0: it has said none yet."""
    disk_is_full: bool = False
    """It takes no records, as it last said: nobody is asked to produce there who has another leader."""
    since: Instant | None = None
    """When this process of it said hello to this owner first; None: it has not."""


@dataclass(frozen=True, slots=True)
class Leaver:
    """A broker that said Leaving. `moved_at` is the metadata version at which others lead what they can."""

    moved_at: int | None = None
    """None: there may be something left to move."""
    told: bool = False
    """MayLeave was said on its link."""


@dataclass(slots=True)
class Memory:
    """What only the present owner knows: who is live, on which link, and who waits for an answer."""

    controller_epoch: int = 0
    sessions: dict[int, Session] = field(default_factory=dict)
    parked: list[ParkedAnswer] = field(default_factory=list)
    adopting: list[Adopting] = field(default_factory=list)
    """Proposals that are adopted in part; the next turn goes on with them."""
    returning: dict[int, LostTail] = field(default_factory=dict)
    """Brokers that came back and may still lead what has no leader, and what they have lost."""
    unusable: dict[int, frozenset[PartitionKey]] = field(default_factory=dict)
    """By broker: the logs that it can neither read nor write, as it last said."""
    giving_away: dict[int, tuple[PartitionKey, ...]] = field(default_factory=dict)
    """Of these, by broker, what is still to be led by others; the next turn goes on with them."""
    reassigning: bool = False
    """Reassignments wait for room in a turn; the next goes on with them."""
    waiting: WaitingMoves = field(default_factory=WaitingMoves)
    """Reassignments that have not begun, by what they wait for."""
    planning: bool = False
    """A plan has steps to ask and room for them; the next turn goes on with it."""
    adding_steps: list[AddingSteps] = field(default_factory=list)
    """Computed plans whose steps are not all stored; the next turn goes on with them."""
    altering: list[Altering] = field(default_factory=list)
    """Requests for reassignments that are not answered yet; the next turn goes on with them."""
    balance_at: Instant | None = None
    """When all partitions are looked at for leaders that should be others."""
    leaving: dict[int, Leaver] = field(default_factory=dict)
    """Brokers that are about to stop, and how far that is."""
    set_back: dict[int, str] = field(default_factory=dict)
    """Brokers that have proved that the database was set back, and how: refused, though it catches up."""
    shown: ShownLogs = field(default_factory=ShownLogs)
    """Logs that brokers have shown, where the rows of a database that was set back are unproven."""

    @property
    def is_unfinished(self) -> bool:
        """True if the next turn goes on with something at once."""
        return bool(
            self.adopting
            or self.returning
            or self.giving_away
            or self.reassigning
            or self.planning
            or self.adding_steps
            or self.altering
            or self.shown.unjudged
            or any(one.moved_at is None for one in self.leaving.values())
        )

    def copy(self) -> "Memory":
        """Another memory with the same Session objects: what is heard meanwhile counts in both."""
        return Memory(
            self.controller_epoch,
            dict(self.sessions),
            list(self.parked),
            list(self.adopting),
            dict(self.returning),
            dict(self.unusable),
            dict(self.giving_away),
            self.reassigning,
            self.waiting.copy(),
            self.planning,
            list(self.adding_steps),
            list(self.altering),
            self.balance_at,
            dict(self.leaving),
            dict(self.set_back),
            self.shown.copy(),
        )

    def broker_of(self, link: LinkId) -> int | None:
        """The broker that `link` is bound to; None: unbound, nothing from it is read."""
        for broker_id, session in self.sessions.items():
            if session.link is not None and session.link == link:
                return broker_id
        return None


@dataclass(frozen=True, slots=True)
class ClusterState:
    """Rows and memory of the controller's lane."""

    rows: ClusterRows
    memory: Memory = field(default_factory=Memory)
