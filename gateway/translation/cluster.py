"""This room turns the controller's rows, and who holds which shard, into what clients are told at a node.

Pure: rows in, one frozen view out. The same view is made at a broker from what the controller pushes.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final, NamedTuple
from uuid import UUID

from kafkaserver.cluster_answers import BrokerView, MetadataView, PartitionView, TopicView, told_in_sync
from muster.kernel.addresses import host_and_port

_NOTHING_KNOWN: Final = PartitionView(-1, 0, (), ())


class KnownBroker(NamedTuple):
    """A registered broker; `address` is host:port of its client listener, "" if it states none.

    `peers_address` is that of its listener for brokers.
    """

    broker_id: int
    address: str
    rack: str
    live: bool = True
    peers_address: str = ""


class KnownTopic(NamedTuple):
    """A topic and how many partitions it has."""

    name: str
    topic_id: UUID
    partition_count: int


class KnownPartition(NamedTuple):
    """Who holds and leads one partition; `version` rises with each change of it."""

    topic_id: UUID
    partition: int
    assigned: tuple[int, ...]
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    version: int


class FailedLogs(NamedTuple):
    """Logs of one topic, by number, that a broker can neither read nor write, as it said last."""

    broker_id: int
    topic_id: UUID
    numbers: tuple[int, ...]


class KnownNode(NamedTuple):
    """A live node; `address` is host:port of its Kafka listener, "" if it has none."""

    node_id: int
    address: str


class KnownCluster:
    """What has been read of the cluster, kept up by what changed since."""

    def __init__(self) -> None:
        self.version = 0
        """Partitions that changed above this version are not known yet."""
        self.metadata_version = 0
        """Whatever the controller's turns up to this one decided is known."""
        self._partitions: dict[UUID, dict[int, KnownPartition]] = {}
        self._topics: dict[UUID, TopicView] = {}
        self._failed: dict[UUID, dict[int, tuple[int, ...]]] = {}
        """By topic and partition: brokers whose log of it failed."""
        self._live: frozenset[int] = frozenset()
        self._base = MetadataView()

    def learn(
        self,
        cluster_id: str,
        brokers: Iterable[KnownBroker],
        topics: Iterable[KnownTopic],
        changed: Iterable[KnownPartition],
        failed: Iterable[FailedLogs] = (),
        metadata_version: int = 0,
    ) -> None:
        """Take over all brokers, topics and failed logs, and the partitions that changed.

        `metadata_version`: of the cluster, before any of these was read. Whoever reads meanwhile, in another
        thread, is told what was known before, until all of it is.
        """
        touched = self._learn_failed(failed)
        topic_id: UUID | None = None
        rows: dict[int, KnownPartition] = {}
        for partition in changed:
            # Thousands of one topic come together, and its id is dear to hash.
            if partition.topic_id is not topic_id:
                topic_id = partition.topic_id
                rows = self._partitions.setdefault(topic_id, {})
                touched.add(topic_id)
            rows[partition.partition] = partition
            self.version = max(self.version, partition.version)
        views: list[BrokerView] = []
        fenced: list[BrokerView] = []
        for one in brokers:
            if (address := host_and_port(one.address)) is not None:
                (views if one.live else fenced).append(BrokerView(one.broker_id, *address, one.rack or None))
        live = frozenset(view.broker_id for view in views)
        # Who lives decides of every partition who counts as in sync.
        before, self._live = ({} if live != self._live else self._topics), live
        self._topics = {}
        for topic in topics:
            self._forget_removed(topic)
            known = before.get(topic.topic_id)
            if known is None or topic.topic_id in touched or len(known.partitions) != topic.partition_count:
                known = self._topic_view(topic)
            self._topics[topic.topic_id] = known
        self._partitions = {
            topic_id: rows for topic_id, rows in self._partitions.items() if topic_id in self._topics
        }
        self._base = MetadataView.of(cluster_id, views, self._topics.values(), fenced=fenced)
        self.metadata_version = max(self.metadata_version, metadata_version)

    def _learn_failed(self, failed: Iterable[FailedLogs]) -> set[UUID]:
        """The topics of which other logs have failed than before."""
        now: dict[UUID, dict[int, tuple[int, ...]]] = {}
        for one in sorted(failed):
            here = now.setdefault(one.topic_id, {})
            for number in one.numbers:
                here[number] = (*here.get(number, ()), one.broker_id)
        before, self._failed = self._failed, now
        return {one for one in before.keys() | now.keys() if before.get(one) != now.get(one)}

    def _forget_removed(self, topic: KnownTopic) -> None:
        """Another partition may come under the number of one that was removed."""
        rows = self._partitions.get(topic.topic_id, {})
        if len(rows) > topic.partition_count:
            for number in [one for one in rows if one >= topic.partition_count]:
                del rows[number]

    @property
    def topics(self) -> Mapping[str, TopicView]:
        """The topics, by name."""
        return self._base.topics

    @property
    def names(self) -> Mapping[UUID, str]:
        """The topics' names, by id."""
        return self._base.names_by_id

    def view(self, nodes: Iterable[KnownNode], owners: Mapping[int, int]) -> MetadataView:
        """What is told now: `owners` names the node that holds each shard."""
        listed = (
            BrokerView(node.node_id, *address)
            for node in nodes
            if (address := host_and_port(node.address)) is not None
        )
        return replace(
            self._base, nodes=MappingProxyType({one.broker_id: one for one in listed}), owners=owners
        )

    def _topic_view(self, topic: KnownTopic) -> TopicView:
        rows = self._partitions.get(topic.topic_id, {})
        failed = self._failed.get(topic.topic_id, {})
        # What is alike has one view: ten thousand partitions share a few sets of replicas.
        alike: dict[tuple[object, ...], PartitionView] = {}
        partitions = []
        for number in range(topic.partition_count):
            row = rows.get(number)
            lost = failed.get(number, ())
            said = () if row is None else (row.assigned, row.leader, row.leader_epoch, row.isr, lost)
            view = alike.get(said)
            if view is None:
                view = alike[said] = _partition_view(row, self._live, lost)
            partitions.append(view)
        return TopicView(topic.name, topic.topic_id, tuple(partitions))


def _partition_view(
    row: KnownPartition | None, live: frozenset[int], failed: tuple[int, ...]
) -> PartitionView:
    if row is None:
        return _NOTHING_KNOWN
    in_sync = told_in_sync(row.leader, row.isr, live)
    return PartitionView(row.leader, row.leader_epoch, row.assigned, in_sync, failed)
