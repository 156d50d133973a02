"""This room is one hosted partition: its log, the rules of its replica, and who waits for it."""

import asyncio
from collections import deque
from collections.abc import Callable, Container
from typing import Protocol

import structlog

from broker.core.nearest_replica import may_serve
from broker.core.replica import Replica
from broker.core.replica_log import PartitionKey
from broker.log.outcomes import Appended, StorageFailed
from broker.log.partition_log import PartitionLog
from muster.kernel.error_codes import ErrorCode

log = structlog.get_logger(__name__)


class WaitsForCommit(Protocol):
    """A produce with acks=all that has been appended; one that is forgotten waits in no place any more."""

    def committed(self, key: PartitionKey) -> None:
        """The high watermark has passed the records of `key`."""

    def refused(self, key: PartitionKey, error_code: ErrorCode) -> None:
        """The records of `key` were appended and will not be acknowledged by this broker."""


class WaitsForRecords(Protocol):
    """Somebody who reads a partition."""

    def grew(self, key: PartitionKey) -> None:
        """More can be read of `key` than before; called once per event, so it must be cheap."""

    def lost(self, key: PartitionKey) -> None:
        """This broker does not lead `key` any more as it did."""

    def began_later(self, key: PartitionKey) -> None:
        """Older records of `key` are deleted."""


class Follows(WaitsForRecords, Protocol):
    """A follower's session."""

    def committed(self, key: PartitionKey) -> None:
        """The high watermark of `key` rose."""

    def row_changed(self, key: PartitionKey) -> None:
        """The controller said something new of `key`: who was in sync may be so no longer."""

    def is_read_there(self, key: PartitionKey) -> None:
        """The high watermark of `key` rose, and consumers were sent to followers to read it there."""


