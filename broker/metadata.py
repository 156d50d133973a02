"""This room turns what the controller says into what clients are told: brokers, nodes, topics, ISRs."""

from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit
from uuid import UUID

from broker.core.cluster_view import ClusterView
from kafkaserver.cluster_answers import BrokerView, MetadataView, PartitionView, TopicView, told_in_sync
from kafkaserver.missed import MissedBrokers
from muster.messages.link.rows import CLIENT_LISTENER, NO_LEADER, BrokerRow, NodeRow, PartitionRow

_NOTHING_KNOWN = PartitionView(NO_LEADER, 0, (), ())


class ClientMetadata:
    """The frozen view that the client listener answers Metadata from, kept up row by row.

    The ISR that clients see holds the members with a session: dead ones that the floor keeps in the row
    do not count for acks=all either (replication.md section 7.9).
    """

    def __init__(self, known: ClusterView) -> None:
        self._known = known
        self._partitions: dict[UUID, list[PartitionView]] = {}
        self._topics: dict[UUID, TopicView] = {}
        self._brokers: tuple[BrokerView, ...] = ()
        self._fenced: tuple[BrokerView, ...] = ()
        self.live: frozenset[int] = frozenset()
        """Brokers that have a session."""
        self.leaving: frozenset[int] = frozenset()
        """Those of them that are about to stop."""
        self.missed = MissedBrokers()

    def know_brokers(self) -> bool:
        """Take over the brokers; True if another set of them is live."""
        rows = self._known.brokers.values()
        self._brokers = tuple(_views_of(row for row in rows if row.live))
        self._fenced = tuple(_views_of(row for row in rows if not row.live))
        live = frozenset(row.broker_id for row in rows if row.live)
        self.leaving = frozenset(row.broker_id for row in rows if row.live and row.leaving)
        changed, self.live = live != self.live, live
        return changed

    def forget(self, deleted: Iterable[UUID], shrunk: Iterable[UUID]) -> None:
        """These topics are no more, or have fewer partitions now; `renew` tells it."""
        for topic_id in deleted:
            self._partitions.pop(topic_id, None)
            self._topics.pop(topic_id, None)
        for topic_id in shrunk:
            del self._views_of_topic(topic_id)[self._known.topics[topic_id].partition_count :]
            self._topics.pop(topic_id, None)

    def renew(self, cluster_id: str, rows: Iterable[PartitionRow] | None) -> MetadataView:
        """The view after `rows` changed; None: after everything may have."""
        if rows is None:
            self._partitions, self._topics = {}, {}
            rows = self._known.partitions.values()
        touched: dict[UUID, None] = {}
        # What is alike has one view: ten thousand partitions share a few sets of replicas.
        alike: dict[tuple[object, ...], PartitionView] = {}
        topic_id: UUID | None = None
        views: list[PartitionView] = []
        unusable: Mapping[int, tuple[int, ...]] = {}
        for row in rows:
            if row.topic_id is not topic_id:
                topic_id, views = row.topic_id, self._views_of_topic(row.topic_id)
                unusable = self._known.unusable.get(topic_id, {})
                touched[topic_id] = None
            if row.partition < len(views):
                failed = unusable.get(row.partition, ())
                said = row.leader, row.leader_epoch, row.assigned, row.isr, failed
                same = alike.get(said)
                if same is None:
                    same = alike[said] = self._view_of(row, failed)
                views[row.partition] = same
        for topic_id in (*self._known.topics.keys() - self._topics.keys(), *touched):
            topic = self._known.topics.get(topic_id)
            if topic is not None:
                partitions = tuple(self._views_of_topic(topic_id))
                self._topics[topic_id] = TopicView(topic.name, topic_id, partitions)
        told = self._known.nodes
        owners = {shard: node_id for shard, node_id in enumerate(told.owners) if node_id}
        nodes = tuple(_views_of_nodes(told.nodes))
        topics = self._topics.values()
        view = MetadataView.of(cluster_id, self._brokers, topics, nodes, owners, self._fenced)
        self.missed.see(view)
        return view

    def _views_of_topic(self, topic_id: UUID) -> list[PartitionView]:
        topic = self._known.topics.get(topic_id)
        views = self._partitions.setdefault(topic_id, [])
        if topic is not None and len(views) < topic.partition_count:
            views += [_NOTHING_KNOWN] * (topic.partition_count - len(views))
        return views

    def _view_of(self, row: PartitionRow, failed: tuple[int, ...]) -> PartitionView:
        in_sync = told_in_sync(row.leader, row.isr, self.live)
        return PartitionView(row.leader, row.leader_epoch, row.assigned, in_sync, failed)


def _views_of(rows: Iterable[BrokerRow]) -> Iterable[BrokerView]:
    for row in rows:
        if (address := _host_and_port(row.endpoints.get(CLIENT_LISTENER, ""))) is not None:
            yield BrokerView(row.broker_id, *address, row.rack or None)


def _views_of_nodes(rows: Iterable[NodeRow]) -> Iterable[BrokerView]:
    for row in rows:
        if row.node_id and (address := _host_and_port(row.kafka)) is not None:
            yield BrokerView(row.node_id, *address)


def _host_and_port(stated: str) -> tuple[str, int] | None:
    """Of a listener; None if none is stated."""
    try:
        split = urlsplit("//" + stated)
        return (split.hostname, split.port) if split.hostname and split.port else None
    except ValueError:
        return None
