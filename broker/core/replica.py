"""This room holds the rules of one hosted partition, leader and follower (replication.md sections 3 to 5).

Pure: the host owns log and sockets. It hands in rows, fetches and answers, performs what a method
returns, and compares `high_watermark` before and after to wake whoever waits.
"""

from collections.abc import Container
from enum import Enum
from typing import Final, NamedTuple

from broker.core.in_sync import Progress, is_admissible, lags
from broker.core.leader_epochs import NO_EPOCH
from broker.core.proven_rows import proven_before
from broker.core.replica_log import EpochEnd, ReplicaLog
from muster.kernel.error_codes import ErrorCode
from muster.kernel.instants import Instant
from muster.kernel.topic_configs import floor
from muster.messages.link.from_broker import IsrProposal
from muster.messages.link.rows import NO_LEADER, PartitionRow


class Role(Enum):
    """What this broker is to a partition."""

    WAITING = "waiting"
    """No row was obeyed yet: nothing is believed before the first snapshot."""
    LEADER = "leader"
    FOLLOWER = "follower"
    OFFLINE = "offline"
    """Nobody leads: the log exists and is neither written nor fetched."""
    FAILED = "failed"
    """Its log cannot be used before the broker starts again: it is neither written, fetched nor served."""
    STOPPED = "stopped"
    """Not assigned any more: the log is stray and is not used when the broker is assigned again."""


_LEADER: Final = Role.LEADER
_NONE: Final = ErrorCode.NONE
"""Each request asks; to find one in its class takes as long as a call."""


class Obeyed(Enum):
    """What a row changed."""

    IGNORED = "ignored"
    SAME_LEADER = "same leader"
    NEW_LEADER = "new leader"
    """Or a new leader epoch: parked requests end with NOT_LEADER_OR_FOLLOWER, fetches in flight drop."""
    STOPPED = "stopped"
    ANOTHER = "another"
    """This replica is of a partition that was removed; another one has its number now, and begins empty."""


class FetchPosition(NamedTuple):
    """What a follower asks its leader for next; `last_epoch` −1: its log is empty."""

    leader: int
    leader_epoch: int
    offset: int
    last_epoch: int
    start_offset: int = 0
    """Where its log begins: the leader of a DeleteRecords waits for that."""


