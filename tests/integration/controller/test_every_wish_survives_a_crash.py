"""Whoever asks for something under a key hears one answer, and it is done once, wherever the owner dies.

Each kind of wish, with an owner that dies before its turn is written, or after it before anybody was told.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, get_args
from uuid import UUID, uuid4, uuid5

import msgspec
import pytest

from controller import asking, store
from controller.configuration import ServiceSettings
from controller.core import events as told
from controller.core.plan_rows import PlanStep
from controller.core.plans import COMPUTE_PLAN
from controller.core.requests import KEY, KIND, Asked
from controller.core.state import ClusterRows
from controller.enrolment import enroll
from controller.links import BrokerLink
from controller.subject import CLUSTER, Cluster
from muster.kernel.instants import Instant
from muster.messages.link import from_broker as ask
from muster.messages.link import plans
from muster.messages.link.brokers import CordonBroker, UnregisterBroker
from muster.messages.link.configs import AlterConfigs, AlteredConfigs, Change, ConfigChange, ResourceType
from muster.messages.link.losses import AcknowledgeLosses, NamedLoss
from muster.messages.link.protocol import LINK_PROTOCOL
from muster.messages.link.quotas import (
    AlterClientQuotas,
    DescribeClientQuotas,
    QuotaAlteration,
    QuotaOperation,
)
from muster.messages.link.rows import BrokerRow, TopicRow
from runtime import cluster, requests
from runtime.ports import VersionConflict
from runtime.postgres import LaneConnection
from runtime.requests import NewRequest
from tests.integration.controller.test_a_request_is_answered_by_its_turn import Node

NOW = Instant(1_000)
SPACE = UUID(int=5)
WISHES = get_args(ask.Wish)


@pytest.fixture
def connection(fresh_database: str) -> Iterator[LaneConnection]:
    with LaneConnection.connect(fresh_database, autocommit=True) as connection:
        with connection.transaction():
            cluster.initialise(connection, uuid4(), ["controller"])
            for b in (1, 2, 3):
                enroll(connection, b, "a secret", rotate=False)
        yield connection


class Owner:
    """One owner of the controller's lane; 1 and 2 live, 3 has stopped. It dies when it is thrown away."""

    def __init__(self, connection: LaneConnection) -> None:
        self._connection = connection
        self._subject = Cluster(Node(connection), ServiceSettings().core)  # type: ignore[arg-type]
        rows = store.load(connection)
        for b in (1, 2):
            rows.brokers[b] = BrokerRow(b, 1, str(SPACE), {})
        if _knows(connection, 3):
            rows.brokers[3] = BrokerRow(3, 1, str(SPACE), {}, live=False)
        state, revived = self._subject.revive(CLUSTER, rows, Instant(0))
        with connection.transaction():
            store.save(connection, rows, revived.records)
        self._subject.settle(CLUSTER, state, revived)
        assert self._subject.memory is not None
        for session in self._subject.memory.sessions.values():
            session.protocol = LINK_PROTOCOL

    @property
    def rows(self) -> ClusterRows:
        state = self._subject.cached(CLUSTER)
        assert state is not None
        return state.rows

    def waiting(self) -> list[told.Event]:
        """What the desk hands in; ids follow from the request, so that two runs can be compared."""
        return [
            told.Heard(
                told.RequestSeat(row.id, row.principal, row.reason),
                msgspec.convert(row.payload, Asked, str_keys=True).wish,
                uuid5(SPACE, str(row.payload)),
                # No group reads anything here: so it was found, before the turn.
                (),
            )
            for row in requests.ready(self._connection, KIND, [KEY])
        ]

    def finished(self, kind: str) -> str:
        """A worker has done the work item of this kind; its id."""
        done = "UPDATE work_item SET state = 'done', payload = '[]' WHERE kind = %s RETURNING id::text"
        [(item_id,)] = self._connection.execute(done, (kind,)).fetchall()
        return str(item_id)

    def takes_a_turn(self, events: list[told.Event], *, dies: bool = False) -> None:
        """Decide and write, and say nothing to anybody; `dies` before the commit."""
        state = self._subject.cached(CLUSTER)
        assert state is not None
        decision = self._subject.decide(CLUSTER, state, events, NOW)
        with self._connection.transaction(force_rollback=dies):
            store.save(self._connection, state.rows, decision.records)
        if not dies:
            self._subject.settle(CLUSTER, state, decision)


def _knows(connection: LaneConnection, broker_id: int) -> bool:
    """Whether the broker is one of this cluster."""
    return bool(connection.execute("SELECT 1 FROM broker WHERE broker_id = %s", (broker_id,)).fetchall())


