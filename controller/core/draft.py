"""This room holds one turn while it is decided: the state as it would be, and what that takes.

Everything a turn touches is laid over the rows, so a turn costs what it changes. Each changed partition is
in one record, with all that became alike and stamped with the version of the turn, however often it changed
on the way.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from uuid import UUID

import msgspec

from controller.core.alike import alike_changes
from controller.core.dispatch import AlikeChange, TurnChanges
from controller.core.election import Choice, Policy, can_be_led_anew, led_by_nobody
from controller.core.events import HangUp, LinkId, Say, Saying
from controller.core.loss_draft import LossDraft
from controller.core.partition_table import PartitionTable
from controller.core.plan_draft import PlanDraft
from controller.core.records import (
    BrokerChanged,
    BrokerConfigsChanged,
    BrokerUnregistered,
    ClientQuotaChanged,
    ClusterRecord,
    MovesFailed,
    PartitionsChanged,
    PartitionsCreated,
    PartitionsRemoved,
    Phase,
    PossibleLoss,
    Reassignment,
    ReassignmentChanged,
    RequestAnswered,
    RequestBegun,
    TopicChanged,
    TopicCreated,
    TopicDeleted,
    TurnStamped,
)
from controller.core.settings import ControllerSettings
from controller.core.state import ClusterRows, ClusterState, Memory, after_records, folded
from muster.kernel import config_levels, topic_configs
from muster.kernel.config_levels import Levels
from muster.kernel.decision import Decision
from muster.kernel.error_codes import ErrorCode
from muster.kernel.instants import Instant
from muster.messages.codec import SharedTexts
from muster.messages.link.from_broker import AlterPartition
from muster.messages.link.quotas import QuotaKey, QuotaRow
from muster.messages.link.rows import (
    EVERY_BROKER,
    NO_LEADER,
    PROVEN,
    BrokerConfigs,
    BrokerRow,
    PartitionKey,
    PartitionRow,
    TopicRow,
)


@dataclass(frozen=True, kw_only=True)
class ClusterDecision(Decision[ClusterRecord, Saying]):
    """A decision, and what is true once it is committed.

    What follows from thousands of records is found by whoever asks first, beside the loop in a large turn.
    """

    rows: ClusterRows
    """Those that it was decided on."""
    memory: Memory

    @cached_property
    def state(self) -> ClusterState:
        """What is true then; `rows` stay as they are."""
        changing = [one for one in self.records if not isinstance(one, RequestAnswered | RequestBegun)]
        return ClusterState(after_records(self.rows, changing), self.memory)

    @cached_property
    def texts(self) -> SharedTexts:
        """All that is said then, encoded."""
        texts = SharedTexts()
        for saying in (*self.replies, *self.commands):
            if isinstance(saying, Say):
                texts.encode(saying.frame)
        return texts


class Draft:
    """Rows, sessions, producer ids and sayings of one turn in the making."""

    def __init__(self, state: ClusterState, now: Instant, settings: ControllerSettings) -> None:
        self.rows = state.rows
        self.memory = state.memory.copy()
        self.now = now
        self.settings = settings
        self.version = state.rows.metadata_version + 1
        self.next_producer_id = state.rows.next_producer_id
        self.partitions = PartitionTable()
        self.brokers: dict[int, BrokerRow] = {}
        self.unregistered: dict[int, BrokerRow] = {}
        """Stored brokers that are no part of the cluster any more."""
        self.topics: dict[UUID, TopicRow] = {}
        self.deleted: dict[UUID, TopicRow] = {}
        """Stored topics that this turn deletes; whoever reads the draft does not find them any more."""
        self.removed: dict[UUID, int] = {}
        """By topic: the first of the stored partitions that this turn removes, up to the last."""
        self._topic_ids: dict[str, UUID] = {}
        self.configs: dict[int, BrokerConfigs] = {}
        self.reassignments: dict[UUID, Reassignment] = {}
        """Those that this turn changes, by id, as they last are in it."""
        self._active: dict[PartitionKey, Reassignment | None] = {}
        self.failed_moves: list[Reassignment] = []
        """Stored ones that end with their partitions; not in `reassignments`, as thousands are one record."""
        self._moves_failed: list[MovesFailed] = []
        self.plans = PlanDraft(state.rows.plans)
        self.losses = LossDraft(state.rows.losses, state.memory.returning)
        self.quotas: dict[QuotaKey, QuotaRow] = {}
        """Those that this turn changes; one without a rate is taken away."""
        self.other_records: list[ClusterRecord] = []
        self.begun: list[RequestBegun] = []
        self.replies: list[Saying] = []
        self.hang_ups: list[HangUp] = []
        self.hellos: list[tuple[LinkId, int]] = []
        self.proposals: list[tuple[LinkId, AlterPartition, list[ErrorCode]]] = []
        """Judged already; answered at the end of the turn."""
        self._room = settings.max_changed_in_bulk
        self.alterations_left = settings.max_altered_in_a_turn
        self._policies: dict[UUID, Policy] = {}

    # ------------------------------------------------------------------------------ reading

    def partition(self, key: PartitionKey) -> PartitionRow | None:
        if key[0] in self.deleted or self._is_removed(key):
            return None
        return self.partitions.get(key) or self.rows.partitions.get(key)

    def _is_removed(self, key: PartitionKey) -> bool:
        return bool(self.removed) and key[1] >= self.removed.get(key[0], key[1] + 1)

    def broker(self, broker_id: int) -> BrokerRow | None:
        if broker_id in self.unregistered:
            return None
        return self.brokers.get(broker_id) or self.rows.brokers.get(broker_id)

    def all_brokers(self) -> dict[int, BrokerRow]:
        brokers = {**self.rows.brokers, **self.brokers}
        for broker_id in self.unregistered:
            brokers.pop(broker_id, None)
        return brokers

    def is_cordoned(self, broker_id: int) -> bool:
        """True if an operator wants no new replicas on it."""
        row = self.broker(broker_id)
        return row is not None and row.cordoned

    def all_topics(self) -> dict[UUID, TopicRow]:
        topics = {**self.rows.topics, **self.topics}
        for topic_id in self.deleted:
            del topics[topic_id]
        return topics

    def topic(self, topic_id: UUID) -> TopicRow | None:
        """The topic of this id, as it is in this turn."""
        if topic_id in self.deleted:
            return None
        return self.topics.get(topic_id) or self.rows.topics.get(topic_id)

    def live(self) -> set[int]:
        """Brokers that may be elected and admitted: those that have a session and are not about to stop."""
        return self.memory.sessions.keys() - self.leaving()

    def leaving(self) -> set[int]:
        """Brokers that are about to stop, by their rows: a new owner knows it before they say it again."""
        return {broker_id for broker_id, row in self.all_brokers().items() if row.leaving}

    def usable(self, live: set[int], row: PartitionRow) -> set[int]:
        """Those of `live` whose log of the partition can be used: `live` itself but where a disk failed."""
        if not self.memory.unusable:
            return live
        failed = {b for b, keys in self.memory.unusable.items() if row.key in keys}
        return live - failed if failed else live

    def topic_ids(self) -> list[UUID]:
        """Every topic that has partitions."""
        ids = {**self.rows.partitions.by_topic, **self.partitions.by_topic}
        return [topic_id for topic_id in ids if topic_id not in self.deleted]

    def all_partitions(self) -> Iterator[PartitionRow]:
        """Every row as it is in this turn."""
        return chain.from_iterable(map(self.partitions_of_topic, self.topic_ids()))

    def leaderless(self) -> Iterator[PartitionRow]:
        """Every row that nobody leads; sought where the rows have some, and where this turn changed one."""
        stored, drafted = self.rows.leaderless, self.partitions.by_topic
        topic_ids = [one for one in self.topic_ids() if one in stored or one in drafted]
        rows = chain.from_iterable(map(self.partitions_of_topic, topic_ids))
        return (row for row in rows if row.leader == NO_LEADER)

    def partitions_of_topic(self, topic_id: UUID) -> Iterable[PartitionRow]:
        if topic_id in self.deleted:
            return ()
        stored = self.rows.partitions.by_topic.get(topic_id, {})
        if topic_id in self.removed:
            first = self.removed[topic_id]
            stored = {number: row for number, row in stored.items() if number < first}
        drafted = self.partitions.by_topic.get(topic_id)
        return {**stored, **drafted}.values() if drafted else stored.values()

    def reassignment(self, key: PartitionKey) -> Reassignment | None:
        """The active one of this partition."""
        return self._active[key] if key in self._active else self.rows.reassignments.get(key)

    def active_reassignments(self) -> list[Reassignment]:
        """All of them, in the order in which they were asked for."""
        stored = [one for key, one in self.rows.reassignments.items() if key not in self._active]
        return stored + [one for one in self._active.values() if one is not None]

    def moving(self) -> list[Reassignment]:
        """Those that are in progress."""
        rows = self.rows
        stored = [rows.reassignments[key] for key in rows.moving if key not in self._active]
        return stored + [one for one in self._active.values() if one and one.phase is Phase.IN_PROGRESS]

    def not_begun(self) -> int:
        """How many are asked for and have not begun."""
        rows = self.rows
        count = len(rows.reassignments) - len(rows.moving)
        for key, one in self._active.items():
            count -= key in rows.reassignments and key not in rows.moving
            count += one is not None and one.phase is Phase.INIT
        return count

    def quota(self, key: QuotaKey) -> QuotaRow | None:
        """What is set for this user, client id, or both."""
        row = self.quotas.get(key) or self.rows.quotas.get(key)
        return None if row is None or row.is_empty else row

    def all_quotas(self) -> list[QuotaRow]:
        return [row for row in {**self.rows.quotas, **self.quotas}.values() if not row.is_empty]

    def topic_named_like(self, name: str) -> TopicRow | None:
        """The topic whose folded name is that of `name`."""
        topic_id = self.rows.topic_ids.get(folded(name))
        if topic_id is None or topic_id in self.deleted:
            topic_id = self._topic_ids.get(folded(name))
        return None if topic_id is None else self.topic(topic_id)

    def policy(self, topic_id: UUID) -> Policy:
        """What the topic's configs, or the defaults, say about elections."""
        known = self._policies.get(topic_id)
        if known is None:
            topic = self.topic(topic_id)
            known = policy_of(topic.configs if topic else {}, self.levels())
            self._policies[topic_id] = known
        return known

    def policy_for(self, row: PartitionRow) -> Policy:
        """The same for one partition: nothing is lost as long as an ISR member is only about to stop."""
        policy = self.policy(row.topic_id)
        if policy.unclean and not self.leaving().isdisjoint(row.isr):
            return policy._replace(unclean=False)
        return policy

    def broker_configs(self, broker_id: int) -> BrokerConfigs:
        """What is set for a broker, or for EVERY_BROKER."""
        known = self.configs.get(broker_id) or self.rows.configs.get(broker_id)
        return known or BrokerConfigs(broker_id)

    def levels(self) -> Levels:
        """What holds for topics that set nothing, wherever the controller decides by it."""
        return levels_of(self.broker_configs(EVERY_BROKER).configs, self.settings)

    # ------------------------------------------------------------------------------ writing

    def put_broker(self, row: BrokerRow) -> None:
        """A broker registered, or is another than before."""
        self.brokers[row.broker_id] = msgspec.structs.replace(row, version=self.version)

    def unregister(self, broker_id: int) -> None:
        """A stored broker is no part of the cluster any more; its id may be given again."""
        self.brokers.pop(broker_id, None)
        self.unregistered[broker_id] = self.rows.brokers[broker_id]

    def put_topic(self, row: TopicRow) -> None:
        """A new topic, known by its folded name from here on."""
        row = msgspec.structs.replace(row, version=self.version)
        self.topics[row.topic_id] = row
        self._topic_ids[folded(row.name)] = row.topic_id

    def change_topic(self, row: TopicRow) -> None:
        """Other facts of a topic that exists; its name and id stay."""
        self.topics[row.topic_id] = msgspec.structs.replace(row, version=self.version)
        self._policies.pop(row.topic_id, None)

    def put_configs(self, broker_id: int, configs: dict[str, str]) -> None:
        """Other configs of a broker, or of EVERY_BROKER."""
        self.configs[broker_id] = BrokerConfigs(broker_id, configs, self.version)
        self._policies.clear()

    def delete_topic(self, row: TopicRow) -> None:
        """The topic and its partitions are no more; one that this turn made leaves no trace."""
        self.topics.pop(row.topic_id, None)
        self.removed.pop(row.topic_id, None)
        self.partitions.drop_topic(row.topic_id)
        if row.topic_id in self.rows.topics:
            # As it is stored: what this turn made of it before leaves no trace.
            self.deleted[row.topic_id] = self.rows.topics[row.topic_id]
        else:
            del self._topic_ids[folded(row.name)]

    def grew(self, topic_id: UUID) -> bool:
        """True if this turn added partitions to a stored topic."""
        drafted = self.partitions.by_topic.get(topic_id, {})
        return not self.rows.partitions.by_topic.get(topic_id, {}).keys() >= drafted.keys()

    def remove_partitions(self, topic_id: UUID, first: int) -> None:
        """The stored partitions of a topic from `first` on are no more."""
        drafted = self.partitions.by_topic.get(topic_id, {})
        for number in [one for one in drafted if one >= first]:
            del drafted[number]
        self.removed[topic_id] = first

    def put_partition(self, row: PartitionRow) -> None:
        """A new row; its version is that of this turn."""
        self.partitions.put(row)

    def choose(self, row: PartitionRow, choice: Choice) -> None:
        """Leader and ISR become those of `choice`; the leader epoch rises with every election.

        A choice of the leader that already leads is an election only when the partition was left
        without one; a change of the ISR alone keeps the epoch.
        Where epochs are used up nobody leads any more.
        """
        self._choose(self.partitions.of_topic(row.topic_id), row, choice)

    def _choose(self, drafted: dict[int, PartitionRow], row: PartitionRow, choice: Choice) -> None:
        leader, isr, why = choice
        elected = leader != row.leader
        if elected and not can_be_led_anew(row):
            # As it stands: of an unproven one the caller's row names whom the note of a loss asks.
            drafted[row.partition] = led_by_nobody(self.partition(row.key) or row, self.version)
            return
        drafted[row.partition] = PartitionRow(
            row.topic_id,
            row.partition,
            row.assigned,
            leader,
            row.leader_epoch + elected,
            isr,
            self.version,
            row.adding,
            row.removing,
            row.throttle,
            row.base_epoch,
            row.unproven if leader == NO_LEADER and row.is_unproven else PROVEN,
        )
        if why := why or self.losses.doubt(row, leader):
            self.note_possible_loss(row, leader, why)

    def choose_if_room(self, row: PartitionRow, choice: Choice) -> bool:
        """`choose`, for those who may have ten thousand rows to change. False: the turn is full."""
        return self.choose_all_if_room(row.topic_id, ((row, choice),))

    def choose_all_if_room(self, topic_id: UUID, choices: Iterable[tuple[PartitionRow, Choice]]) -> bool:
        """`choose_if_room` for partitions of one topic, which costs the loop less than one by one."""
        drafted = self.partitions.of_topic(topic_id)
        for row, choice in choices:
            if not self.take_room():
                return False
            self._choose(drafted, row, choice)
        return True

    def take_room(self) -> bool:
        """True if one more row may change for somebody who changes thousands."""
        has_room = self._room > 0
        self._room -= has_room
        return has_room

    def put_reassignment(self, row: Reassignment) -> None:
        """It was asked for, began or ended."""
        self.reassignments[row.id] = row
        self._active[row.key] = row if row.is_active else None

    def fail_moves(self, topic_id: UUID, first: int, reason: str) -> None:
        """Whatever moves partitions of a topic from `first` on has failed: they are gone with this turn."""
        failed = []
        for key in self._moved_from(topic_id, first):
            one = self.reassignment(key)
            if one is None:
                continue
            ended = msgspec.structs.replace(one, phase=Phase.FAILED, reason=reason)
            if key in self._active:
                self.put_reassignment(ended)
            else:
                self._active[key] = None
                self.failed_moves.append(ended)
                failed.append(key[1])
        if failed:
            self._moves_failed.append(MovesFailed(topic_id, tuple(failed), reason))

    def _moved_from(self, topic_id: UUID, first: int) -> list[PartitionKey]:
        """Where a topic may have moves: among its partitions or among all moves, where there are fewer."""
        stored, moves = self.rows.partitions.by_topic.get(topic_id, {}), self.rows.reassignments
        drafted = self.partitions.by_topic.get(topic_id, {})
        if len(stored) <= len(moves):
            return [(topic_id, number) for number in {**stored, **drafted} if number >= first]
        changed = (one.key for one in self.reassignments.values())
        keys = dict.fromkeys((*moves, *changed))
        return [key for key in keys if key[0] == topic_id and key[1] >= first]

    def put_quota(self, row: QuotaRow) -> None:
        """It is set, changed, or, without a rate, taken away."""
        self.quotas[row.key] = row

    def note_possible_loss(self, row: PartitionRow, leader: int, reason: str) -> None:
        """`row` is from before `leader` was elected, which it is by now: it is asked what was lost."""
        topic, led = self.topic(row.topic_id), self.partition(row.key)
        epoch = led.leader_epoch if led else 0
        noted = PossibleLoss(row.topic_id, row.partition, leader, reason, epoch, row.isr)
        self.losses.open(noted, topic.name if topic else "")

    # ------------------------------------------------------------------------------ the end of the turn

    def partition_changes(self) -> list[AlikeChange]:
        """What became of the touched partitions; a row that is again what it was keeps its old version."""
        return alike_changes(self.partitions.by_topic, self.rows.partitions.by_topic)

    def records(self, changes: list[AlikeChange]) -> tuple[ClusterRecord, ...]:
        """Everything that became true, stamped; nothing at all if nothing did."""
        found: list[ClusterRecord] = [BrokerChanged(row) for row in self.brokers.values()]
        found += [BrokerUnregistered(row.broker_id, row.broker_epoch) for row in self.unregistered.values()]
        found += self.losses.changed()
        # First, as a new topic may have the name of one that goes.
        found += [self._deletion(row) for row in self.deleted.values()]
        found += [self._removal(topic_id, first) for topic_id, first in self.removed.items()]
        found += [
            TopicChanged(row) if row.topic_id in self.rows.topics else TopicCreated(row)
            for row in self.topics.values()
        ]
        found += [BrokerConfigsChanged(row) for row in self.configs.values()]
        found += [
            PartitionsCreated(alike, self.version)
            if assigned_before is None
            else PartitionsChanged(alike, self.version, base_versions)
            for assigned_before, alike, base_versions in changes
        ]
        found += [ReassignmentChanged(row) for row in self.reassignments.values()]
        found += self._moves_failed
        found += self.plans.records()
        found += [ClientQuotaChanged(row) for row in self._changed_quotas()]
        found += self.losses.noted()
        found += self.other_records
        return (TurnStamped(self.version), *found) if found else ()

    def _removal(self, topic_id: UUID, first: int) -> PartitionsRemoved:
        row = self.rows.topics[topic_id]
        versions = self.rows.partitions.versions(topic_id, first)
        return PartitionsRemoved(topic_id, row.name, first, row.partition_count - first, versions)

    def _deletion(self, row: TopicRow) -> TopicDeleted:
        versions = self.rows.partitions.versions(row.topic_id)
        return TopicDeleted(row.topic_id, row.name, row.partition_count, versions)

    def turn_changes(self, changes: list[AlikeChange]) -> TurnChanges:
        return TurnChanges(
            metadata_version=self.version,
            controller_epoch=self.memory.controller_epoch,
            partitions=changes,
            brokers=tuple(self.brokers.values()),
            topics=tuple(self.topics.values()),
            deleted_topics=tuple(self.deleted),
            configs=tuple(self.configs.values()),
            quotas=self._changed_quotas(),
            gone_brokers=tuple(self.unregistered),
            losses=self.losses.news(self.partition),
        )

    def _changed_quotas(self) -> tuple[QuotaRow, ...]:
        """One that this turn made and took away leaves no trace."""
        stored = self.rows.quotas
        return tuple(row for key, row in self.quotas.items() if key in stored or not row.is_empty)


def levels_of(cluster: Mapping[str, str], settings: ControllerSettings) -> Levels:
    """`cluster`: what is set for EVERY_BROKER; what the controller decides by is set for no single broker."""
    return Levels(cluster=cluster, static=settings.static_configs)


def policy_of(configs: Mapping[str, str], levels: Levels) -> Policy:
    """A topic's own configs before those of the cluster."""
    return Policy(
        config_levels.number(topic_configs.MIN_INSYNC_REPLICAS, configs, levels),
        config_levels.flag(topic_configs.UNCLEAN_LEADER_ELECTION, configs, levels),
    )
