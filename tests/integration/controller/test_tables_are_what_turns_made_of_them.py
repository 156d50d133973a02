"""Whatever is asked in one turn, in any order: it is written at once, and what is loaded is what was decided.

Hellos, silence, results of workers and every wish that changes rows, by seeded chance. A turn
that conflicts with itself would be decided again, event by event, and each conflict reads the cluster anew.
"""

import random
from collections.abc import Iterator
from typing import Any
from uuid import UUID, uuid4

import msgspec
import pytest

from controller import store
from controller.core import events as told
from controller.core.draft import ClusterDecision, Draft
from controller.core.plan_rows import PlanPhase
from controller.core.plans import COMPUTE_PLAN
from controller.core.proposals import StoredBroker, StoredPartition
from controller.core.proposals import propose as compute
from controller.core.proposing import Task, propose
from controller.core.records import BrokerUnregistered, WorkOffered
from controller.core.settings import ControllerSettings
from controller.core.state import ClusterState
from controller.core.turn import decide
from controller.enrolment import enroll
from muster.kernel.instants import Instant
from muster.messages.link import from_broker as ask
from muster.messages.link.brokers import CordonBroker, UnregisterBroker
from muster.messages.link.configs import AlterConfigs, AlteredConfigs, Change, ConfigChange, ResourceType
from muster.messages.link.losses import AcknowledgeLosses, LossReport, NamedLoss
from muster.messages.link.plans import (
    ApprovePlan,
    CancelPlan,
    PausePlan,
    PlanKind,
    PlannedMove,
    PlanOptions,
    ProposePlan,
    RunPlan,
    ThrottlePlan,
)
from muster.messages.link.protocol import LINK_PROTOCOL
from muster.messages.link.quotas import AlterClientQuotas, QuotaAlteration, QuotaOperation
from muster.messages.link.rows import PartitionRow
from runtime import cluster
from runtime.postgres import LaneConnection
from tests.unit.messages.made_rows import seats

BROKERS = (1, 2, 3, 4)
NAMES = ("orders", "clicks", "click.s", "click_s")
SETTINGS = ControllerSettings(max_reassignments=3, max_reassignments_per_broker=2)
TURNS = 60


@pytest.fixture
def connection(fresh_database: str) -> Iterator[LaneConnection]:
    with LaneConnection.connect(fresh_database, autocommit=True) as connection:
        with connection.transaction():
            cluster.initialise(connection, uuid4(), ["controller"])
            for broker_id in BROKERS:
                enroll(connection, broker_id, "a secret", rotate=False)
        yield connection


