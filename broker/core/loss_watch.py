"""This room knows what this broker can tell of elections that may have lost records, and tells it once.

Where it was elected: where its log ended then. Elsewhere: what it held before it followed the new leader, and
where it went on; what lay between is cut.
"""

from collections.abc import Callable, Container, Iterable, Mapping
from typing import NamedTuple, Protocol, TypeAlias
from uuid import UUID

from broker.core.leader_epochs import NO_EPOCH
from broker.core.replica import Replica, Role
from broker.core.replica_log import PartitionKey
from muster.messages.limits import MAX_ROWS_PER_FRAME
from muster.messages.link.losses import NOT_KNOWN, LossAsked, LossReport
from muster.messages.link.to_broker import AlterPartitionAnswer, Changes, SnapshotChunk

LossKey: TypeAlias = tuple[UUID, int, int]
"""Topic, partition, and the leader epoch of the election."""


class Held(NamedTuple):
    """What a log held before it followed the leader that was elected, or where it began to lead itself."""

    end_offset: int
    """NOT_KNOWN: it could not be read, or does not show any more where this broker began to lead."""
    high_watermark: int
    size_bytes: int
    """Of the log; as soon as `parted_at` is noted, of what was cut. NOT_KNOWN: the log was emptied since, or
    it went, or a crash cut it, so nobody knows where it parted from the leader's."""
    parted_at: int | None = None
    """Where it went on, and has perhaps grown since (`grown_is_uncut`); NOT_KNOWN: nobody knows."""


class Notes(Protocol):
    """What was held, remembered: a process that dies behind a cut must not say that it had nothing."""

    def load(self) -> dict[LossKey, Held]:
        """What processes of before noted."""

    def add(self, key: LossKey, held: Held) -> None:
        """Before the log may be cut, and before it grows over the cut."""

    def keep(self, held: Mapping[LossKey, Held]) -> None:
        """Of no others anybody asks."""


