"""This room runs the real controller core in the simulation: a database, an owner with a cache, links.

Elections by an operator are the simulation's own turns here: the product does not have them yet
(`Controller.operate`), so what the walks say about a moved leader holds for this code, not for it.
"""

from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from controller.core.dispatch import frames_for
from controller.core.draft import ClusterDecision, Draft, levels_of, policy_of
from controller.core.election import Policy
from controller.core.events import (
    Event,
    HangUp,
    Heard,
    Hello,
    LinkClosed,
    PlanComputed,
    ProposalsReady,
    Say,
    TookOver,
)
from controller.core.plans import COMPUTE_PLAN
from controller.core.proposing import Task, propose
from controller.core.records import ClusterRecord, WorkOffered
from controller.core.settings import ControllerSettings
from controller.core.state import ClusterRows, ClusterState, Memory, after_records, apply
from controller.core.turn import decide
from muster.kernel.instants import Instant
from muster.messages.codec import decode_from_broker, decode_to_broker, encode
from muster.messages.link.from_broker import (
    AlterPartition,
    BrokerHello,
    BrokerPing,
    FromBroker,
    Leaving,
    UnusableLogs,
)
from muster.messages.link.log_ends import LogEnds
from muster.messages.link.rows import EVERY_BROKER, NO_LEADER
from muster.messages.link.to_broker import ToBroker
from tests.simulation.replication.plan_walks import compute_plan
from tests.unit.messages.made_rows import seats


@dataclass(eq=False)
class Link:
    """One websocket of a broker; frames in flight in both directions, None behind the last one."""

    link_id: str
    broker_id: int
    controller: "Controller"
    open: bool = True
    to_broker: deque[bytes | None] = field(default_factory=deque)
    to_controller: deque[bytes | None] = field(default_factory=deque)

    def say_to_broker(self, frame: ToBroker) -> None:
        if self.open:
            self.to_broker.append(encode(frame))

    def say_to_controller(self, frame: FromBroker) -> None:
        if self.open:
            self.to_controller.append(encode(frame))

    def next_for_broker(self) -> ToBroker | None:
        data = self.to_broker.popleft()
        return decode_to_broker(data) if data is not None else None

    def next_for_controller(self) -> FromBroker | None:
        data = self.to_controller.popleft()
        return decode_from_broker(data) if data is not None else None

    def close(self) -> None:
        """Either end closes; what was sent before may still be read at the other end."""
        if self.open:
            self.open = False
            self.to_broker.append(None)
            self.to_controller.append(None)


class Database:
    """The rows, the lease's epoch, and the work items; every write is fenced and conditional."""

    def __init__(self) -> None:
        self.rows = ClusterRows("cluster-1", 0, 1)
        self.lease_epoch = 0
        self.work: list[WorkOffered] = []
        self.journal: list[ClusterRecord] = []
        self._begins_at = 0
        self._begins_with = self.rows.copy()
        """What the journal changes from `_begins_at` on."""

    def load(self) -> ClusterRows:
        rows = self.rows
        return ClusterRows.of(
            rows.cluster_id,
            rows.metadata_version,
            rows.next_producer_id,
            rows.brokers.values(),
            rows.topics.values(),
            rows.partitions.values(),
            rows.reassignments.values(),
            plans=rows.plans.copy(),
            losses=rows.losses.values(),
            proven_version=rows.proven_version,
        )

    def write(self, lease_epoch: int, records: Sequence[ClusterRecord]) -> bool:
        """One transaction; False: the lease has another owner, nothing was written."""
        if not self.is_fenced_in(lease_epoch):
            return False
        for record in records:
            apply(self.rows, record)
            self.journal.append(record)
            if isinstance(record, WorkOffered):
                self.work.append(record)
        return True

    def folded(self) -> ClusterRows:
        """The journal, applied from the beginning, or since the database was set back."""
        rows = self._begins_with.copy()
        for record in self.journal[self._begins_at :]:
            apply(rows, record)
        return rows

    def set_back(self, rows: ClusterRows, lift: int) -> None:
        """All of it is as in an earlier copy, lifted; whoever wrote since writes no more."""
        self.rows, self._begins_with, self._begins_at = rows, rows.copy(), len(self.journal)
        self.lease_epoch += lift
        self.work = []

    def is_fenced_in(self, lease_epoch: int) -> bool:
        return lease_epoch == self.lease_epoch


