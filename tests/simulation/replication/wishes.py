"""This room asks the controller of the simulated world for what operators ask for.

Moves and elections; topics that are created, deleted, made anew under the same name, grown and shrunk.
"""

from typing import Any, ClassVar
from uuid import UUID

from broker.core.cluster_view import PartitionKey
from controller.core.events import Heard, LinkId, TimePassed
from controller.core.state import ClusterRows
from muster.kernel.instants import Instant
from muster.kernel.topic_configs import MIN_INSYNC_REPLICAS
from muster.messages.link.configs import AlterConfigs, AlteredConfigs, Change, ConfigChange, ResourceType
from muster.messages.link.from_broker import (
    AlterReassignments,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    ElectLeaders,
    FromBroker,
    GrownTopic,
    NamedTopic,
    NewTopic,
    RemovePartitions,
    WantedReplicas,
)
from tests.simulation.replication.controller_process import Controller
from tests.simulation.replication.plan_walks import PlanWalks

NAMES = ("orders", "clicks")
PARTITIONS_AT_MOST = 3
TIMEOUT_MS = 1_000


class Broken(Exception):
    """An invariant does not hold."""


class Wishes:
    """What a World does for its operators."""

    config_choices: ClassVar[tuple[tuple[str, str | None], ...]] = tuple(
        (MIN_INSYNC_REPLICAS, value) for value in ("1", "2", None)
    )
    """What operators may set for a topic."""

    now: Instant
    wishes: int
    controller: Controller
    budget: dict[str, int]
    committed: Any
    plan_walks: PlanWalks

    def rows(self) -> ClusterRows:
        raise NotImplementedError

    def left(self, fault: str) -> int:
        return self.budget.get(fault, 0)

    @property
    def is_heard(self) -> bool:
        """True if some broker's link carries wishes."""
        return self._link() is not None

    def _link(self) -> LinkId | None:
        sessions = self.controller.state.memory.sessions.values()
        return next((one.link for one in sessions if one.link is not None), None)

    def ask(self, wish: FromBroker) -> bool:
        """Over the link of whichever broker is bound; it hears the answer. False: nobody is."""
        link = self._link()
        if link is None:
            return False
        self.controller.turn([Heard(link, wish, UUID(int=1_000 + self.wishes))], self.now)
        return True

    # ------------------------------------------------------------------------------ moves and elections

    def _move_to(self, key: PartitionKey, replicas: tuple[int, ...] | None) -> None:
        self.wishes += 1
        wish = WantedReplicas(topic=self._name(key), partition=key[1], replicas=replicas)
        self.ask(AlterReassignments(correlation_id=self.wishes, partitions=(wish,)))

    def _name(self, key: PartitionKey) -> str:
        return self.rows().topics[key[0]].name

    def _reassign(self, key: PartitionKey, newcomer: int) -> None:
        """The replica set loses its last broker, or grows by `newcomer` if that is not one of it."""
        self._move_to(key, self.target_with(self.rows().partitions[key].assigned, newcomer))

    def target_with(self, assigned: tuple[int, ...], newcomer: int) -> tuple[int, ...]:
        if newcomer not in assigned:
            return (*assigned[:-1], newcomer) if len(assigned) > 2 else (*assigned, newcomer)
        return tuple(b for b in assigned if b != newcomer) if len(assigned) > 2 else assigned[::-1]

    def _reassign_all(self, newcomer: int) -> None:
        """One request for every partition: more than a turn carries out, in worlds where turns are full."""
        self.wishes += 1
        wishes = tuple(
            WantedReplicas(
                topic=self._name(row.key),
                partition=row.partition,
                replicas=self.target_with(row.assigned, newcomer),
            )
            for row in self.rows().partitions.values()
        )
        self.ask(AlterReassignments(correlation_id=self.wishes, partitions=wishes))

    def _plan(self, newcomer: int) -> None:
        self.wishes += 1
        self.plan_walks.propose(self, newcomer)

    def _drain(self, broker_id: int) -> None:
        self.wishes += 1
        self.plan_walks.drain(self, broker_id)

    def _steer(self, plan_id: UUID, how: str) -> None:
        self.wishes += 1
        if text := self.plan_walks.steer(self, plan_id, how):
            raise Broken(text)

    def _cancel(self, key: PartitionKey) -> None:
        self._move_to(key, None)

    def _elect(self, key: PartitionKey) -> None:
        """The preferred leader, if it can."""
        self.wishes += 1
        self.ask(ElectLeaders(correlation_id=self.wishes, partitions=((self._name(key), key[1]),)))

    def _balance(self) -> None:
        """The time of the next pass has come."""
        self.controller.state.memory.balance_at = self.now
        self.controller.turn([TimePassed()], self.now)

    # ------------------------------------------------------------------------------ topics

    def topic_faults(self) -> list[tuple[object, ...]]:
        """What may still become of topics."""
        found: list[tuple[object, ...]] = []
        topics = self.rows().topics
        if self.left("create"):
            names = {topic.name for topic in topics.values()}
            found += [("create", name, factor) for name in NAMES if name not in names for factor in (2, 3)]
        for topic_id, topic in topics.items():
            if self.left("delete"):
                found.append(("delete", topic_id))
            if self.left("grow") and topic.partition_count < PARTITIONS_AT_MOST:
                found.append(("grow", topic_id))
            if self.left("configure"):
                found += [("configure", topic_id, *one) for one in self.configs_to_choose()]
            if self.left("shrink") and topic.partition_count > 1:
                found.append(("shrink", topic_id))
        return found + self.plan_walks.faults(self)

    def configs_to_choose(self) -> tuple[tuple[str, str | None], ...]:
        return self.config_choices

    def _configure(self, topic_id: UUID, config: str, value: str | None) -> None:
        """Another value for the topic; None: that of the cluster."""
        self.wishes += 1
        change = Change.SET if value is not None else Change.DELETE
        wanted = AlteredConfigs(
            type=ResourceType.TOPIC,
            name=self._name((topic_id, 0)),
            changes=(ConfigChange(config, change, value),),
        )
        self.ask(AlterConfigs(correlation_id=self.wishes, resources=(wanted,)))

    def _create(self, name: str, factor: int) -> None:
        self.wishes += 1
        topic = NewTopic(name=name, partition_count=1, replication_factor=factor)
        self.ask(CreateTopics(correlation_id=self.wishes, topics=(topic,), timeout_ms=TIMEOUT_MS))

    def _delete(self, topic_id: UUID) -> None:
        """It is gone at once, whoever of its brokers is dead."""
        self.wishes += 1
        asked = self.ask(
            DeleteTopics(correlation_id=self.wishes, topics=(NamedTopic(name=self._name((topic_id, 0))),))
        )
        if asked and topic_id in self.rows().topics:
            raise Broken("a topic that was to be deleted is still there")

    def _grow(self, topic_id: UUID) -> None:
        self.wishes += 1
        topic = self.rows().topics[topic_id]
        wanted = GrownTopic(name=topic.name, partition_count=topic.partition_count + 1)
        self.ask(CreatePartitions(correlation_id=self.wishes, topics=(wanted,), timeout_ms=TIMEOUT_MS))

    def _shrink(self, topic_id: UUID) -> None:
        """The highest partition goes at once, whoever of its brokers is dead, and whoever has read it."""
        self.wishes += 1
        topic = self.rows().topics[topic_id]
        count = topic.partition_count - 1
        wish = RemovePartitions(
            correlation_id=self.wishes, topic=topic.name, partition_count=count, force=True
        )
        self.ask(wish)
        if self.rows().topics[topic_id].partition_count == count:
            # What is committed under the number from now on is another partition's.
            self.committed.pop((topic_id, count), None)
