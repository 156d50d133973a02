"""This room runs the real broker core in the simulation: a machine, its process, its link."""

from collections.abc import Callable
from typing import NamedTuple

from broker.core.cluster_view import ClusterView, Heeded, PartitionKey
from broker.core.replica import FetchPosition, Obeyed, Replica
from broker.core.replica_log import EpochEnd
from muster.kernel.error_codes import ErrorCode
from muster.kernel.instants import Instant
from muster.messages.link.from_broker import AlterPartition, BrokerHello, IsrProposal, Leaving
from muster.messages.link.protocol import LINK_PROTOCOL
from muster.messages.link.rows import PartitionRow
from muster.messages.link.to_broker import (
    HelloAccepted,
    HelloRefused,
    MayLeave,
    SnapshotChunk,
    WishAnswer,
)
from tests.simulation.replication.controller_process import Controller, Link
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
    leader_epoch: int
    offset: int
    diverging: EpochEnd | None
    records: tuple[Stored, ...]
    high_watermark: int


def incarnation(run: int) -> str:
    """Of a machine's `run`-th process; later ones sort behind."""
    return f"run-{run:04}"


class Broker:
    """One machine. `logs` is its disk; everything of `view` and `replicas` goes with the process."""

    leaving = may_leave = False

    def __init__(self, broker_id: int, min_insync: Callable[[PartitionKey], int]) -> None:
        self.broker_id = broker_id
        self.min_insync = min_insync
        self.logs: dict[PartitionKey, MemoryLog] = {}
        self.up = False
        self.run = 0
        self.lost_tail = True
        """The folder is new, or the machine crashed, and no hello said so yet."""
        self.crashed = 0
        """1: crashed and not registered since; 2: registered, not yet back in every ISR (for the checks)."""
        self.crashed_in = ""
        self.links_opened = 0
        self.start()

    def start(self) -> None:
        self.up = True
        self.leaving = self.may_leave = False
        self.run += 1
        self.broker_epoch = 0
        self.view = ClusterView(self.broker_id)
        self.replicas: dict[PartitionKey, Replica] = {}
        self.answers: list[FetchAnswer] = []
        self.link: Link | None = None
        self.logs = {key: MemoryLog(tuple(log.records)) for key, log in self.logs.items()}

    def kill(self) -> None:
        self.up = False
        self.replicas = {}
        self.answers = []
        self._leave_link()

    def crash_machine(self, kept: Callable[[MemoryLog], int]) -> None:
        """The machine loses any unflushed suffix of each log."""
        self.kill()
        self.lost_tail, self.crashed, self.crashed_in = True, 1, incarnation(self.run)
        for log in self.logs.values():
            log.truncate(kept(log))

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
        self._perform(heeded, now)

    def _perform(self, heeded: Heeded, now: Instant) -> None:
        for key in heeded.deleted:
            self._discard(key)
        for row in heeded.rows:
            self._obey(row, now, heeded.from_snapshot)
        for answer in heeded.answers:
            replica = self.replicas.get((answer.topic_id, answer.partition))
            heard = replica.hear_answer(answer.base_version, answer.row, now) if replica else None
            if heard is Obeyed.STOPPED:
                self._discard((answer.topic_id, answer.partition))
        for key in heeded.gone:
            self._discard(key)
        if heeded.from_snapshot:
            for key in self.view.strays(tuple(self.logs)):
                self._discard(key)

    def _obey(self, row: PartitionRow, now: Instant, from_snapshot: bool) -> None:
        replica = self.replicas.get(row.key)
        if replica is None:
            if self.broker_id not in row.assigned:
                self._discard(row.key)
                return
            log = self.logs.setdefault(row.key, MemoryLog())
            replica = Replica(self.broker_id, log, 0, self.min_insync(row.key))
            self.replicas[row.key] = replica
        obeyed = replica.obey(row, now, from_snapshot)
        if obeyed in (Obeyed.STOPPED, Obeyed.ANOTHER):
            self._discard(row.key)
        if obeyed is Obeyed.ANOTHER:
            self._obey(row, now, from_snapshot)

    def _discard(self, key: PartitionKey) -> None:
        """The log is stray: never used again under this key."""
        self.replicas.pop(key, None)
        self.logs.pop(key, None)

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
        )
        if isinstance(verdict, ErrorCode):
            return None
        records = tuple(self.logs[request.key].records[position.offset :]) if verdict is None else ()
        return FetchAnswer(
            request.key, position.leader_epoch, position.offset, verdict, records, replica.high_watermark
        )

    def receive(self, answer: FetchAnswer) -> int | None:
        """Take an answer over; where the log was cut, or None."""
        replica = self.replicas.get(answer.key)
        if replica is None:
            return None
        log = self.logs[answer.key]
        if answer.diverging is not None:
            end_offset = replica.heed_diverging(answer.leader_epoch, answer.diverging)
            if end_offset is not None:
                log.truncate(end_offset)
            return end_offset
        if replica.accepts(answer.leader_epoch, answer.offset):
            for record in answer.records:
                log.append(record)
            replica.followed(answer.high_watermark)
        return None

    def append(self, key: PartitionKey, value: int) -> None:
        """The leader stores the producer's next batch."""
        replica, log = self.replicas[key], self.logs[key]
        assert replica.row is not None
        mark = mark_of(key[0], replica.row.base_epoch)
        log.append(Stored(replica.leader_epoch, value, (self.broker_id, self.run), mark))
        replica.appended()