class Chance:
    """One controller, whose turns are written, and everything that may happen to it."""

    def __init__(self, connection: LaneConnection, seed: int) -> None:
        self.dice = random.Random(seed)
        self.connection = connection
        self.now = Instant(1_000)
        self.state = ClusterState(store.load(connection))
        self.offered: dict[str, WorkOffered] = {}
        self._runs = dict.fromkeys(BROKERS, 0)
        self.turn([told.TookOver(1)])

    # ------------------------------------------------------------------------------ turns

    def turn(self, events: list[told.Event]) -> ClusterDecision:
        """Decide and write; then what is loaded is what is remembered."""
        decision = decide(self.state, events, self.now, SETTINGS)
        with self.connection.transaction():
            store.save(self.connection, self.state.rows, decision.records)
        self.state = decision.state
        for record in decision.records:
            if isinstance(record, WorkOffered):
                self.offered[f"{record.kind} {record.key}"] = record
            elif isinstance(record, BrokerUnregistered):
                # Its secret is gone with it; an operator wants it back.
                enroll(self.connection, record.broker_id, "another secret", rotate=False)
        loaded = store.load(self.connection)
        # What differs is told by its name first.
        for part in ("brokers", "topics", "configs", "reassignments", "quotas"):
            assert getattr(loaded, part) == getattr(self.state.rows, part), part
        assert loaded == self.state.rows, "partitions or plans are not what the turn made of them"
        return decision

    def anything(self) -> list[told.Event]:
        """One to six events of one turn."""
        self.now = Instant(self.now + self.dice.choice((1, 50, 2_000)))
        if self.dice.random() < 0.03:
            # A new owner knows only the rows.
            self.state = ClusterState(store.load(self.connection))
            return [told.TookOver(self.state.rows.metadata_version)]
        kinds = (
            self.hello, self.hello, self.hello, self.link_closes, self.worker, self.worker, self.worker,
            self.creates, self.creates, self.deletes, self.grows, self.moves, self.moves, self.elects,
            self.configures, self.sets_quotas, self.cordons, self.unregisters, self.leaves, self.isr,
            self.isr, self.plans, self.plans, self.fails, self.removes, self.knows_losses,
        )  # fmt: skip
        made = (self.dice.choice(kinds)() for _ in range(self.dice.randint(1, 6)))
        return [event for event in made if event is not None]

    # ------------------------------------------------------------------------------ brokers

    def hello(self) -> told.Event:
        broker_id = self.dice.choice(BROKERS)
        self._runs[broker_id] += self.dice.random() < 0.3
        run = str(UUID(int=1_000 * broker_id + self._runs[broker_id]))
        frame = ask.BrokerHello(
            broker_id=broker_id, incarnation=run, endpoints={}, rack=f"r{broker_id % 2}",
            lost_tail=self.dice.random() < 0.1, leaving=self.dice.random() < 0.1,
        )  # fmt: skip
        return told.Hello((broker_id, self.dice.random()), frame)

    def link_closes(self) -> told.Event | None:
        links = [one.link for one in self.state.memory.sessions.values() if one.link is not None]
        return told.LinkClosed(self.dice.choice(links)) if links else None

    def leaves(self) -> told.Event | None:
        return self.says(ask.Leaving())

    def fails(self) -> told.Event | None:
        row = self.partition()
        keys = () if row is None else (row.key,)
        usable = self.dice.random() < 0.5
        return self.says(ask.UnusableLogs(failed=() if usable else keys, usable=keys if usable else ()))

    def isr(self) -> told.Event | None:
        row = self.partition()
        session = self.state.memory.sessions.get(row.leader) if row is not None else None
        if row is None or session is None or session.link is None:
            return None
        wanted = {row.leader, *self.dice.sample(row.assigned, self.dice.randint(0, len(row.assigned)))}
        epochs = {b: one.broker_epoch for b, one in self.state.rows.brokers.items()}
        proposal = ask.IsrProposal(
            topic_id=row.topic_id, partition=row.partition, base_version=row.version,
            isr=tuple(b for b in row.assigned if b in wanted), broker_epochs=epochs,
        )  # fmt: skip
        return told.Heard(session.link, ask.AlterPartition(proposals=(proposal,)), self.fresh())

    # ------------------------------------------------------------------------------ workers

    def worker(self) -> told.Event | None:
        """A worker has computed what was offered, from the rows as they are by now, or once were."""
        if not self.offered:
            return None
        offered = self.offered.pop(self.dice.choice(sorted(self.offered)))
        item_id = self._finished(offered)
        if item_id is None:
            return None
        if offered.kind == COMPUTE_PLAN:
            return self._plan(item_id, UUID(offered.key))
        found = seats(self.state.rows.partitions.values())
        live = {b for b, row in self.state.rows.brokers.items() if row.live}
        policy = Draft(self.state, self.now, SETTINGS).policy
        proposals = propose(Task(offered.kind), offered.key, found, live, policy)
        return told.ProposalsReady(item_id, Task(offered.kind), offered.key, proposals)

    def _finished(self, offered: WorkOffered) -> str | None:
        done = "UPDATE work_item SET state = 'done' WHERE kind = %s AND key = %s AND state = 'due'"
        found = self.connection.execute(f"{done} RETURNING id::text", (offered.kind, offered.key)).fetchall()
        return found[-1][0] if found else None

    def _plan(self, item_id: str, plan_id: UUID) -> told.Event | None:
        rows = self.state.rows
        plan = rows.plans.plans.get(plan_id)
        if plan is None:
            return told.PlanComputed(item_id, plan_id, failure="it is no more")
        proposal = compute(
            plan.options,
            plan.throttle,
            [StoredBroker(b, one.rack, one.live, one.cordoned) for b, one in rows.brokers.items()],
            {topic_id: one.name for topic_id, one in rows.topics.items()},
            [
                StoredPartition(
                    one.topic_id, one.partition, one.assigned, one.leader, one.isr, one.version, 10,
                    one.key in rows.reassignments,
                )
                for one in rows.partitions.values()
            ],
        )  # fmt: skip
        if proposal.cost is None:
            return told.PlanComputed(item_id, plan_id, failure=proposal.failure)
        parts = (msgspec.json.encode(proposal.steps).decode(),)
        cost = msgspec.json.decode(msgspec.json.encode(proposal.cost))
        return told.PlanComputed(item_id, plan_id, parts, cost)

    # ------------------------------------------------------------------------------ wishes

    def creates(self) -> told.Event | None:
        count, factor = self.dice.randint(1, 3), self.dice.randint(1, 3)
        configs: dict[str, str | None] = {"min.insync.replicas": str(self.dice.randint(1, 2))}
        if self.dice.random() < 0.3:
            configs["unclean.leader.election.enable"] = "true"
        new = ask.NewTopic(
            name=self.dice.choice(NAMES), partition_count=count, replication_factor=factor, configs=configs
        )
        return self.wish(ask.CreateTopics(topics=(new,), timeout_ms=100))

    def deletes(self) -> told.Event | None:
        return self.wish(ask.DeleteTopics(topics=(ask.NamedTopic(name=self.dice.choice(NAMES)),)))

    def grows(self) -> told.Event | None:
        grown = ask.GrownTopic(name=self.dice.choice(NAMES), partition_count=self.dice.randint(2, 6))
        return self.wish(ask.CreatePartitions(topics=(grown,), timeout_ms=100))

    def removes(self) -> told.Event | None:
        for session in self.state.memory.sessions.values():
            # No broker is too old for it.
            session.protocol = LINK_PROTOCOL
        name, count = self.dice.choice(NAMES), self.dice.randint(1, 3)
        return self.wish(ask.RemovePartitions(topic=name, partition_count=count, force=True))

    def knows_losses(self) -> told.Event | None:
        """Somebody tells of one, or has seen it."""
        if not (losses := list(self.state.rows.losses.values())):
            return None
        one = self.dice.choice(losses)
        if self.dice.random() < 0.5:
            named = NamedLoss(topic=one.topic, partition=one.partition, leader_epoch=one.leader_epoch)
            return self.wish(AcknowledgeLosses(losses=(named,)))
        report = LossReport(one.topic_id, one.partition, one.leader_epoch, 9, 5, 5, 40)
        return self.says(ask.BrokerPing(number=1, metadata_version=1, losses=(report,)))

    def moves(self) -> told.Event | None:
        row = self.partition()
        if row is None:
            return None
        to = tuple(self.dice.sample(BROKERS, self.dice.randint(1, 3))) if self.dice.random() < 0.8 else None
        wanted = ask.WantedReplicas(
            topic=self.state.rows.topics[row.topic_id].name, partition=row.partition, replicas=to
        )
        return self.wish(ask.AlterReassignments(partitions=(wanted,), throttle=self.dice.choice((0, 2**53))))

    def elects(self) -> told.Event | None:
        return self.wish(ask.ElectLeaders(correlation_id=1, unclean=self.dice.random() < 0.3))

    def configures(self) -> told.Event | None:
        kind, name = self.dice.choice(
            (
                (ResourceType.TOPIC, self.dice.choice(NAMES)),
                (ResourceType.BROKER, ""),
                (ResourceType.BROKER, "1"),
            )
        )
        key = {ResourceType.TOPIC: "retention.ms", ResourceType.BROKER: "log.retention.ms"}[kind]
        if name == "" and self.dice.random() < 0.3:
            key, value = "unclean.leader.election.enable", "true"
        else:
            value = str(self.dice.randint(1, 3))
        change = ConfigChange(key, self.dice.choice((Change.SET, Change.DELETE)), value)
        return self.wish(AlterConfigs(resources=(AlteredConfigs(type=kind, name=name, changes=(change,)),)))

    def sets_quotas(self) -> told.Event | None:
        rate = self.dice.choice((None, 1.0, 2.0))
        whom = self.dice.choice(((("user", "ann"),), (("user", None), ("client-id", "b"))))
        return self.wish(
            AlterClientQuotas(
                alterations=(QuotaAlteration(whom, (QuotaOperation("producer_byte_rate", rate),)),)
            )
        )

    def cordons(self) -> told.Event | None:
        return self.wish(CordonBroker(broker_id=self.dice.choice(BROKERS), cordoned=self.dice.random() < 0.4))

    def unregisters(self) -> told.Event | None:
        return self.wish(UnregisterBroker(broker_id=self.dice.choice(BROKERS)))

    def plans(self) -> told.Event | None:
        open_plans = [one for one in self.state.rows.plans.plans.values() if not one.phase.is_over]
        if not open_plans or self.dice.random() < 0.2:
            return self.wish(ProposePlan(options=self.options(), at_a_time=self.dice.choice((0, 1, 2))))
        plan = self.dice.choice(open_plans)
        drafted = plan.phase is PlanPhase.DRAFT
        change = ApprovePlan if drafted else self.dice.choice((RunPlan, RunPlan, RunPlan, PausePlan))
        if self.dice.random() < 0.15:
            return self.wish(CancelPlan(plan_id=plan.id, moves=self.dice.random() < 0.5))
        if self.dice.random() < 0.15:
            return self.wish(ThrottlePlan(plan_id=plan.id, throttle=self.dice.choice((0, 1, 2**53))))
        return self.wish(change(plan_id=plan.id))

    def options(self) -> PlanOptions:
        row = self.partition()
        kinds = [PlanKind.SPREAD, PlanKind.DRAIN, PlanKind.REPLICATION_FACTOR]
        kind = self.dice.choice([*kinds, PlanKind.EXPLICIT] if row is not None else kinds)
        moves: tuple[PlannedMove, ...] = ()
        if kind is PlanKind.EXPLICIT and row is not None:
            to = tuple(self.dice.sample(BROKERS, 2))
            name = self.state.rows.topics[row.topic_id].name
            moves = (PlannedMove(topic=name, partition=row.partition, replicas=to),)
        brokers = (self.dice.choice(BROKERS),) if kind is PlanKind.DRAIN else ()
        return PlanOptions(
            kind=kind, brokers=brokers, replication_factor=self.dice.randint(1, 3), partitions=moves
        )

    # ------------------------------------------------------------------------------ what they share

    def wish(self, frame: Any) -> told.Event | None:
        return self.says(frame)

    def says(self, frame: Any) -> told.Event | None:
        """By the link of any broker that is bound."""
        links = [one.link for one in self.state.memory.sessions.values() if one.link is not None]
        return told.Heard(self.dice.choice(links), frame, self.fresh()) if links else None

    def partition(self) -> PartitionRow | None:
        rows = list(self.state.rows.partitions.values())
        return self.dice.choice(rows) if rows else None

    def fresh(self) -> UUID:
        return UUID(int=self.dice.getrandbits(128))


@pytest.mark.parametrize("seed", range(4))
def test_every_turn_is_written_as_it_was_decided(connection: LaneConnection, seed: int) -> None:
    chance = Chance(connection, seed)
    for _ in range(TURNS):
        chance.turn(chance.anything())
