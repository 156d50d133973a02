"""This room runs the real broker core in the simulation: a machine, its process, its link."""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple
from uuid import UUID

from broker.core.cluster_view import ClusterView, Heeded, PartitionKey
from broker.core.led_epochs import LedEpochs
from broker.core.log_ends import end_for
from broker.core.loss_watch import LossKey, LossWatch
from broker.core.replica import FetchPosition, Obeyed, Replica, Role
from broker.core.replica_log import EpochEnd
from broker.core.replica_log import PartitionKey as LogKey
from broker.known_topics import KnownTopics
from broker.log.outcomes import LogSettings
from muster.kernel.error_codes import ErrorCode
from muster.kernel.instants import Instant
from muster.messages.link.from_broker import (
    AlterPartition,
    BrokerHello,
    BrokerPing,
    IsrProposal,
    Leaving,
)
from muster.messages.link.log_ends import LogEnds
from muster.messages.link.protocol import LINK_PROTOCOL
from muster.messages.link.rows import PartitionRow
from muster.messages.link.to_broker import (
    AlterPartitionAnswer,
    Changes,
    HelloAccepted,
    HelloRefused,
    MayLeave,
    SnapshotChunk,
    WishAnswer,
)
from tests.simulation.replication.controller_process import Controller, Link
from tests.simulation.replication.losses import HeldOnDisk
from tests.simulation.replication.memory_log import MemoryLog, Stored, mark_of

ALWAYS_LAGS, NEVER_LAGS = -1, 10**9


class FetchRequest(NamedTuple):
    """A follower's fetch on its way to the leader."""

    follower: int
    key: PartitionKey
    broker_epoch: int
    position: FetchPosition


class FetchAnswer(NamedTuple):
    """A leader's answer on its way back."""

    key: PartitionKey
    asked: FetchPosition
    diverging: EpochEnd | None
    records: tuple[Stored, ...]
    high_watermark: int
    start_offset: int = 0
    below: tuple[Stored, ...] = ()
    """What the leader holds, or held, below `offset`; the rules do not see it."""
    is_out_of_range: bool = False


def incarnation(run: int) -> str:
    """Of a machine's `run`-th process; later ones sort behind."""
    return f"run-{run:04}"


