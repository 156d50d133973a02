"""This room is a broker's data plane: which partitions it hosts, what it is to them, and their duties.

The rules are `broker.core.replica`'s; here rows reach them, logs are opened for them, and whoever
waits is woken. Everything runs on the broker's loop; nothing here waits.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Set
from pathlib import Path
from typing import Final
from uuid import UUID

import structlog

from broker.cleaner import Cleaner
from broker.core.loss_watch import LossWatch
from broker.core.replica import FetchPosition, Obeyed, Replica, Role
from broker.core.replica_log import EpochEnd, PartitionKey
from broker.core.troubles import Troubles
from broker.hosted import HostedPartition
from broker.known_topics import KnownTopic, KnownTopics
from broker.log.cutting import Replay
from broker.log.outcomes import StorageFailed
from broker.log.partition_log import PartitionLog
from broker.log.shelf import DELETE, STRAY, LogShelf
from broker.plane_settings import DataPlaneSettings
from broker.throttled import ThrottledReplicas
from broker.upkeep import Upkeep
from kafkaserver.cluster_answers import MetadataView
from muster.kafkawire.new_leaders import NewLeader
from muster.kernel.error_codes import ErrorCode
from muster.kernel.instants import Instant, after
from muster.messages.link.from_broker import HighWatermark, IsrProposal
from muster.messages.link.rows import PartitionRow, TopicRow

log = structlog.get_logger(__name__)

HAND_OVER_INTERVAL_MS: Final = 10_000
"""How often at most a partition is offered to another leader because a disk is full."""

READ_AT_ONCE_MS: Final = 50
"""For so long logs are read in a thread before the loop puts them to use."""

ProposalHook = Callable[[HostedPartition], None]


class DataPlane:
    """The hosted partitions of one broker.

    `clock` is the monotonic clock in ms, `wall_clock_ms` the calendar. `view` is what clients are
    told; `live` the brokers with a session, for min.insync.replicas.
    """

    def __init__(
        self,
        broker_id: int,
        shelf: LogShelf,
        settings: DataPlaneSettings,
        clock: Callable[[], Instant],
        wall_clock_ms: Callable[[], int],
    ) -> None:
        self.broker_id = broker_id
        self.settings = settings
        self.clock = clock
        self.wall_clock_ms = wall_clock_ms
        self.view = MetadataView()
        self.live: Container[int] = frozenset()
        self.leaving: frozenset[int] = frozenset()
        """Those of `live` that are about to stop: nobody admits them, and they do not lead instead."""
        self.broker_epochs: Mapping[int, int] = {}
        """Of every registered broker: no fetch of a follower states another."""
        self.on_may_grow: ProposalHook = _nobody_hears
        """Called when a follower's fetch would let it into the ISR."""
        self.on_leading: ProposalHook = _nobody_hears
        """Called when this broker begins to lead, or in a new epoch."""
        self.on_trouble: Callable[[], None] = _nobody_hears
        """Called when `troubles` has news: somebody else should lead, or this broker may again."""
        self.troubles = Troubles()
        self.losses = LossWatch(broker_id)
        self.found_damaged: dict[PartitionKey, str] = {}
        """What was confessed of logs when they were opened."""
        self._shelf = shelf
        self.led_epochs = shelf.led
        """To be saved when rows were obeyed, before the loop goes on."""
        self.topics = KnownTopics(settings.log, settings.file_delete_delay_ms)
        self.upkeep = Upkeep(self, shelf, wall_clock_ms, self._ages, settings.reserve_bytes)
        self.cleaner = Cleaner(self, wall_clock_ms)
        self.throttled = ThrottledReplicas(broker_id, self.topics, clock)
        self._hosted: dict[PartitionKey, HostedPartition] = {}
        self._by_name: dict[tuple[str, int], HostedPartition] = {}
        self._progressed: dict[HostedPartition, None] = {}
        """Whose high watermark rose, or who lead anew, since the controller was last told."""
        self._opening: asyncio.Future[None] | None = None
        self._full_told_at: dict[PartitionKey, Instant] = {}
        self._hooks = self._trouble, self._note_progress
        """Made once: each of ten thousand replicas would have its own."""
        self._is_closed = False

    def _ages(self) -> Mapping[str, int]:
        """How long a log that was set aside is kept, in ms, by the suffix of its folder."""
        return {STRAY: self.settings.stray_retention_ms, DELETE: self.topics.file_delete_delay_ms}

    # -- what is here

    def hosted(self, topic_id: UUID, partition: int) -> HostedPartition | None:
        """The partition by its topic's id, if a replica of it is here."""
        # Equal to a PartitionKey, and sooner made.
        return self._hosted.get((topic_id, partition))  # type: ignore[call-overload, no-any-return]

    def named(self, topic: str, partition: int) -> HostedPartition | None:
        """The partition by its topic's name, if a replica of it is here."""
        return self._by_name.get((topic, partition))

    def found(self, topic: UUID | str, partition: int) -> HostedPartition | ErrorCode:
        """The partition by its topic's id or name; else why it is not here.

        The one place that says so for every request of a client (conformance 216).
        """
        if isinstance(topic, str):
            hosted = self._by_name.get((topic, partition))
        else:
            hosted = self.hosted(topic, partition)
        if hosted is not None and not self._is_closed:
            return hosted
        name = topic if isinstance(topic, str) else self.view.names_by_id.get(topic)
        if name is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        known = self.view.partition(name, partition) is not None
        return ErrorCode.NOT_LEADER_OR_FOLLOWER if known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def led(self, topic: UUID | str, partition: int, leader_epoch: int = -1) -> HostedPartition | ErrorCode:
        """The partition if it is led here, in the epoch that is stated if any is (conformance 215)."""
        hosted = self.found(topic, partition)
        if not isinstance(hosted, HostedPartition):
            return hosted
        return hosted.replica.refusal(leader_epoch) or hosted

    def leader_of(self, topic: UUID | str, partition: int, error_code: int) -> NewLeader | None:
        """Who is known to lead what is refused with this, and lives; None: nobody whom it helps to name.

        A leader that says NOT_LEADER_OR_FOLLOWER wants the same batches again, in their order, here.
        """
        name = topic if isinstance(topic, str) else self.view.names_by_id.get(topic, "")
        known = self.view.partition(name, partition)
        found = None if known is None else self.view.brokers.get(known.leader)
        is_own = known is not None and known.leader == self.broker_id
        if known is None or found is None or (is_own and error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER):
            return None
        return NewLeader(found.broker_id, known.leader_epoch, found.host, found.port, found.rack)

    def name_of(self, topic_id: UUID) -> str | None:
        """The name of the topic of this id, as clients are told."""
        return self.view.names_by_id.get(topic_id)

    def partitions(self) -> Iterator[HostedPartition]:
        """Every replica on this broker."""
        yield from tuple(self._hosted.values())

    def followed(self) -> Iterator[HostedPartition]:
        """The replicas that follow a leader elsewhere; `replica.next_fetch()` says what to ask it."""
        return (hosted for hosted in self.partitions() if hosted.replica.role is Role.FOLLOWER)

    @property
    def folder(self) -> Path:
        """Where all logs of this broker lie."""
        return self._shelf.folder

    @property
    def keys_on_disk(self) -> frozenset[PartitionKey]:
        """Every log in the data folder, hosted or not yet."""
        return self._shelf.keys

    @property
    def highest_leader_epoch(self) -> int:
        """The highest leader epoch that any open log or row here knows; 0 if none."""
        known = (max(h.log.last_epoch, h.replica.leader_epoch) for h in self._hosted.values())
        return max(known, default=0)

    # -- rows of the controller

    def know_topics(self, topics: Iterable[TopicRow]) -> None:
        """State names and settings of topics, before the first rows of them. Unknown keys are passed over."""
        # Together: all replicas are looked through for those of one, too.
        self._reconfigure({t.topic_id for t in topics if self.topics.know(t.topic_id, t.name, t.configs)})

    def know_levels(
        self, broker: Mapping[str, str], cluster: Mapping[str, str], static: Mapping[str, str]
    ) -> None:
        """State what holds for topics that set nothing: for this broker, all of them, by the environment."""
        self._reconfigure(frozenset(self.topics.know_levels(broker, cluster, static)))

    def _reconfigure(self, topic_ids: Set[UUID]) -> None:
        """Let the replicas of these topics obey what holds by now."""
        if not topic_ids:
            return
        for hosted in self.partitions():
            if hosted.key.topic_id in topic_ids:
                topic = self.topics.get(hosted.key.topic_id)
                assert topic is not None
                hosted.log.settings = topic.log
                hosted.replica.require(topic.min_insync_replicas)
                hosted.look()

    async def open_logs(self) -> None:
        """Open beside the loop every log on disk, before the controller hears of this broker.

        After a kill every batch is checked, seconds of work for a large segment, and what is found damaged
        must be confessed before this broker may lead it (replication.md section 2).
        """
        self._opening = asyncio.ensure_future(self._open_cold(deque(self._shelf.cold())))
        await asyncio.shield(self._opening)
        self._shelf.tried()

    async def _open_cold(self, cold: deque[PartitionKey]) -> None:
        while cold:
            for key, opened in await asyncio.to_thread(self._read_some, cold):
                self._shelf.keep(key, opened)

    def _read_some(self, cold: deque[PartitionKey]) -> list[tuple[PartitionKey, PartitionLog]]:
        """In a thread: read logs for a moment; one large log may take longer."""
        opened = []
        until = after(self.clock(), READ_AT_ONCE_MS)
        while cold and self.clock() < until:
            key = cold.popleft()
            try:
                opened.append((key, self._shelf.read(key, self.settings.log, self.wall_clock_ms())))
            except StorageFailed as error:
                self._not_opened(key, str(error))
        return opened

    @property
    def damaged(self) -> tuple[PartitionKey, ...]:
        """Replicas that lack what they once held; to be confessed with the next hello."""
        return tuple(sorted(self._shelf.damaged))

    def _not_opened(self, key: PartitionKey, reason: str) -> None:
        log.error("log_not_opened", topic_id=str(key.topic_id), partition=key.partition, reason=reason)
        self.troubles.fail(key, reason)

    def confessed(self) -> None:
        """The controller has heard of all that is damaged. Raises StorageFailed."""
        self.found_damaged |= self._shelf.damaged
        self._shelf.confessed()

    def obey(self, row: PartitionRow, *, from_snapshot: bool = False) -> bool:
        """Host, lead, follow or stop what `row` says (replication.md section 3); False: it is not here.

        A log that cannot be opened is hosted as failed: clients get KAFKA_STORAGE_ERROR.
        """
        key = PartitionKey(row.topic_id, row.partition)
        hosted = self._hosted.get(key)
        # Where nobody ever led there is nothing to hold; of a log that goes it may be asked what it held.
        is_due = self.broker_id in row.assigned
        if not is_due or not row.isr:
            is_due = (is_due or self.losses.is_asked(key)) and self._shelf.holds(key)
        if hosted is None and is_due:
            is_held = self.broker_id in row.isr or row.is_unproven
            self._shelf.given_up.look(key, is_in_sync=is_held, base_epoch=row.base_epoch)
            hosted = self._host(key)
        if hosted is None:
            return False
        high_watermark = hosted.high_watermark
        outcome = hosted.replica.obey(row, self.clock(), from_snapshot)
        if outcome is not Obeyed.ANOTHER:
            self.losses.look(key, hosted.replica, hosted.log.size_bytes, high_watermark)
        # A turn that moved the partition away says so; a snapshot may be of a database that was restored.
        self._heed(hosted, outcome, is_moved=not from_snapshot)
        if outcome is Obeyed.ANOTHER:
            self.obey(row, from_snapshot=from_snapshot)
        return True

    def hear_answer(
        self, topic_id: UUID, partition: int, base_version: int, row: PartitionRow | None
    ) -> HostedPartition | None:
        """Hear the answer to a proposal made on `base_version`: the row as it now is. Returns whose it is."""
        hosted = self.hosted(topic_id, partition)
        if hosted is not None:
            self._heed(hosted, hosted.replica.hear_answer(base_version, row, self.clock()))
        return hosted

    def _heed(self, hosted: HostedPartition, outcome: Obeyed, *, is_moved: bool = False) -> None:
        if outcome in (Obeyed.STOPPED, Obeyed.ANOTHER):
            self.stop(*hosted.key, is_deleted=is_moved)
            return
        if outcome is Obeyed.NEW_LEADER:
            self.led_epochs.look(hosted.key, hosted.replica)
            hosted.leadership_changed()
            if hosted.replica.leads:
                self.on_leading(hosted)
            # Where somebody else took over, a follower stores what it can, and may lead again.
            elif self.troubles.empty(hosted.key):
                self.on_trouble()
        hosted.row_changed()

    def _host(self, key: PartitionKey) -> HostedPartition | None:
        topic = self.topics.get(key.topic_id)
        if topic is None:
            log.error("row_of_unknown_topic", topic_id=str(key.topic_id), partition=key.partition)
            return None
        opened = self._log_of(key, topic)
        opened.settings = topic.log
        checkpoint = self._shelf.high_watermarks.get(key, 0)
        replica = Replica(self.broker_id, opened, checkpoint, topic.min_insync_replicas)
        hosted = HostedPartition(key, topic.name, opened, replica)
        hosted.on_trouble, hosted.on_progress = self._hooks
        self._hosted[key] = hosted
        self._by_name[topic.name, key.partition] = hosted
        return hosted

    def _log_of(self, key: PartitionKey, topic: KnownTopic) -> PartitionLog:
        if not self.troubles.reason(key):
            try:
                return self._shelf.log(key, topic.name, topic.log, self.wall_clock_ms())
            except StorageFailed as error:
                self._not_opened(key, str(error))
                self.on_trouble()
        return self._shelf.failed(key, topic.name, topic.log, self.troubles.reason(key))

    def _trouble(self, hosted: HostedPartition, is_sound: bool) -> None:
        if not is_sound:
            log.error("log_failed", partition=str(hosted.key), topic=hosted.topic, reason=hosted.log.failure)
            self.troubles.fail(hosted.key)
            self.on_trouble()
        elif self._may_hand_over(hosted):
            self.troubles.fill(hosted.key)
            self._full_told_at[hosted.key] = self.clock()
            self.on_trouble()

    def _note_progress(self, hosted: HostedPartition) -> None:
        self._progressed[hosted] = None

    def _may_hand_over(self, hosted: HostedPartition) -> bool:
        """True if another live member of the ISR might store what this broker cannot.

        Not more often than now and then: it may be as full. The last one stays leader, for what it holds can
        be read, and is written again as soon as there is room.
        """
        told_at = self._full_told_at.get(hosted.key)
        if told_at is not None and self.clock() < after(told_at, HAND_OVER_INTERVAL_MS):
            return False
        return not self.troubles.is_full(hosted.key) and hosted.replica.another_may_lead(self.staying)

    def forget_topics(self, topic_ids: Iterable[UUID]) -> None:
        """Topics that were deleted; no row of theirs comes any more. All that was to be stopped is."""
        for topic_id in topic_ids:
            self.topics.forget(topic_id)
        self._shelf.forget_set_aside()

    def stop(self, topic_id: UUID, partition: int, *, is_deleted: bool = False) -> None:
        """This broker is no replica any more: parked requests end, the log is stray, or erased soon."""
        key = PartitionKey(topic_id, partition)
        hosted = self._hosted.pop(key, None)
        if hosted is not None:
            if self._by_name.get((hosted.topic, partition)) is hosted:
                del self._by_name[hosted.topic, partition]
            hosted.leadership_changed()
            self._progressed.pop(hosted, None)
            if hosted.replica.role is Role.STOPPED:
                # Also of a log without a record: the others may get some, behind the backup as well.
                self._shelf.given_up.note(key, hosted.replica.leader_epoch)
        self._full_told_at.pop(key, None)
        self.losses.stopped(key)
        if self.troubles.forget(key):
            self.on_trouble()
        try:
            self._shelf.set_aside(key, DELETE if is_deleted else STRAY)
        except StorageFailed as error:
            log.error("log_not_set_aside", topic_id=str(topic_id), partition=partition, reason=str(error))

    # -- following

    def append_fetched(
        self,
        key: PartitionKey,
        asked: FetchPosition,
        records: memoryview | bytes | None,
        leader_high_watermark: int,
        leader_start_offset: int = 0,
    ) -> bool:
        """Store a leader's answer, empty ones too; False if it does not fit any more and was dropped.

        Raises AppendRefused for bytes that are no batches, StorageFailed.
        """
        hosted = self._hosted.get(key)
        if hosted is None or not hosted.replica.accepts(asked):
            return False
        if self.losses.is_asked(key):
            size_bytes = hosted.log.size_bytes
            self.losses.settled(key, hosted.replica, asked.offset, size_bytes, leader_start_offset)
        hosted.append_fetched(records, leader_high_watermark, leader_start_offset, self.wall_clock_ms())
        return True

    def heed_diverging(
        self,
        key: PartitionKey,
        asked: FetchPosition,
        leaders: EpochEnd,
        leader_start_offset: int = 0,
        replay: Replay | None = None,
    ) -> int | None:
        """Cut as the leader's answer demands; the new end, None if it is late. Raises StorageFailed."""
        hosted = self._hosted.get(key)
        end_offset = hosted.replica.heed_diverging(asked, leaders) if hosted is not None else None
        if hosted is not None and end_offset is not None:
            after_loss = self.losses.is_asked(key)
            if hosted.replica.must_begin_again(end_offset, leader_start_offset, after_loss=after_loss):
                end_offset = leader_start_offset
                self.losses.emptied(key)
                hosted.start_again_at(end_offset, self.wall_clock_ms())
            else:
                hosted.log.truncate_to(end_offset, self.wall_clock_ms(), replay)
            log.info("log_truncated", topic=hosted.topic, partition=key.partition, end_offset=end_offset)
        return end_offset

    def start_again_at(self, key: PartitionKey, request_leader_epoch: int, leader_start_offset: int) -> bool:
        """The leader has nothing at this log's end: go on at its start, or its end (conformance 232).

        Raises StorageFailed.
        """
        hosted = self._hosted.get(key)
        if hosted is None or hosted.replica.role is not Role.FOLLOWER:
            return False
        is_behind = leader_start_offset > hosted.log.end_offset
        if hosted.replica.leader_epoch != request_leader_epoch or not is_behind:
            return False
        self.losses.emptied(key)
        hosted.start_again_at(leader_start_offset, self.wall_clock_ms())
        return True

    # -- leading

    def know_live(self, live: Container[int]) -> None:
        """Other brokers have a session now: who waits for members that are away is told at once.

        Such a produce would hold back every answer behind it on its connection until its time is over.
        """
        self.live = live
        now, limit = self.clock(), self.settings.replica_lag_time_max_ms
        for hosted in self.partitions():
            hosted.look_at_starts()
            if hosted.commits_awaited() and not hosted.replica.enough_in_sync(live, now, limit):
                hosted.refuse_waiting(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)

    @property
    def staying(self) -> Container[int]:
        """The live brokers that are not about to stop."""
        return {b for b in self.broker_epochs if b in self.live} - self.leaving if self.leaving else self.live

    def proposal(self, hosted: HostedPartition, *, link_ready: bool) -> IsrProposal | None:
        """The change of this partition's ISR to ask for, if there is one and none is pending."""
        limit = self.settings.replica_lag_time_max_ms
        proposal = hosted.replica.propose(self.clock(), link_ready, self.staying, limit)
        hosted.look()
        return proposal

    def changed_high_watermarks(self) -> tuple[HighWatermark, ...]:
        """Of the partitions led here, where the high watermark rose since the last call, and the size.

        Those that are led anew are named, too: only what a leader says is told to people.
        """
        progressed, self._progressed = self._progressed, {}
        return tuple(
            HighWatermark(*hosted.key, hosted.replica.high_watermark, hosted.log.size_bytes)
            for hosted in progressed
            if hosted.replica.leads
        )

    def tell_all_high_watermarks(self) -> None:
        """A new link knows nothing: the next call of `changed_high_watermarks` names them all."""
        self._progressed = dict.fromkeys(self._hosted.values())

    # -- duties

    def is_hosted(self, hosted: HostedPartition) -> bool:
        """False once it was stopped."""
        return self._hosted.get(hosted.key) is hosted

    async def close(self) -> bool:
        """End every parked request and make the logs durable; True if the clean mark may be left.

        Nothing is led here, and so nothing appended, from the first moment on.
        """
        self._is_closed = True
        for hosted in self.partitions():
            hosted.leadership_changed()
            hosted.log.on_failure = _nobody_hears
        if self._opening is not None:
            await asyncio.wait((self._opening,))
        marks = {key: hosted.high_watermark for key, hosted in self._hosted.items()}
        return await asyncio.to_thread(self._shelf.close, marks)


def _nobody_hears(*_: object) -> None:
    """Until a link is there nobody can be told; a log that fails while it is closed leaves no clean mark."""