class Asker:
    """Somebody who asks for a wish under a key, and asks again for the same."""

    def __init__(self, connection: LaneConnection) -> None:
        self._connection = connection

    def ask(self, wish: Any, key: str | None = None) -> str:
        row = NewRequest(KIND, "controller", KEY, "mira", "we test", Asked(wish), key)
        with self._connection.cursor() as cursor:
            return requests.store(cursor, row)

    def answer(self, request_id: str) -> Any:
        """None: there is none."""
        found = requests.answers(self._connection, [request_id])
        return asking._answer(found[0].answer) if found else None


def made(connection: LaneConnection, *wishes: Any) -> Owner:
    """An owner that has carried out these wishes."""
    owner = Owner(connection)
    for wish in wishes:
        Asker(connection).ask(wish)
        owner.takes_a_turn(owner.waiting())
    return owner


def topic(owner: Owner) -> TopicRow:
    [row] = owner.rows.topics.values()
    return row


def planned(owner: Owner) -> UUID:
    """A plan that was computed: a draft."""
    [plan_id] = owner.rows.plans.plans
    row = owner.rows.partitions[topic(owner).topic_id, 0]
    step = PlanStep(0, row.topic_id, "orders", 0, row.version, row.assigned, (2,))
    parts = (msgspec.json.encode([step]).decode(),)
    owner.takes_a_turn([told.PlanComputed(owner.finished(COMPUTE_PLAN), plan_id, parts, {})])
    return plan_id


def lossy(owner: Owner) -> AcknowledgeLosses:
    """Broker 1 alone held everything, and came back without its tail: it leads what may have lost records."""
    memory = owner._subject.memory
    assert memory is not None
    del memory.sessions[1]
    hello = ask.BrokerHello(
        broker_id=1,
        incarnation=str(uuid5(SPACE, "again")),
        endpoints={},
        lost_tail=True,
        protocol=LINK_PROTOCOL,
    )
    owner.takes_a_turn([told.Hello(BrokerLink(1, "127.0.0.1"), hello)])
    epoch = owner.rows.partitions[topic(owner).topic_id, 0].leader_epoch
    return AcknowledgeLosses(losses=(NamedLoss(topic="orders", partition=0, leader_epoch=epoch),))


ORDERS = ask.CreateTopics(topics=(ask.NewTopic(name="orders", assignments={0: (1,), 1: (1,)}),), timeout_ms=0)
MOVE = ask.AlterReassignments(partitions=(ask.WantedReplicas(topic="orders", partition=0, replicas=(2,)),))
ELECTED = ask.ElectLeaders(correlation_id=0, partitions=(("orders", 0),), unclean=True)
QUOTA = AlterClientQuotas(
    alterations=(QuotaAlteration((("user", "ann"),), (QuotaOperation("producer_byte_rate", 9.0),)),)
)
PROPOSED = plans.ProposePlan(options=plans.PlanOptions(kind=plans.PlanKind.DRAIN, brokers=(1,)))


@dataclass(frozen=True)
class Case:
    """What was asked for before, and the wish itself, for the owner that did it."""

    before: tuple[Any, ...]
    wish: Callable[[Owner], Any]


def _of_plan(kind: Any, *earlier: Any, **told_of_it: Any) -> Case:
    def wish(owner: Owner) -> Any:
        plan_id = planned(owner)
        for one in earlier:
            Asker(owner._connection).ask(one(plan_id=plan_id, principal="ann"))
            owner.takes_a_turn(owner.waiting())
        return kind(plan_id=plan_id, principal="ben", **told_of_it)

    return Case((ORDERS, PROPOSED), wish)


