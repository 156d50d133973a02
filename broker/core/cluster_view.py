"""This room holds what a broker knows of the cluster, and the rules of its link (replication.md section 3).

The host closes an old link and drops its unread frames before it calls `open_link` for the next one.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from uuid import UUID

from muster.messages.link.quotas import QuotaKey, QuotaRow
from muster.messages.link.rows import (
    EVERY_BROKER,
    BrokerConfigs,
    BrokerRow,
    PartitionRow,
    TopicRow,
    UnusableAt,
)
from muster.messages.link.to_broker import AlterPartitionAnswer, Changes, IsrAnswer, Nodes, SnapshotChunk

PartitionKey = tuple[UUID, int]


@dataclass(slots=True)
class Heeded:
    """What the host must do after one frame."""

    rows: list[PartitionRow] = field(default_factory=list)
    """Give each to its Replica, in order; a row that assigns this broker may need a new one."""
    from_snapshot: bool = False
    told: list[PartitionRow] = field(default_factory=list)
    """Every row that changes or answers named, here or elsewhere: what clients are told may be another."""
    answers: list[IsrAnswer] = field(default_factory=list)
    """Give each to `Replica.hear_answer`."""
    gone: list[PartitionKey] = field(default_factory=list)
    """Partitions that were on this broker and are in no snapshot any more: stop, the log is stray."""
    deleted: list[PartitionKey] = field(default_factory=list)
    """Partitions that were deleted or removed and were on this broker: stop, nobody asks for them again."""
    deleted_topics: list[UUID] = field(default_factory=list)
    shrunk_topics: list[UUID] = field(default_factory=list)
    """Those that have fewer partitions now."""
    topics: list[TopicRow] = field(default_factory=list)
    """New or changed topics: their configs apply from now on."""
    quotas_changed: bool = False
    hang_up: str = ""
    """Not empty: close the link and open another; nothing of the frame was taken over."""


class ClusterView:
    """Rows as the controller last told them, each by its version; answers to clients come from here."""

    def __init__(self, broker_id: int) -> None:
        self.broker_id = broker_id
        self.metadata_version = 0
        """Of the last turn applied whole; stated in hello and pings, and never lowered."""
        self.ready = False
        """True when the snapshot of the present link is applied: proposals may be sent."""
        self.brokers: dict[int, BrokerRow] = {}
        self.topics: dict[UUID, TopicRow] = {}
        self.topic_ids: dict[str, UUID] = {}
        self.partitions: dict[PartitionKey, PartitionRow] = {}
        self.configs: dict[int, BrokerConfigs] = {}
        """What was set for brokers, and for EVERY_BROKER."""
        self.quotas: dict[QuotaKey, QuotaRow] = {}
        self.unusable: dict[UUID, dict[int, tuple[int, ...]]] = {}
        """By topic and partition: brokers that cannot use their log of it. Clients are told, nothing else."""
        self.nodes = Nodes(nodes=(), owners=())
        """As the controller last told; nothing is decided on it, clients are told."""
        self._had_snapshot = False
        self._newest_row_version = 0
        """An answer may run ahead of its turn's frame: no snapshot below it is obeyed either."""
        self._chunks: list[SnapshotChunk] = []
        self._forget_arrived()

    def _forget_arrived(self) -> None:
        """What came with the chunks of a snapshot: all rows, those to be obeyed; and what was here before."""
        self._arrived: dict[PartitionKey, PartitionRow] = {}
        self._obeyed: dict[PartitionKey, PartitionRow] = {}
        self._was_hosted: dict[PartitionKey, None] = {}

    def open_link(self) -> None:
        """A new link begins: no proposal leaves before its snapshot is applied (`propose_early`)."""
        self.ready = False
        self._chunks = []
        self._forget_arrived()

    def obey(self, frame: SnapshotChunk | Changes | AlterPartitionAnswer) -> Heeded:
        """Take over what `frame` says as far as it is not older than what was obeyed."""
        match frame:
            case SnapshotChunk():
                return self._collect(frame)
            case Changes():
                return self._change(frame)
            case AlterPartitionAnswer():
                return self._hear_answers(frame)

    def strays(self, on_disk: Iterable[PartitionKey]) -> list[PartitionKey]:
        """Logs that no row assigns to this broker; none are named before one whole snapshot (002 C.3)."""
        if not self._had_snapshot:
            return []
        return [key for key in on_disk if not self._is_assigned(key)]

    def hosted(self) -> list[PartitionRow]:
        """Rows of the partitions assigned to this broker."""
        return [row for row in self.partitions.values() if self.broker_id in row.assigned]

    @property
    def own_configs(self) -> dict[str, str]:
        """What was set for this broker alone."""
        return self.configs_of(self.broker_id)

    @property
    def cluster_configs(self) -> dict[str, str]:
        """What was set for the whole cluster."""
        return self.configs_of(EVERY_BROKER)

    def configs_of(self, broker_id: int) -> dict[str, str]:
        """What was set for this broker."""
        row = self.configs.get(broker_id)
        return row.configs if row else {}

    def _is_assigned(self, key: PartitionKey) -> bool:
        row = self.partitions.get(key)
        return row is not None and self.broker_id in row.assigned

    # ------------------------------------------------------------------------------ snapshot

    def _collect(self, chunk: SnapshotChunk) -> Heeded:
        """A snapshot counts only whole and unbroken: a part of one must not make logs stray."""
        if chunk.metadata_version < max(self.metadata_version, self._newest_row_version):
            return Heeded(hang_up="the snapshot is older than what was applied: an out-of-date controller")
        if chunk.number != len(self._chunks):
            return Heeded(hang_up=f"chunk {len(self._chunks)} of the snapshot is missing")
        if self._chunks and chunk.metadata_version != self._chunks[0].metadata_version:
            return Heeded(hang_up="chunks of two snapshots are mixed")
        if not self._chunks:
            self._was_hosted = dict.fromkeys(row.key for row in self.hosted())
        self._chunks.append(chunk)
        # With each chunk: of a hundred thousand rows the whole would hold the loop for a tenth of a second.
        for row in chunk.partitions:
            key = row.key
            self._arrived[key] = row
            if self.broker_id in row.assigned or key in self._was_hosted:
                self._obeyed[key] = row
            elif key in self._obeyed:
                # Named twice, which no controller does: the later one counts.
                del self._obeyed[key]
        return self._apply_snapshot() if chunk.last else Heeded()

    def _apply_snapshot(self) -> Heeded:
        chunks, self._chunks = self._chunks, []
        partitions, rows, was_hosted = self._arrived, self._obeyed, self._was_hosted
        self._forget_arrived()
        gone = [key for key in was_hosted if key not in partitions]
        self.partitions = partitions
        self.brokers = {row.broker_id: row for chunk in chunks for row in chunk.brokers}
        self.topics = {row.topic_id: row for chunk in chunks for row in chunk.topics}
        self.topic_ids = {row.name: row.topic_id for row in self.topics.values()}
        self.configs = {row.broker_id: row for chunk in chunks for row in chunk.configs}
        self.quotas = {row.key: row for chunk in chunks for row in chunk.quotas}
        self.unusable = {}
        for chunk in chunks:
            self._hear_unusable(chunk.unusable)
        self.metadata_version = chunks[0].metadata_version
        self.ready = self._had_snapshot = True
        return Heeded(
            rows=list(rows.values()),
            from_snapshot=True,
            gone=gone,
            topics=list(self.topics.values()),
            quotas_changed=True,
        )

    # ------------------------------------------------------------------------------ changes

    def _change(self, frame: Changes) -> Heeded:
        if not self.ready:
            return Heeded(hang_up="a change came before the snapshot")
        if frame.metadata_version <= self.metadata_version:
            return Heeded(told=self._hear_unusable(frame.unusable))
        for broker_id in frame.gone_brokers:
            self.brokers.pop(broker_id, None)
        for broker in frame.brokers:
            self.brokers[broker.broker_id] = broker
        heeded = Heeded(topics=list(frame.topics))
        for topic_id in frame.deleted_topics:
            self._delete(topic_id, heeded)
        self.configs.update((row.broker_id, row) for row in frame.configs)
        for topic in frame.topics:
            self._shrink(topic, heeded)
            self.topics[topic.topic_id] = topic
            self.topic_ids[topic.name] = topic.topic_id
        for quota in frame.quotas:
            heeded.quotas_changed = True
            self.quotas.pop(quota.key, None)
            if not quota.is_empty:
                self.quotas[quota.key] = quota
        for alike in frame.partitions:
            heeded.told += self._taken_over(alike.rows(frame.metadata_version))
        for alike in (*frame.leader_and_isr, *frame.stop_replica):
            heeded.rows += self._taken_over(alike.rows(frame.metadata_version))
        heeded.told += heeded.rows
        heeded.told += self._hear_unusable(frame.unusable)
        if frame.complete:
            self.metadata_version = frame.metadata_version
        return heeded

    def _delete(self, topic_id: UUID, heeded: Heeded) -> None:
        """What arrives late about one of its partitions finds no topic and is passed over (`_taken_over`)."""
        topic = self.topics.pop(topic_id, None)
        if topic is None:
            return
        del self.topic_ids[topic.name]
        self.unusable.pop(topic_id, None)
        heeded.deleted_topics.append(topic_id)
        self._forget(topic_id, range(topic.partition_count), heeded)

    def _shrink(self, topic: TopicRow, heeded: Heeded) -> None:
        """A topic that has fewer partitions than before: its highest ones are no more."""
        before = self.topics.get(topic.topic_id)
        if before is not None and topic.partition_count < before.partition_count:
            heeded.shrunk_topics.append(topic.topic_id)
            self._forget(topic.topic_id, range(topic.partition_count, before.partition_count), heeded)

    def _forget(self, topic_id: UUID, numbers: Iterable[int], heeded: Heeded) -> None:
        for number in numbers:
            key = (topic_id, number)
            if self._is_assigned(key):
                heeded.deleted.append(key)
            self.partitions.pop(key, None)
            self.unusable.get(topic_id, {}).pop(number, None)

    def _hear_unusable(self, told: Iterable[UnusableAt]) -> list[PartitionRow]:
        """Take it over; returns the rows of which clients are told something else now."""
        changed: list[PartitionRow] = []
        for one in told:
            here = self.unusable.setdefault(one.topic_id, {})
            for number in one.failed:
                here[number] = tuple(sorted({*here.get(number, ()), one.broker_id}))
            for number in one.usable:
                left = tuple(b for b in here.pop(number, ()) if b != one.broker_id)
                if left:
                    here[number] = left
            if not here:
                del self.unusable[one.topic_id]
            keys = ((one.topic_id, number) for number in (*one.failed, *one.usable))
            changed += [row for key in keys if (row := self.partitions.get(key)) is not None]
        return changed

    def _hear_answers(self, frame: AlterPartitionAnswer) -> Heeded:
        if not self.ready:
            return Heeded(hang_up="an answer came before the snapshot")
        rows = [answer.row for answer in frame.answers if answer.row is not None]
        return Heeded(answers=list(frame.answers), told=self._taken_over(rows))

    def _taken_over(self, rows: Iterable[PartitionRow]) -> list[PartitionRow]:
        """Those of `rows` that hold from now on."""
        taken: list[PartitionRow] = []
        topic_id: UUID | None = None
        topic: TopicRow | None = None
        for row in rows:
            # Thousands of one topic come together, and to hash an id of it costs as much as all the rest.
            if row.topic_id is not topic_id:
                topic_id, topic = row.topic_id, self.topics.get(row.topic_id)
            if topic is None or row.partition >= topic.partition_count:
                continue
            key = row.key
            known = self.partitions.get(key)
            if known is not None and row.version < known.version:
                continue
            self.partitions[key] = row
            self._newest_row_version = max(self._newest_row_version, row.version)
            taken.append(row)
        return taken