class LossWatch:
    """What the controller asks, and what this broker has to say that the controller has not heard."""

    def __init__(self, broker_id: int) -> None:
        self._broker_id = broker_id
        self._asked: dict[PartitionKey, dict[int, LossAsked]] = {}
        self._coming: list[LossAsked] = []
        """What a snapshot asks of which the last chunk is not here yet."""
        self._held: dict[LossKey, Held] = {}
        self._reports: dict[LossKey, LossReport] = {}
        self._doubted: set[LossKey] = set()
        """Noted before the machine crashed: what of the log is gone since was perhaps never cut."""
        self._notes: Notes | None = None
        self._on_news: Callable[[], None] = _nobody_hears

    def begin(
        self, notes: Notes, on_news: Callable[[], None], may_lack: Callable[[PartitionKey], bool]
    ) -> None:
        """Go on where the process before ended; `on_news` is called when there is something to tell.

        `may_lack`: whether the machine crashed since the log was last opened.
        """
        self._notes, self._held, self._on_news = notes, notes.load(), on_news
        self._doubted = {one for one in self._held if may_lack(PartitionKey(*one[:2]))}

    def hear(
        self, frame: SnapshotChunk | Changes | AlterPartitionAnswer, exist: Container[tuple[UUID, int]]
    ) -> None:
        """Heeded before the rows of the same frame: a follower may fetch as soon as it has obeyed its row.

        Behind it these partitions `exist`: of those that were removed nobody asks any more.
        """
        if isinstance(frame, AlterPartitionAnswer):
            return
        if isinstance(frame, SnapshotChunk):
            self._hear_chunk(frame)
            return
        if frame.deleted_topics or frame.topics:
            for key in [key for key in self._asked if key not in exist]:
                self._forget(key)
        self._know(frame.losses)

    def _hear_chunk(self, chunk: SnapshotChunk) -> None:
        """Of a snapshot only the whole counts: leaders answer fetches between two chunks, and after a
        catastrophe it is a later one that asks.
        """
        if chunk.number == 0:
            self._coming = []
        self._coming += chunk.losses
        if chunk.last:
            self._asked.clear()
            self._know(self._coming)
            self._coming = []
            self._forget_what_nobody_asks()
            self._say_what_is_noted()

    def look(self, key: PartitionKey, replica: Replica, size_bytes: int, high_watermark: int) -> None:
        """A row was obeyed, and nothing is fetched or written by it yet; nor is the log gone, if it goes.

        `high_watermark`: as it was before. What was asked of a partition that had the number before this one
        is asked no more (`next_one_answers`).
        """
        asked = self._asked.get(key) if self._asked else None
        if asked is None:
            return
        base_epoch = replica.row.base_epoch if replica.row is not None else 0
        if min(asked) <= base_epoch:
            self._forget(key, base_epoch)
        if replica.failed:
            if replica.role is Role.STOPPED:
                self._tell_unread(key, replica, high_watermark)
            return
        for epoch, one in asked.items():
            told = (*key, epoch)
            if told in self._reports:
                continue
            log = replica.log
            self._look_behind_a_crash(told, log.end_offset)
            if one.leader == self._broker_id:
                self._say_where_it_began(told, _where_it_began(replica, epoch), high_watermark)
            elif replica.role is Role.LEADER and replica.leader_epoch > epoch:
                # Elected before that leader took it to be level: what was cut by then is cut all the same.
                held = self._held.get(told) or Held(log.end_offset, high_watermark, size_bytes)
                self._say_cut(told, held, log.end_offset, size_bytes)
            elif told not in self._held:
                self._hold(told, Held(log.end_offset, high_watermark, size_bytes))

    def _tell_unread(self, key: PartitionKey, replica: Replica, high_watermark: int) -> None:
        """The log had failed, and goes: nobody will read it again (`failed_is_untold`).

        One that failed in this process ended where its memory says; of one that could not be opened nothing
        is known, and it looks empty. As long as it stays its next process may be able to read it.
        """
        end_offset = replica.log.end_offset or NOT_KNOWN
        known = high_watermark if end_offset != NOT_KNOWN else NOT_KNOWN
        for epoch, one in self._asked.get(key, {}).items():
            told = (*key, epoch)
            if told in self._reports or told in self._held:
                # `stopped` says what was noted while it could be read.
                continue
            if one.leader == self._broker_id:
                self._say_where_it_began(told, _where_it_began(replica, epoch), known)
            else:
                self._hold(told, held := Held(end_offset, known, NOT_KNOWN, NOT_KNOWN))
                self._say_cut(told, held, NOT_KNOWN, 0)

    def _look_behind_a_crash(self, told: LossKey, end_offset: int) -> None:
        """A log that is shorter than was noted was cut by its leader or by the crash (`crash_is_a_cut`)."""
        if told not in self._doubted:
            return
        self._doubted.discard(told)
        held = self._held.get(told)
        if held is not None and held.parted_at is None and end_offset < held.end_offset:
            self._held[told] = held._replace(size_bytes=NOT_KNOWN)
            self._note_all()

    def settled(
        self, key: PartitionKey, replica: Replica, offset: int, size_bytes: int, leaders_start_offset: int = 0
    ) -> None:
        """A leader answered a fetch of `offset`: up to there this log is that of the leader.

        Where the leader's begins no lower, nothing of the two was compared: what this log held may be what
        the leader has deleted by now, or not, so nobody knows where they parted (`parting_is_guessed`).
        """
        is_compared = offset > leaders_start_offset or not leaders_start_offset
        for epoch in self._asked.get(key, ()):
            told = (*key, epoch)
            held = self._held.get(told)
            if held is None or told in self._reports or replica.leader_epoch < epoch:
                continue
            self._say_cut(told, held, offset if is_compared else NOT_KNOWN, size_bytes)

    def emptied(self, key: PartitionKey) -> None:
        """The log begins again where its leader's does; called before, as a process may die behind it."""
        told = [(*key, epoch) for epoch in self._asked.get(key, ()) if (*key, epoch) in self._held]
        for one in told:
            self._held[one] = self._held[one]._replace(size_bytes=NOT_KNOWN)
        if told:
            self._note_all()

    def is_asked(self, key: PartitionKey) -> bool:
        """False for nearly every partition."""
        return bool(self._asked) and key in self._asked

    def reports(self) -> tuple[LossReport, ...]:
        """What the controller has not said it heard; the next call says the rest, if it is too much."""
        if not self._reports:
            return ()
        return tuple(self._reports.values())[:MAX_ROWS_PER_FRAME]

    def stopped(self, key: PartitionKey) -> None:
        """The log goes: what it held is told now, and nobody will know what of that was cut.

        Whoever is a replica again later has another log (`gone_is_untold`).
        """
        for epoch in self._asked.get(key, ()):
            told = (*key, epoch)
            held = self._held.get(told)
            if held is not None and told not in self._reports:
                self._say_cut(told, held, NOT_KNOWN, 0)

    def _know(self, losses: Iterable[LossAsked]) -> None:
        heard: list[LossKey] = []
        for one in losses:
            key = PartitionKey(one.topic_id, one.partition)
            if self._broker_id not in one.told:
                self._asked.setdefault(key, {})[one.leader_epoch] = one
                continue
            epochs = self._asked.get(key, {})
            epochs.pop(one.leader_epoch, None)
            if not epochs:
                self._asked.pop(key, None)
            heard.append((*key, one.leader_epoch))
        self._drop(heard)

    def _forget_what_nobody_asks(self) -> None:
        asked = {(*key, epoch) for key, epochs in self._asked.items() for epoch in epochs}
        self._reports = {key: one for key, one in self._reports.items() if key in asked}
        if self._held.keys() - asked:
            self._held = {key: one for key, one in self._held.items() if key in asked}
            self._note_all()

    def _say_what_is_noted(self) -> None:
        """A process of before knew all that it could: its log is perhaps gone, and nobody will look here."""
        for told, held in tuple(self._held.items()):
            if held.parted_at is not None and told not in self._reports:
                self._say_cut(told, held, NOT_KNOWN, 0)

    def _forget(self, key: PartitionKey, last_epoch: int | None = None) -> None:
        """Up to `last_epoch` the partition of this number was another one; None: there is none any more."""
        epochs = self._asked[key]
        over = [epoch for epoch in epochs if last_epoch is None or epoch <= last_epoch]
        for epoch in over:
            del epochs[epoch]
        if not epochs:
            del self._asked[key]
        self._drop([(*key, epoch) for epoch in over])

    def _drop(self, keys: Iterable[LossKey]) -> None:
        """Nothing is left to say of these; noted once for all: after a catastrophe thousands are heard."""
        held_before = len(self._held)
        for key in keys:
            self._reports.pop(key, None)
            self._held.pop(key, None)
        if len(self._held) < held_before:
            self._note_all()

    def _note_all(self) -> None:
        if self._notes is not None:
            self._notes.keep(self._held)

    def _say_where_it_began(self, told: LossKey, start_offset: int, high_watermark: int) -> None:
        """Noted first: the log may go, and the process die, before the controller has heard
        (`start_is_forgotten`).
        """
        self._hold(told, held := Held(start_offset, high_watermark, NOT_KNOWN, start_offset))
        self._say_cut(told, held, NOT_KNOWN, 0)

    def _say_cut(self, told: LossKey, held: Held, goes_on_at: int, size_bytes: int) -> None:
        """Noted first: the log grows, or is cut by another leader, before the controller has heard."""
        if held.parted_at is None:
            is_known = goes_on_at != NOT_KNOWN != held.size_bytes
            parted_at = min(goes_on_at, held.end_offset) if is_known else NOT_KNOWN
            cut_bytes = max(0, held.size_bytes - size_bytes) if parted_at < held.end_offset else 0
            held = held._replace(parted_at=parted_at, size_bytes=cut_bytes if is_known else NOT_KNOWN)
            self._hold(told, held)
        assert held.parted_at is not None
        cut = held.parted_at, held.high_watermark, held.size_bytes
        self._say(LossReport(*told, held.end_offset, *cut))

    def _hold(self, told: LossKey, held: Held) -> None:
        self._held[told] = held
        if self._notes is not None:
            self._notes.add(told, held)

    def _say(self, report: LossReport) -> None:
        self._reports[report.topic_id, report.partition, report.leader_epoch] = report
        self._on_news()


def _where_it_began(replica: Replica, epoch: int) -> int:
    """Where this log ended when this broker was elected in `epoch`; NOT_KNOWN: it does not show any more."""
    log = replica.log
    before = log.end_of_epoch(epoch - 1)
    if before.epoch == NO_EPOCH and log.start_offset > 0:
        # What lay there is deleted, and with it the epoch that it was of.
        return NOT_KNOWN
    leads_in_it = replica.role is Role.LEADER and replica.leader_epoch == epoch
    return before.end_offset if leads_in_it or log.end_of_epoch(epoch).epoch == epoch else NOT_KNOWN


def _nobody_hears() -> None:
    """Until a link is there."""