CASES: dict[Any, Case] = {
    ask.CreateTopics: Case((), lambda _: ORDERS),
    ask.DeleteTopics: Case(
        (ORDERS, MOVE), lambda _: ask.DeleteTopics(topics=(ask.NamedTopic(name="orders"),))
    ),
    ask.CreatePartitions: Case(
        (ORDERS,),
        lambda _: ask.CreatePartitions(
            topics=(ask.GrownTopic(name="orders", partition_count=3),), timeout_ms=0
        ),
    ),
    ask.RemovePartitions: Case(
        (ORDERS, MOVE), lambda _: ask.RemovePartitions(topic="orders", partition_count=1)
    ),
    ask.AlterReassignments: Case((ORDERS,), lambda _: MOVE),
    ask.ListReassignments: Case((ORDERS, MOVE), lambda _: ask.ListReassignments()),
    ask.ElectLeaders: Case((ORDERS,), lambda _: ELECTED),
    ask.AllocateProducerIds: Case((), lambda _: ask.AllocateProducerIds()),
    AlterConfigs: Case(
        (ORDERS,),
        lambda _: AlterConfigs(
            resources=(
                AlteredConfigs(
                    type=ResourceType.TOPIC,
                    name="orders",
                    changes=(ConfigChange("retention.ms", Change.SET, "1000"),),
                ),
            )
        ),
    ),
    plans.ProposePlan: Case((ORDERS,), lambda _: PROPOSED),
    plans.ApprovePlan: _of_plan(plans.ApprovePlan),
    plans.RunPlan: _of_plan(plans.RunPlan, plans.ApprovePlan),
    plans.PausePlan: _of_plan(plans.PausePlan, plans.ApprovePlan, plans.RunPlan),
    plans.CancelPlan: _of_plan(plans.CancelPlan, plans.ApprovePlan, plans.RunPlan, moves=True),
    plans.ThrottlePlan: _of_plan(plans.ThrottlePlan, plans.ApprovePlan, plans.RunPlan, throttle=9),
    AlterClientQuotas: Case((), lambda _: QUOTA),
    DescribeClientQuotas: Case((QUOTA,), lambda _: DescribeClientQuotas()),
    CordonBroker: Case((), lambda _: CordonBroker(broker_id=3, cordoned=True)),
    UnregisterBroker: Case((), lambda _: UnregisterBroker(broker_id=3)),
    AcknowledgeLosses: Case((ORDERS, ELECTED), lossy),
}


def errors(answer: Any) -> list[int]:
    """Every error that an answer tells, however deep."""
    if isinstance(answer, dict):
        own = [answer["error"]] if "error" in answer else []
        return own + [error for one in answer.values() for error in errors(one)]
    if isinstance(answer, list | tuple):
        return [error for one in answer for error in errors(one)]
    return []


def content(connection: LaneConnection) -> tuple[object, ...]:
    """Everything that is stored but for its versions, which a takeover may raise."""
    rows = store.load(connection)
    return (
        rows.next_producer_id,
        connection.execute("SELECT broker_id, cordoned FROM broker ORDER BY broker_id").fetchall(),
        {row.name: (row.partition_count, row.configs) for row in rows.topics.values()},
        {row.key: (row.assigned, row.leader, row.isr, row.adding) for row in rows.partitions.values()},
        {key: (one.target, one.phase) for key, one in rows.reassignments.items()},
        {plan_id: (one.phase, one.throttle) for plan_id, one in rows.plans.plans.items()},
        {key: (row.producer_byte_rate, row.consumer_byte_rate) for key, row in rows.quotas.items()},
        {key[1:]: row.acknowledged for key, row in rows.losses.items()},
    )


def test_every_wish_has_its_case() -> None:
    assert CASES.keys() == set(WISHES)


@pytest.mark.parametrize("kind", WISHES, ids=lambda kind: kind.__name__)
def test_a_death_before_the_commit_leaves_nothing_and_the_next_owner_answers(
    connection: LaneConnection, kind: Any
) -> None:
    first, asker = made(connection, *CASES[kind].before), Asker(connection)
    wish = CASES[kind].wish(first)
    before = content(connection)
    request_id = asker.ask(wish, "a key")
    first.takes_a_turn(first.waiting(), dies=True)
    assert content(connection) == before and asker.answer(request_id) is None
    assert asker.ask(wish, "a key") == request_id

    second = Owner(connection)
    [event] = second.waiting()
    second.takes_a_turn([event])
    answer = msgspec.to_builtins(asker.answer(request_id))
    assert not any(errors(answer)), answer
    assert asker.ask(wish, "a key") == request_id
    assert second.waiting() == []


@pytest.mark.parametrize("kind", WISHES, ids=lambda kind: kind.__name__)
def test_a_death_after_the_commit_changes_neither_what_is_true_nor_the_answer(
    connection: LaneConnection, kind: Any
) -> None:
    first, asker = made(connection, *CASES[kind].before), Asker(connection)
    wish = CASES[kind].wish(first)
    request_id = asker.ask(wish, "a key")
    [event] = first.waiting()
    first.takes_a_turn([event])
    after, answer = content(connection), asker.answer(request_id)
    assert answer is not None and not any(errors(msgspec.to_builtins(answer))), answer

    second = Owner(connection)
    assert second.waiting() == []
    assert asker.ask(wish, "a key") == request_id
    assert asker.answer(request_id) == answer and content(connection) == after
    with pytest.raises(VersionConflict):
        second.takes_a_turn([event])
    assert asker.answer(request_id) == answer and content(connection) == after