class Controller:
    """One owner of the controller's lease, or one that was the owner and does not know it yet."""

    def __init__(self, database: Database, settings: ControllerSettings, now: Instant) -> None:
        database.lease_epoch += 1
        self.epoch = database.lease_epoch
        self.database = database
        self.settings = settings
        self.links: dict[str, Link] = {}
        self.state = ClusterState(database.load(), Memory())
        self.deposed = False
        self.turn([TookOver(self.epoch)], now)

    def turn(self, events: Sequence[Event], now: Instant) -> None:
        """Decide, write, speak."""
        decision = decide(self.state, events, now, self.settings)
        rows = decision.state.rows
        leaderless = Counter(row.topic_id for row in rows.partitions.values() if row.leader == NO_LEADER)
        assert rows.leaderless == leaderless, "a hello would not look where it has to"
        if self.write(decision):
            self.state = decision.state
            self.speak(decision)

    def write(self, decision: ClusterDecision) -> bool:
        """One transaction; False: this is not the owner any more, and its links are closed."""
        if not decision.records or self.database.write(self.epoch, decision.records):
            return True
        self.deposed = True
        for link in self.links.values():
            link.close()
        return False

    def speak(self, decision: ClusterDecision) -> None:
        """Replies, then commands."""
        for saying in (*decision.replies, *decision.commands):
            addressed = self.links.get(str(saying.link))
            if addressed is not None and isinstance(saying, Say):
                addressed.say_to_broker(saying.frame)
            elif addressed is not None and isinstance(saying, HangUp):
                addressed.close()

    def operate(self, change: Callable[[Draft], None], now: Instant) -> None:
        """A turn of an operator's tool that the product does not have yet, by the same draft and frames."""
        draft = Draft(self.state, now, self.settings)
        change(draft)
        changes = draft.partition_changes()
        records = draft.records(changes)
        if not records or not self.database.write(self.epoch, records):
            return
        turn = draft.turn_changes(changes)
        self.state = ClusterState(after_records(self.state.rows, records), self.state.memory)
        for broker_id, session in self.state.memory.sessions.items():
            bound = self.links.get(str(session.link))
            for frame in frames_for([broker_id], turn)[broker_id]:
                if bound is not None:
                    bound.say_to_broker(frame)

    def read(self, links: Sequence[Link], now: Instant) -> None:
        """One turn for the next frame of each of `links`."""
        events: list[Event] = []
        for link in links:
            frame = link.next_for_controller()
            match frame:
                case None:
                    events.append(LinkClosed(link.link_id))
                case BrokerHello():
                    events.append(Hello(link.link_id, frame))
                case AlterPartition() | Leaving() | UnusableLogs() | LogEnds() | BrokerPing():
                    events.append(Heard(link.link_id, frame, UUID(int=0)))
                case _:
                    raise AssertionError(f"the simulation sends no {frame}")
        self.turn(events, now)


def compute(
    database: Database, settings: ControllerSettings, work: WorkOffered
) -> ProposalsReady | PlanComputed:
    """A worker computes from the rows as they are; its result is adopted later, or never fits any more."""

    if work.kind == COMPUTE_PLAN:
        return compute_plan(database.rows, UUID(work.key))
    cluster = database.rows.configs.get(EVERY_BROKER)
    levels = levels_of(cluster.configs if cluster else {}, settings)

    def policy(topic_id: UUID) -> Policy:
        return policy_of(database.rows.topics[topic_id].configs, levels)

    live = {b for b, row in database.rows.brokers.items() if row.live and not row.leaving}
    found = seats(database.rows.partitions.values())
    return ProposalsReady(
        "item", Task(work.kind), work.key, propose(Task(work.kind), work.key, found, live, policy)
    )
