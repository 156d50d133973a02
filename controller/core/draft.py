"""This room holds one turn while it is decided: the state as it would be, and what that takes.

Everything a turn touches is laid over the rows, so a turn costs what it changes; each changed partition
becomes one record, stamped with the version of the turn, however often it changed on the way.
"""

from collections.abc import Iterator
from uuid import UUID

from controller.core.dispatch import RowChange, TurnChanges
from controller.core.election import Choice, Policy
from controller.core.records import (
    BrokerChanged,
    ClusterRecord,
    PartitionChanged,
    PartitionCreated,
    PossibleLoss,
    TopicCreated,
    TurnStamped,
)
from controller.core.settings import ControllerSettings
from controller.core.state import ClusterState, PartitionKey, folded
from controller.core.topics import MIN_INSYNC_REPLICAS, UNCLEAN_LEADER_ELECTION
from muster.messages.cluster import BrokerRow, PartitionRow, TopicRow


class Draft:
    """Rows, sessions and producer ids of one turn in the making."""

    def __init__(self, state: ClusterState, settings: ControllerSettings) -> None:
        self.rows = state.rows
        self.memory = state.memory.copy()
        self.settings = settings
        self.version = state.rows.metadata_version + 1
        self.next_producer_id = state.rows.next_producer_id
        self.partitions: dict[PartitionKey, PartitionRow] = {}
        self.brokers: dict[int, BrokerRow] = {}
        self.topics: dict[UUID, TopicRow] = {}
        self._topic_ids: dict[str, UUID] = {}
        self.other_records: list[ClusterRecord] = []
        self._policies: dict[UUID, Policy] = {}

    # ------------------------------------------------------------------------------ reading

    def partition(self, key: PartitionKey) -> PartitionRow | None:
        return self.partitions.get(key) or self.rows.partitions.get(key)

    def broker(self, broker_id: int) -> BrokerRow | None:
        return self.brokers.get(broker_id) or self.rows.brokers.get(broker_id)

    def all_brokers(self) -> dict[int, BrokerRow]:
        return {**self.rows.brokers, **self.brokers}

    def live(self) -> set[int]:
        """Brokers that have a session."""
        return set(self.memory.sessions)

    def partitions_of(self, broker_id: int) -> list[PartitionRow]:
        """Rows that assign `broker_id`, as they are in this turn."""
        keys = self.rows.by_broker.get(broker_id, {})
        found = [self.partitions.get(key) or self.rows.partitions[key] for key in keys]
        return found + [r for k, r in self.partitions.items() if k not in keys and broker_id in r.assigned]

    def topic_named_like(self, name: str) -> TopicRow | None:
        """The topic whose folded name is that of `name`."""
        topic_id = self.rows.topic_ids.get(folded(name))
        if topic_id is not None:
            return self.rows.topics[topic_id]
        topic_id = self._topic_ids.get(folded(name))
        return None if topic_id is None else self.topics[topic_id]

    def partitions_of_topic(self, topic_id: UUID) -> Iterator[PartitionRow]:
        topic = self.topics.get(topic_id) or self.rows.topics.get(topic_id)
        for number in range(topic.partition_count if topic else 0):
            row = self.partition((topic_id, number))
            if row is not None:
                yield row

    def policy(self, topic_id: UUID) -> Policy:
        """What the topic's configs, or the defaults, say about elections."""
        known = self._policies.get(topic_id)
        if known is None:
            topic = self.topics.get(topic_id) or self.rows.topics.get(topic_id)
            known = policy_of(topic.configs if topic else {}, self.settings)
            self._policies[topic_id] = known
        return known

    # ------------------------------------------------------------------------------ writing

    def put_topic(self, row: TopicRow) -> None:
        """A new topic, known by its folded name from here on."""
        self.topics[row.topic_id] = row
        self._topic_ids[folded(row.name)] = row.topic_id

    def put_partition(self, row: PartitionRow) -> None:
        """A new row; its version is that of this turn."""
        self.partitions[row.key] = row

    def choose(self, row: PartitionRow, choice: Choice) -> None:
        """Leader and ISR become those of `choice`; the leader epoch rises with every election.

        A choice of the leader that already leads is an election only when the partition was left
        without one; a change of the ISR alone keeps the epoch.
        """
        elected = choice.leader != row.leader
        self.partitions[row.key] = PartitionRow(
            row.topic_id,
            row.partition,
            row.assigned,
            choice.leader,
            row.leader_epoch + elected,
            choice.isr,
            self.version,
        )
        if choice.possible_loss:
            self.note_possible_loss(row, choice.leader, choice.possible_loss)

    def note_possible_loss(self, row: PartitionRow, leader: int, reason: str) -> None:
        self.other_records.append(PossibleLoss(row.topic_id, row.partition, leader, reason))

    # ------------------------------------------------------------------------------ the end of the turn

    def partition_changes(self) -> list[RowChange]:
        """What each touched partition was and is; a row that is again what it was keeps its old version."""
        changes = [RowChange(self.rows.partitions.get(key), row) for key, row in self.partitions.items()]
        changed = [one for one in changes if one.before is None or _differs(one.before, one.row)]
        if len(changed) < len(changes):
            self.partitions = {one.row.key: one.row for one in changed}
        return changed

    def records(self, changes: list[RowChange]) -> tuple[ClusterRecord, ...]:
        """Everything that became true, stamped; nothing at all if nothing did."""
        found: list[ClusterRecord] = [BrokerChanged(row) for row in self.brokers.values()]
        found += [TopicCreated(row) for row in self.topics.values()]
        found += [
            PartitionCreated(row) if before is None else PartitionChanged(row, before.version)
            for before, row in changes
        ]
        found += self.other_records
        return (TurnStamped(self.version), *found) if found else ()

    def turn_changes(self, changes: list[RowChange]) -> TurnChanges:
        return TurnChanges(
            metadata_version=self.version,
            controller_epoch=self.memory.controller_epoch,
            partitions=changes,
            brokers=tuple(self.brokers.values()),
            topics=tuple(self.topics.values()),
        )


def policy_of(configs: dict[str, str], settings: ControllerSettings) -> Policy:
    """A topic's own configs before the cluster's defaults."""
    least = configs.get(MIN_INSYNC_REPLICAS)
    unclean = configs.get(UNCLEAN_LEADER_ELECTION)
    return Policy(
        min_insync_replicas=int(least) if least else settings.default_min_insync_replicas,
        unclean=unclean == "true" if unclean else settings.default_unclean_leader_election,
    )


def _differs(before: PartitionRow, row: PartitionRow) -> bool:
    return (before.leader, before.leader_epoch, before.isr, before.assigned) != (
        row.leader,
        row.leader_epoch,
        row.isr,
        row.assigned,
    )