class HostedPartition:
    """One replica on this broker. All calls come from the broker's loop.

    A broker has ten thousand of them, and nobody waits at most: who waits has no room before he comes.
    """

    __slots__ = (
        "_awaiting_commit",
        "_awaiting_start",
        "_followers",
        "_forgotten",
        "_readers",
        "_told_damage_at",
        "_told_high_watermark",
        "damage",
        "key",
        "log",
        "on_progress",
        "on_trouble",
        "replica",
        "topic",
    )

    def __init__(self, key: PartitionKey, topic: str, log: PartitionLog, replica: Replica) -> None:
        self.key = key
        self.topic = topic
        self.log = log
        self.replica = replica
        self.on_trouble: TroubleHook = _nobody_listens
        """Called when the log refused to be written or read; False: it failed and is closed for good."""
        self.damage = ""
        """What was found of it while nobody else could lead, and it went on."""
        self.on_progress: ProgressHook = _nobody_counts
        """Called when the high watermark rose, or another leads."""
        self._readers: set[WaitsForRecords] | None = None
        self._followers: set[Follows] | None = None
        self._awaiting_start: set[asyncio.Event] | None = None
        self._awaiting_commit: deque[tuple[int, WaitsForCommit]] | None = None
        self._forgotten: set[WaitsForCommit] | None = None
        """Who is in the queue and waits no longer."""
        self._told_high_watermark = replica.high_watermark
        self._told_damage_at = -1
        if log.failure:
            replica.fail()
        log.on_failure = self._log_failed

    @property
    def readers(self) -> set[WaitsForRecords]:
        """Consumers' sessions, which read to the high watermark, and fetches that wait for it."""
        if self._readers is None:
            self._readers = set()
        return self._readers

    @property
    def followers(self) -> set[Follows]:
        """Sessions of followers, which read to the log end."""
        if self._followers is None:
            self._followers = set()
        return self._followers

    @property
    def awaiting_start(self) -> set[asyncio.Event]:
        """Set whenever the low watermark may have risen, or can no more: DeleteRecords that wait for it."""
        if self._awaiting_start is None:
            self._awaiting_start = set()
        return self._awaiting_start

    @property
    def high_watermark(self) -> int:
        """Everything below is committed."""
        return self.replica.high_watermark

    def append_produced(self, records: memoryview, wall_ms: int, *, is_sent_again: bool = False) -> Appended:
        """Store a producer's batches, as leader; whoever waits for records is woken.

        `records` must be writable: offsets and leader epoch are stamped into them. The caller has asked
        whether this broker leads. `is_sent_again`: they were refused here before. Raises AppendRefused,
        StorageFailed.
        """
        try:
            epoch = self.replica.leader_epoch
            appended = self.log.append_as_leader(records, epoch, wall_ms, is_sent_again=is_sent_again)
        except StorageFailed:
            if not self.log.failure:
                self.on_trouble(self, True)
            raise
        if not appended.is_duplicate:
            self.log_grew()
        return appended

    def append_fetched(
        self,
        records: memoryview | bytes | None,
        leader_high_watermark: int,
        leader_start_offset: int,
        wall_ms: int,
    ) -> None:
        """Store what the leader answered, as follower; an empty one still tells its high watermark and start.

        The caller has asked whether the answer still fits. Raises AppendRefused, StorageFailed.
        """
        # First: what lies below was committed, here perhaps another record that never was.
        if self.log.delete_before(self.replica.start_to_follow(leader_start_offset), wall_ms):
            self.replica.began_later()
        if records:
            self.log.append_as_follower(memoryview(records), wall_ms)
        self.replica.followed(leader_high_watermark)
        self.look()

    def start_again_at(self, offset: int, wall_ms: int) -> None:
        """As follower, begin again at the leader's start, without a record. Raises StorageFailed."""
        self.log.start_again_at(offset, wall_ms)
        self.replica.began_again()

    def sent_in_vain(self, offset: int, last_epoch: int, live: Container[int]) -> None:
        """A follower behind a batch of `last_epoch` was sent records from `offset` and asks for them again.

        If it could not store them because the batch here is damaged, this log has failed: an in-sync replica
        leads then whose batch is whole (`bad_batch_kept`). Where none is live this broker goes on: what else
        it holds can be read, and the next start would cut that, too (`last_gives_up`). Raises StorageFailed.
        """
        if not self.replica.leads:
            return
        damage = self.log.damage_at(offset, last_epoch)
        if damage and self.replica.another_may_lead(live):
            self.log.fail(damage)
        elif damage and offset != self._told_damage_at:
            self._told_damage_at, self.damage = offset, damage
            log.error("damage_at_the_last_replica", partition=str(self.key), topic=self.topic, found=damage)

    def delete_before(self, offset: int, wall_ms: int) -> None:
        """As leader, delete what lies below `offset`, which is committed. Raises StorageFailed."""
        if self.log.delete_before(offset, wall_ms):
            self._began_later()

    def apply_retention(self, wall_ms: int) -> int:
        """Delete what is too old or too much; returns how many segments. Raises StorageFailed."""
        before = self.log.start_offset
        deleted = self.log.apply_retention(wall_ms, self.high_watermark)
        if self.log.start_offset != before:
            self._began_later()
        return deleted

    def _began_later(self) -> None:
        for reader in (*(self._readers or ()), *(self._followers or ())):
            reader.began_later(self.key)
        self.look_at_starts()

    def look_at_starts(self) -> None:
        """Whoever waits for the low watermark looks again: a replica said where it begins, or is gone."""
        for waiting in self._awaiting_start or ():
            waiting.set()

    def await_commit(self, next_offset: int, producer: WaitsForCommit) -> None:
        """Tell `producer` when everything below `next_offset` is committed.

        A retried batch may wait for an older offset than the one before it, so the queue is in the
        order of arrival, and the first that is too high holds nobody up for longer than its own records.
        """
        if self._awaiting_commit is None:
            self._awaiting_commit = deque()
        self._awaiting_commit.append((next_offset, producer))

    def log_grew(self) -> None:
        """The leader has appended: followers may fetch, and with one replica it is committed already."""
        self.replica.appended()
        for follower in self._followers or ():
            follower.grew(self.key)
        if self.replica.high_watermark != self._told_high_watermark:
            self.look()

    def look(self) -> None:
        """Wake whoever waited for what the high watermark has passed since the last look."""
        high_watermark = self.replica.high_watermark
        if high_watermark == self._told_high_watermark:
            return
        self._told_high_watermark = high_watermark
        self.on_progress(self)
        waiting = self._awaiting_commit
        while waiting and waiting[0][0] <= high_watermark:
            _, producer = waiting.popleft()
            if producer not in (self._forgotten or ()):
                producer.committed(self.key)
        if self._readers:
            for reader in tuple(self._readers):
                reader.grew(self.key)
        if self._followers:
            for follower in self._followers:
                follower.committed(self.key)
            if self.replica.read_at:
                for follower in self._followers:
                    follower.is_read_there(self.key)

    def row_changed(self) -> None:
        """Another row of the same leader was obeyed."""
        if self._readers and not may_serve(self.replica):
            for reader in tuple(self._readers):
                reader.lost(self.key)
        for follower in self._followers or ():
            follower.row_changed(self.key)
        self.look()
        self.look_at_starts()

    def leadership_changed(self, error_code: ErrorCode = ErrorCode.NOT_LEADER_OR_FOLLOWER) -> None:
        """Parked requests end: this broker does not lead any more as it did (conformance 214)."""
        self.refuse_waiting(error_code)
        for reader in (*(self._readers or ()), *(self._followers or ())):
            reader.lost(self.key)
        self._followers = None
        self._told_high_watermark = self.replica.high_watermark
        self.on_progress(self)
        self.look_at_starts()

    def _log_failed(self) -> None:
        """The log is closed for good: nothing is served from it, and whoever waits is told."""
        self.replica.fail()
        self.leadership_changed(ErrorCode.KAFKA_STORAGE_ERROR)
        self.on_trouble(self, False)

    def refuse_waiting(self, error_code: ErrorCode) -> None:
        """Parked produces end: what they wait for cannot come for now."""
        waiting, self._awaiting_commit = self._awaiting_commit, None
        forgotten, self._forgotten = self._forgotten or (), None
        for _, producer in waiting or ():
            if producer not in forgotten:
                producer.refused(self.key, error_code)

    def commits_awaited(self) -> int:
        """How many places parked produces hold here."""
        return len(self._awaiting_commit or ())

    def forget(self, producer: WaitsForCommit) -> None:
        """`producer` waits no longer.

        The queue is swept when half of it waits no longer: thousands that time out together cost a sweep each
        time their number halves, not one each.
        """
        waiting, forgotten = self._awaiting_commit or (), self._forgotten or set()
        forgotten.add(producer)
        self._forgotten = forgotten
        if len(forgotten) * 2 >= len(waiting):
            left = deque(entry for entry in waiting if entry[1] not in forgotten)
            self._awaiting_commit, self._forgotten = left or None, None


TroubleHook = Callable[[HostedPartition, bool], None]
ProgressHook = Callable[[HostedPartition], None]


def _nobody_listens(_hosted: HostedPartition, _is_sound: bool) -> None:
    """Until a data plane hosts it."""


def _nobody_counts(_hosted: HostedPartition) -> None:
    """Until a data plane hosts it."""