class Replica:
    """One partition on one broker. Offsets are numbers of records, times are the broker's own clock."""

    __slots__ = (
        "_followers_that_count",
        "_progress",
        "broker_id",
        "epoch_start_offset",
        "failed",
        "high_watermark",
        "log",
        "min_insync_replicas",
        "pending",
        "proven_version",
        "read_at",
        "role",
        "row",
    )

    def __init__(
        self, broker_id: int, log: ReplicaLog, high_watermark: int = 0, min_insync_replicas: int = 1
    ) -> None:
        self.broker_id = broker_id
        self.log = log
        self.high_watermark = min(max(high_watermark, log.start_offset), log.end_offset)
        self.min_insync_replicas = min_insync_replicas
        self.row: PartitionRow | None = None
        self.role = Role.WAITING
        self.failed = False
        self.epoch_start_offset = 0
        self.pending: IsrProposal | None = None
        self.proven_version = 0
        self.read_at: dict[int, Instant] | None = None
        """Until when consumers may read at followers that they were sent to; None: nobody was sent away."""
        self._progress: dict[int, Progress] = {}
        self._followers_that_count: tuple[int, ...] = ()

    # ------------------------------------------------------------------------------ what it is

    @property
    def leads(self) -> bool:
        return self.role is Role.LEADER

    @property
    def readable_end(self) -> int:
        """Consumers read below this, at the leader and at followers (`follower_reads_to_end`)."""
        return self.high_watermark

    @property
    def leader(self) -> int:
        """Broker id of the leader, −1 if there is none or nothing is known."""
        return self.row.leader if self.row else NO_LEADER

    @property
    def leader_epoch(self) -> int:
        return self.row.leader_epoch if self.row else -1

    @property
    def isr(self) -> tuple[int, ...]:
        """As the controller last said; a proposal in flight is in `pending`."""
        return self.row.isr if self.row else ()

    def obey(self, row: PartitionRow, now: Instant, from_snapshot: bool = False) -> Obeyed:
        """Become what `row` says, unless it is older than the row obeyed (table of section 3)."""
        if self.row is not None and row.version < self.row.version:
            return Obeyed.IGNORED
        if row.base_epoch and self._is_of_removed(row):
            return Obeyed.ANOTHER
        self.proven_version = proven_before(self.row, row, self.pending, self.proven_version)
        if self.pending and (from_snapshot or row.version > self.pending.base_version):
            self.pending = None
        before, self.row = self.row, row
        if self.broker_id not in row.assigned:
            self._stop()
            return Obeyed.STOPPED
        if before is None or (before.leader, before.leader_epoch) != (row.leader, row.leader_epoch):
            self._become(row, now)
            outcome = Obeyed.NEW_LEADER
        else:
            outcome = Obeyed.SAME_LEADER
        if self.role is Role.LEADER:
            self._know_followers(row, now)
            self._count_followers()
            self._advance()
        return outcome

    def _is_of_removed(self, row: PartitionRow) -> bool:
        """True for what obeyed an earlier partition of this number, or holds records of one.

        Epochs of the present one begin above those, so the log itself tells (`removed_is_kept`).
        """
        was = self.row.base_epoch if self.row is not None else row.base_epoch
        return was < row.base_epoch or NO_EPOCH < self.log.last_epoch <= row.base_epoch

    def _become(self, row: PartitionRow, now: Instant) -> None:
        self._progress = {}
        self.pending = self.read_at = None
        if self.failed:
            self.fail()
        elif row.leader == self.broker_id:
            self.role = Role.LEADER
            self.epoch_start_offset = self.log.end_offset
        else:
            self.role = Role.OFFLINE if row.leader == NO_LEADER else Role.FOLLOWER
            self.epoch_start_offset = 0
            self._followers_that_count = ()

    def fail(self) -> None:
        """The log cannot be used any more, whatever rows say of this broker (`failed_leads`).

        Rows are still heard, so that it stops when it is told to. It commits nothing and asks for nothing.
        """
        self.failed = True
        self.role = Role.FAILED
        self._progress = {}
        self._followers_that_count = ()
        self.pending = None

    def _stop(self) -> None:
        self.role = Role.STOPPED
        self._progress = {}
        self._followers_that_count = ()
        self.pending = None
        self.high_watermark = 0
        self.epoch_start_offset = 0

    # ------------------------------------------------------------------------------ leader: data

    def refusal(self, current_leader_epoch: int = -1) -> ErrorCode:
        """Why a client's request is refused here, or NONE (conformance line 215); −1: no epoch stated."""
        if self.failed:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if current_leader_epoch >= 0 and current_leader_epoch != self.leader_epoch:
            if current_leader_epoch < self.leader_epoch:
                return ErrorCode.FENCED_LEADER_EPOCH
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        return _NONE if self.role is _LEADER else ErrorCode.NOT_LEADER_OR_FOLLOWER

    def enough_in_sync(self, live: Container[int], now: Instant, lag_time_max_ms: int) -> bool:
        """False: an append with acks=all would wait for members that are away (NOT_ENOUGH_REPLICAS).

        A courtesy, not a safety rule: dead members that the floor keeps in the ISR do not count
        (replication.md section 7.9).
        """
        if self.row is None or self.min_insync_replicas <= 1:
            return self.row is not None
        reachable = 1
        for follower in self.row.isr:
            progress = self._progress.get(follower)
            if progress is not None and follower in live:
                reachable += not lags(progress, self.log, now, lag_time_max_ms)
        return reachable >= self._fewest

    def require(self, min_insync_replicas: int) -> None:
        """From now on so many must be in sync; what waited for more of them is committed at once."""
        self.min_insync_replicas = min_insync_replicas
        if self.role is Role.LEADER:
            self._advance()

    def appended(self) -> None:
        """The leader's own log grew; committed at once only where no other member counts."""
        if not self._followers_that_count:
            self._advance()

    def follower_fetches(
        self,
        follower: int,
        broker_epoch: int,
        leader_epoch: int,
        offset: int,
        last_epoch: int,
        now: Instant,
        start_offset: int = -1,
    ) -> ErrorCode | EpochEnd | None:
        """Judge a follower's fetch: refused, diverging, or None: answer records from `offset` to the log end.

        A diverging follower's offset says nothing of what it holds, so it makes no progress
        (`diverging_progress`). A lower broker epoch is a fetch of an earlier incarnation that may have
        lost its tail since (`bep_fetch`). Below the log start there is nothing to compare
        (OFFSET_OUT_OF_RANGE, whatever its epoch is): it begins again there, from no offset of another's.
        `start_offset` is where its own log begins.
        """
        error = self.refusal(leader_epoch)
        if error is not _NONE:
            return error
        progress = self._progress.get(follower)
        if progress is None:
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        if broker_epoch < progress.broker_epoch:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        progress.start_offset = start_offset
        log_end = self.log.end_offset
        if offset < self.log.start_offset:
            return ErrorCode.OFFSET_OUT_OF_RANGE
        diverging = self.divergence(offset, last_epoch)
        if diverging is not None:
            return diverging
        if last_epoch < 0 and offset > log_end:
            return self.log.end_of_epoch(-1)
        held_back = progress.end_offset <= self.high_watermark
        progress.fetched(broker_epoch, offset, log_end, now)
        if held_back:
            self._advance()
        return None

    def follower_stood(self, follower: int, fetched_at: Instant) -> None:
        """This log grew; `follower` has asked again until `fetched_at`, from where it was judged last.

        So whoever is level with an idle log need not be judged again and again to be known as level.
        """
        progress = self._progress.get(follower)
        if progress is not None:
            progress.stood(fetched_at, self.log.end_offset)

    def another_may_lead(self, live: Container[int]) -> bool:
        """True if a live member of the ISR can lead as soon as this broker does not."""
        return any(b in live for b in self.isr if b != self.broker_id)

    def divergence(self, offset: int, last_epoch: int) -> EpochEnd | None:
        """Where the log of a reader at `offset`, behind a batch of `last_epoch`, parts from this one.

        None: nowhere (conformance 229). −1 states no epoch, so nothing can be said of it. An epoch below all
        that this log knows ended where the first of those begins (conformance 230): whoever stands there
        lacks nothing, for what this log has forgotten is deleted (`forgotten_diverges`).
        """
        if last_epoch < 0 or offset < self.log.start_offset:
            return None
        end = self.log.end_of_epoch(last_epoch)
        if end.epoch == NO_EPOCH:
            end = EpochEnd(last_epoch, end.end_offset)
        return end if end.epoch != last_epoch or end.end_offset < offset else None

    def low_watermark(self, live: Container[int]) -> int:
        """Where the log begins at this broker and at every live replica; −1: one of them has not said.

        What a dead one still holds it deletes when it is back (`start_not_followed`).
        """
        lowest = self.log.start_offset
        for follower, progress in self._progress.items():
            if follower in live and progress.start_offset < lowest:
                lowest = progress.start_offset
        return lowest

    def latest_offset(self) -> int | None:
        """End offset to tell consumers; None: not available yet, as it could go back (KIP-207)."""
        if self.role is not Role.LEADER or self.high_watermark < self.epoch_start_offset:
            return None
        return self.high_watermark

    # ------------------------------------------------------------------------------ leader: ISR

    def progress_of(self, follower: int) -> Progress | None:
        """What is known of a follower of the partition that is led here."""
        return self._progress.get(follower)

    def end_offset_of(self, follower: int) -> int:
        """How far `follower` got by its own fetches in this leader epoch; −1: not known."""
        progress = self._progress.get(follower)
        return progress.end_offset if progress is not None else -1

    @property
    def may_grow(self) -> bool:
        """True if `propose` would find somebody to admit."""
        return self.pending is None and self.role is Role.LEADER and self._admissible(None) is not None

    def propose(
        self, now: Instant, link_ready: bool, live: Container[int], lag_time_max_ms: int
    ) -> IsrProposal | None:
        """The next change of the ISR to ask the controller for; it is pending from now on.

        One at a time, only on a link whose snapshot is applied (`propose_early`). No timer ends it:
        a row above its base version, the answer to it, or the snapshot of a new link does.
        """
        row = self.row
        if row is None or self.role is not Role.LEADER or self.pending is not None or not link_ready:
            return None
        newcomer = self._admissible(live)
        if newcomer is not None:
            progress = self._progress[newcomer]
            progress.asks_admission = False
            wanted = tuple(b for b in row.assigned if b in row.isr or b == newcomer)
            return self._ask(row, wanted, {newcomer: progress.broker_epoch})
        laggard = self._laggard(row, now, lag_time_max_ms)
        if laggard is None:
            return None
        # Only its next fetch may ask for it again: else it would come back with the progress it lags by.
        self._progress[laggard].asks_admission = False
        return self._ask(row, tuple(b for b in row.isr if b != laggard), {})

    def hear_answer(self, base_version: int, row: PartitionRow | None, now: Instant) -> Obeyed:
        """The controller answered the proposal made on `base_version`; only that one ends (`answer_any`)."""
        if row is not None and self.row is not None and row.version < self.row.version:
            return Obeyed.IGNORED
        if self.pending and self.pending.base_version == base_version:
            self.pending = None
            if row is None:
                self._count_followers()
                self._advance()
        return self.obey(row, now) if row is not None else Obeyed.IGNORED

    def _ask(self, row: PartitionRow, isr: tuple[int, ...], broker_epochs: dict[int, int]) -> IsrProposal:
        self.pending = IsrProposal(
            topic_id=row.topic_id,
            partition=row.partition,
            base_version=row.version,
            isr=isr,
            broker_epochs=broker_epochs,
        )
        self._count_followers()
        self._advance()
        return self.pending

    def _admissible(self, live: Container[int] | None) -> int | None:
        for follower, progress in self._progress.items():
            if (
                progress.asks_admission
                and follower not in self.isr
                and (live is None or follower in live)
                and is_admissible(
                    progress, self.high_watermark, self.epoch_start_offset, self.log.start_offset
                )
            ):
                return follower
        return None

    def _laggard(self, row: PartitionRow, now: Instant, lag_time_max_ms: int) -> int | None:
        if len(row.isr) <= self._fewest:
            return None
        lagging = [
            (self._progress[b].end_offset, b)
            for b in row.isr
            if b in self._progress and lags(self._progress[b], self.log, now, lag_time_max_ms)
        ]
        return min(lagging)[1] if lagging else None

    # ------------------------------------------------------------------------------ leader: high watermark

    @property
    def _fewest(self) -> int:
        return floor(self.min_insync_replicas, self.row.settled_count if self.row else 0)

    def _know_followers(self, row: PartitionRow, now: Instant) -> None:
        """Progress of every assigned follower, kept within the leader epoch, none of anybody else."""
        followers = [b for b in row.assigned if b != self.broker_id]
        if self._progress.keys() != set(followers):
            self._progress = {b: self._progress.get(b) or Progress(now) for b in followers}

    def _count_followers(self) -> None:
        """The high watermark waits for the members of both sets while a proposal is open (`hw_old_only`)."""
        members = set(self.isr).union(self.pending.isr if self.pending else ())
        self._followers_that_count = tuple(b for b in members if b != self.broker_id)

    def _advance(self) -> None:
        """Raise the high watermark to the lowest log end that counts; it never falls."""
        if self.min_insync_replicas > 1 and len(self.isr) < self._fewest:
            return
        lowest = self.log.end_offset
        for follower in self._followers_that_count:
            progress = self._progress.get(follower)
            if progress is None:
                return
            if progress.end_offset < lowest:
                lowest = progress.end_offset
        if lowest > self.high_watermark:
            self.high_watermark = lowest

    # ------------------------------------------------------------------------------ follower

    def next_fetch(self) -> FetchPosition | None:
        """What to ask the leader for; None unless this broker follows (section 5)."""
        if self.role is not Role.FOLLOWER or self.row is None:
            return None
        log = self.log
        return FetchPosition(
            self.row.leader, self.row.leader_epoch, log.end_offset, log.last_epoch, log.start_offset
        )

    def heed_diverging(self, asked: FetchPosition, leaders: EpochEnd) -> int | None:
        """Where to cut the log and the producer state, at once; None: the answer is out of date.

        The high watermark of such an answer is not taken: it counts records this log does not have
        (`hw_before_truncation`).
        """
        end_offset = self.parts_at(asked, leaders)
        if end_offset is not None:
            self.high_watermark = min(self.high_watermark, end_offset)
        return end_offset

    def parts_at(self, asked: FetchPosition, leaders: EpochEnd) -> int | None:
        """Up to where this log is surely the leader's, if the answer still fits; nothing changes.

        What was cut by an answer before it, and has grown since, holds what the leader counts
        (`diverging_twice`).
        """
        if not self.accepts(asked) or asked.last_epoch != self.log.last_epoch:
            return None
        own = self.log.end_of_epoch(leaders.epoch)
        return min(leaders.end_offset, own.end_offset, self.log.end_offset)

    def must_begin_again(self, end_offset: int, leader_start_offset: int, *, after_loss: bool) -> bool:
        """True if a log that is cut to `end_offset` begins again, empty, where the leader's does.

        Nothing is left of it that the leader still has. Or nothing at all, and what it deleted was perhaps of
        a history that an election lost (`after_loss`): the leader may hold other records there, which count
        now (`deleted_stays_away`). A member of the ISR has deleted only what counts (`insync_begins_again`).
        """
        own_start_offset = self.log.start_offset if after_loss and self.broker_id not in self.isr else 0
        return 0 < max(leader_start_offset, own_start_offset) >= end_offset

    def accepts(self, asked: FetchPosition) -> bool:
        """True if an answer to `asked` still fits: same leader epoch, exactly at the log end."""
        return (
            self.role is Role.FOLLOWER
            and asked.leader_epoch == self.leader_epoch
            and asked.offset == self.log.end_offset
        )

    def start_to_follow(self, leader_start_offset: int) -> int:
        """Where this log is to begin once an answer is accepted: as the leader's (`start_not_followed`).

        All below was committed in the leader's log, whatever this one's high watermark is by now.
        """
        return max(self.log.start_offset, min(leader_start_offset, self.log.end_offset))

    def began_later(self) -> None:
        """Older records were deleted: they were committed."""
        self.high_watermark = max(self.high_watermark, self.log.start_offset)

    def began_again(self) -> None:
        """The log was emptied and goes on at its leader's start: all before it is committed and gone."""
        self.high_watermark = self.log.end_offset

    def followed(self, leader_high_watermark: int) -> None:
        """The records of an accepted answer are in the log; an empty answer counts too."""
        self.high_watermark = max(self.high_watermark, min(leader_high_watermark, self.log.end_offset))