class Broker:
    """One machine. `logs` is its disk; everything of `view` and `replicas` goes with the process."""

    leaving = may_leave = False
    boot = 0
    """How often its machine has crashed."""
    confessed: frozenset[PartitionKey] = frozenset()
    """Logs of which it ever said that they lack what they held: they leave an ISR whatever remains."""

    def __init__(self, broker_id: int) -> None:
        self.broker_id = broker_id
        self.logs: dict[PartitionKey, MemoryLog] = {}
        self.led = LedEpochs()
        self.up = False
        self.run = 0
        self.lost_tail = True
        """The folder is new, or the machine crashed, and no hello said so yet."""
        self.crashed = 0
        """1: crashed and not registered since; 2: registered, not yet back in every ISR (for the checks)."""
        self.crashed_in = ""
        self.links_opened = 0
        self.notes = HeldOnDisk()
        self.level: dict[PartitionKey, int] = {}
        """The highest epoch whose leader found a log here level, or that was led here (for the checks)."""
        self.discarded: dict[PartitionKey, MemoryLog] = {}
        """Logs that went stray, the last one of each (for the checks)."""
        self.owing: dict[LossKey, int] = {}
        """What it was asked of logs that went, and how often it had crashed by then (for the checks)."""
        self.start()

    def start(self) -> None:
        self.up = True
        self.leaving = self.may_leave = False
        self.run += 1
        self.broker_epoch = 0
        self.view = ClusterView(self.broker_id)
        self.topics = KnownTopics(LogSettings())
        self.replicas: dict[PartitionKey, Replica] = {}
        self.answers: list[FetchAnswer] = []
        self.link: Link | None = None
        self.logs = {key: MemoryLog(tuple(log.records), log.start_offset) for key, log in self.logs.items()}
        self.losses = LossWatch(self.broker_id)
        self.losses.begin(self.notes, _nobody_is_rung, lambda _key: self.lost_tail)

    def kill(self) -> None:
        self.up = False
        self.replicas = {}
        self.answers = []
        self._leave_link()

    def crash_machine(self, kept: Callable[[MemoryLog], int]) -> None:
        """The machine loses any unflushed suffix of each log."""
        self.kill()
        self.lost_tail, self.crashed, self.crashed_in = True, 1, incarnation(self.run)
        self.boot += 1
        self.led = LedEpochs()
        for log in self.logs.values():
            log.truncate(max(kept(log), log.start_offset))

    def _leave_link(self) -> None:
        if self.link is not None:
            self.link.close()
            self.link.to_broker.clear()
        self.link = None

    # ------------------------------------------------------------------------------ link

    def open_link(self, controller: Controller) -> Link:
        """Close the old link, drop its unread frames, say hello on a new one."""
        self._leave_link()
        self.links_opened += 1
        link = Link(f"{self.broker_id}.{self.run}.{self.links_opened}", self.broker_id, controller)
        controller.links[link.link_id] = link
        self.link = link
        self.view.open_link()
        link.say_to_controller(self._hello())
        return link

    def _hello(self) -> BrokerHello:
        return BrokerHello(
            broker_id=self.broker_id,
            incarnation=incarnation(self.run),
            endpoints={"replication": f"127.0.0.1:{self.broker_id}"},
            broker_epoch=self.broker_epoch,
            lost_tail=self.lost_tail,
            # An old controller refuses who states more than it knows; here it must be harmless without that.
            metadata_version=0,
            leaving=self.leaving,
            protocol=LINK_PROTOCOL,
        )

    def leave(self) -> None:
        """It was told to stop."""
        self.leaving = True
        if self.link is not None:
            self.link.say_to_controller(Leaving())

    def _accepted(self, frame: HelloAccepted) -> None:
        """The controller has heard the hello, a lost tail included."""
        self.broker_epoch = frame.broker_epoch
        self.lost_tail = False
        self._know_levels(frame.static_configs)

    def _know_levels(self, static: Mapping[str, str]) -> None:
        for topic_id in self.topics.know_levels({}, self.view.cluster_configs, static):
            self._require(topic_id)

    def _require(self, topic_id: UUID) -> None:
        known = self.topics.get(topic_id)
        for key, replica in self.replicas.items():
            if key[0] == topic_id and known is not None:
                replica.require(known.min_insync_replicas)

    def heed(self, now: Instant) -> None:
        """Read the next frame of the link."""
        link = self.link
        assert link is not None
        frame = link.next_for_broker()
        if frame is None:
            self.link = None
            return
        if isinstance(frame, HelloRefused):
            self._leave_link()
            # Who leaves does not wait for a link.
            self.may_leave = self.leaving
            return
        if isinstance(frame, WishAnswer):
            return
        if isinstance(frame, MayLeave):
            self.may_leave = True
            return
        if isinstance(frame, HelloAccepted):
            self._accepted(frame)
            return
        if not isinstance(frame, SnapshotChunk) and not self.view.ready:
            raise AssertionError(f"{frame} came before the snapshot")
        heeded = self.view.obey(frame)  # type: ignore[arg-type]
        if heeded.hang_up:
            self._leave_link()
            return
        self._hear_of_losses(frame)  # type: ignore[arg-type]
        held, asked = dict(self.logs), asked_of(self.losses, self.logs)
        for key, _ in asked:
            # A log of files that is gone cannot be read any more.
            _ = held[key].records
        self._perform(heeded, now)
        self._show_logs(heeded.rows)
        gone = held.keys() - self.logs.keys()
        self.discarded |= {key: held[key] for key in gone}
        self.owing |= {(*key, epoch): self.boot for key, epoch in asked if key in gone}

    def _show_logs(self, rows: Iterable[PartitionRow]) -> None:
        told = (end_for(row, self.replicas.get(row.key), self.led) for row in rows)
        shown = [end for end in told if end is not None]
        if shown and self.link is not None:
            self.link.say_to_controller(LogEnds(ends=tuple(shown)))

    def _hear_of_losses(self, frame: SnapshotChunk | Changes | AlterPartitionAnswer) -> None:
        self.losses.hear(frame, self.view.partitions)

    def tell_losses(self) -> None:
        """With a ping."""
        assert self.link is not None
        self.link.say_to_controller(
            BrokerPing(number=1, metadata_version=self.view.metadata_version, losses=self.losses.reports())
        )

    def _perform(self, heeded: Heeded, now: Instant) -> None:
        self._know_levels(self.topics.nodes_static)
        for topic in heeded.topics:
            if self.topics.know(topic.topic_id, topic.name, topic.configs):
                self._require(topic.topic_id)
        for key in heeded.deleted:
            self._discard(key)
        for row in heeded.rows:
            self._obey(row, now, heeded.from_snapshot)
        for answer in heeded.answers:
            replica = self.replicas.get((answer.topic_id, answer.partition))
            heard = replica.hear_answer(answer.base_version, answer.row, now) if replica else None
            if replica and heard is Obeyed.NEW_LEADER:
                self.led.look((answer.topic_id, answer.partition), replica)
            if heard is Obeyed.STOPPED:
                self._discard((answer.topic_id, answer.partition))
        for key in heeded.gone:
            self._discard(key)
        if heeded.from_snapshot:
            for key in self.view.strays(tuple(self.logs)):
                if (elsewhere := self.view.partitions.get(key)) is not None:
                    self._obey(elsewhere, now, True)
                self._discard(key)

    def _obey(self, row: PartitionRow, now: Instant, from_snapshot: bool) -> None:
        replica = self.replicas.get(row.key)
        if replica is None:
            is_asked = self.losses.is_asked(LogKey(*row.key)) and row.key in self.logs
            if self.broker_id not in row.assigned and not is_asked:
                self._discard(row.key)
                return
            log = self.logs.setdefault(row.key, MemoryLog())
            known = self.topics.get(row.topic_id)
            assert known is not None
            replica = Replica(self.broker_id, log, 0, known.min_insync_replicas)
            self.replicas[row.key] = replica
        high_watermark = replica.high_watermark
        obeyed = replica.obey(row, now, from_snapshot)
        if obeyed is not Obeyed.ANOTHER:
            self.losses.look(LogKey(*row.key), replica, replica.log.end_offset, high_watermark)
        if obeyed is Obeyed.NEW_LEADER:
            self.led.look(row.key, replica)
        if obeyed in (Obeyed.STOPPED, Obeyed.ANOTHER):
            self._discard(row.key)
        if obeyed is Obeyed.ANOTHER:
            self._obey(row, now, from_snapshot)

    def _discard(self, key: PartitionKey) -> None:
        """The log is stray: never used again under this key."""
        self.replicas.pop(key, None)
        self.logs.pop(key, None)
        self.led.forget(key)
        self.level.pop(key, None)
        self.losses.stopped(LogKey(*key))

    def propose(self, key: PartitionKey, now: Instant, lag_time_max_ms: int) -> IsrProposal | None:
        link = self.link
        if link is None:
            return None
        live = {b for b, row in self.view.brokers.items() if row.live and not row.leaving}
        proposal = self.replicas[key].propose(now, self.view.ready, live, lag_time_max_ms)
        if proposal is not None:
            link.say_to_controller(AlterPartition(proposals=(proposal,)))
        return proposal

    # ------------------------------------------------------------------------------ data

    def request(self, key: PartitionKey) -> FetchRequest | None:
        replica = self.replicas.get(key)
        position = replica.next_fetch() if replica is not None else None
        return FetchRequest(self.broker_id, key, self.broker_epoch, position) if position else None

    def serve(self, request: FetchRequest, now: Instant) -> FetchAnswer | None:
        """A leader answers a follower; None: refused."""
        replica = self.replicas.get(request.key)
        if replica is None:
            return None
        position = request.position
        verdict = replica.follower_fetches(
            request.follower,
            request.broker_epoch,
            position.leader_epoch,
            position.offset,
            position.last_epoch,
            now,
            position.start_offset,
        )
        is_out_of_range = verdict is ErrorCode.OFFSET_OUT_OF_RANGE
        if isinstance(verdict, ErrorCode) and not is_out_of_range:
            return None
        log = self.logs[request.key]
        is_level = verdict is None
        return FetchAnswer(
            request.key,
            position,
            verdict if isinstance(verdict, EpochEnd) else None,
            tuple(log.records[position.offset :]) if is_level else (),
            replica.high_watermark,
            log.start_offset,
            tuple(log.records[: position.offset if is_level else log.start_offset]),
            is_out_of_range,
        )

    def receive(self, answer: FetchAnswer) -> int | None:
        """Take an answer over; where the log was cut, or None."""
        replica = self.replicas.get(answer.key)
        if replica is None:
            return None
        log = self.logs[answer.key]
        if answer.is_out_of_range:
            is_behind = answer.start_offset > log.end_offset and replica.role is Role.FOLLOWER
            if is_behind and replica.leader_epoch == answer.asked.leader_epoch:
                self._begin_again(replica, log, answer)
        elif answer.diverging is not None:
            end_offset = replica.heed_diverging(answer.asked, answer.diverging)
            start, is_asked = answer.start_offset, self.losses.is_asked(LogKey(*answer.key))
            if end_offset is not None and replica.must_begin_again(end_offset, start, after_loss=is_asked):
                self._begin_again(replica, log, answer)
            elif end_offset is not None:
                log.truncate(end_offset)
            return end_offset
        elif replica.accepts(answer.asked):
            self._follow(replica, log, answer)
        return None

    def _begin_again(self, replica: Replica, log: MemoryLog, answer: FetchAnswer) -> None:
        self.losses.emptied(LogKey(*answer.key))
        log.begin_again(answer.below)
        self.level[answer.key] = answer.asked.leader_epoch
        replica.began_again()

    def _follow(self, replica: Replica, log: MemoryLog, answer: FetchAnswer) -> None:
        key, size = LogKey(*answer.key), log.end_offset
        if self.losses.is_asked(key):
            self.losses.settled(key, replica, answer.asked.offset, size, answer.start_offset)
        self.level[key] = max(self.level.get(key, 0), answer.asked.leader_epoch)
        start_offset = replica.start_to_follow(answer.start_offset)
        # Of what both have deleted that of the leader's history counts from now on.
        log.records[:start_offset] = answer.below[:start_offset]
        if start_offset > log.start_offset:
            log.begin_at(start_offset)
            replica.began_later()
        for record in answer.records:
            log.append(record)
        replica.followed(answer.high_watermark)

    def delete_below(self, key: PartitionKey, offset: int) -> None:
        """The leader deletes what lies below `offset`, which is committed."""
        self.logs[key].begin_at(offset)

    def append(self, key: PartitionKey, value: int) -> None:
        """The leader stores the producer's next batch."""
        replica, log = self.replicas[key], self.logs[key]
        assert replica.row is not None
        mark = mark_of(key[0], replica.row.base_epoch)
        log.append(Stored(replica.leader_epoch, value, (self.broker_id, self.run), mark))
        replica.appended()


def _nobody_is_rung() -> None:
    """It pings when the walk says so."""


def asked_of(losses: LossWatch, logs: Iterable[PartitionKey]) -> list[tuple[PartitionKey, int]]:
    """Elections of which a broker is asked what one of these logs held."""
    return [(key, epoch) for key in logs for epoch in losses._asked.get(LogKey(*key), ())]


def is_of(replica: Replica, row: PartitionRow) -> bool:
    """False for what is still a replica of a partition that had the number before this one."""
    if replica.row is None:
        return not row.base_epoch
    return replica.row.base_epoch == row.base_epoch


def laggards(replica: Replica) -> list[int]:
    """Members of the ISR that are behind the leader's log end, as far as the leader knows."""
    end_offset = replica.log.end_offset
    followers = [b for b in replica.isr if b != replica.broker_id]
    return [b for b in followers if replica.end_offset_of(b) < end_offset]
