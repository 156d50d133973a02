"""A request for moves that takes several turns is carried out once, and answered as it went, whoever dies."""

from collections.abc import Iterator
from dataclasses import replace
from uuid import uuid4

import msgspec
import pytest

from controller import store
from controller.configuration import ServiceSettings
from controller.core import events as told
from controller.core.requests import KEY, KIND, Asked
from controller.core.state import ClusterRows
from controller.enrolment import enroll
from controller.service import heard_from
from controller.subject import CLUSTER, Cluster
from muster.kernel.error_codes import ErrorCode
from muster.kernel.instants import Instant
from muster.messages.link.from_broker import AlterReassignments, CreateTopics, NewTopic, WantedReplicas, Wish
from muster.messages.link.rows import BrokerRow
from muster.messages.link.to_broker import ReassignmentResults
from runtime import cluster, requests
from runtime.postgres import LaneConnection
from runtime.requests import NewRequest, NotWaiting
from tests.integration.controller.test_a_request_is_answered_by_its_turn import Node

NOW = Instant(1_000)
TWO_A_TURN = replace(ServiceSettings().core, max_altered_in_a_turn=2)
OTHERS, OTHERS_AGAIN = (2,), (3,)


@pytest.fixture
def connection(fresh_database: str) -> Iterator[LaneConnection]:
    with LaneConnection.connect(fresh_database, autocommit=True) as connection:
        with connection.transaction():
            cluster.initialise(connection, uuid4(), ["controller"])
            for b in (1, 2, 3):
                enroll(connection, b, "a secret", rotate=False)
        topic = NewTopic(name="orders", assignments=dict.fromkeys(range(5), (1,)))
        asked(connection, CreateTopics(topics=(topic,), timeout_ms=0))
        owner = Owner(connection)
        owner.takes_a_turn(owner.waiting())
        yield connection


class Owner:
    """One owner of the controller's lane, with live brokers; it dies when it is thrown away."""

    def __init__(self, connection: LaneConnection) -> None:
        self._connection = connection
        self._subject = Cluster(Node(connection), TWO_A_TURN)  # type: ignore[arg-type]
        rows = store.load(connection)
        for b in (1, 2, 3):
            rows.brokers[b] = BrokerRow(b, 1, "a", {})
        state, revived = self._subject.revive(CLUSTER, rows, Instant(0))
        with connection.transaction():
            store.save(connection, rows, revived.records)
        self._subject.settle(CLUSTER, state, revived)

    @property
    def rows(self) -> ClusterRows:
        state = self._subject.cached(CLUSTER)
        assert state is not None
        return state.rows

    def waiting(self) -> list[told.Heard]:
        """What the desk hands in."""
        return [heard_from(row) for row in requests.ready(self._connection, KIND, [KEY])]

    def takes_a_turn(self, events: list[told.Heard]) -> None:
        """Decide and write, as a lane does."""
        state = self._subject.cached(CLUSTER)
        assert state is not None
        decision = self._subject.decide(CLUSTER, state, events, NOW)
        with self._connection.transaction():
            self._subject.store.save(self._connection, CLUSTER, state.rows, decision.records)
        self._subject.settle(CLUSTER, state, decision)

    def ends_all(self) -> None:
        memory = self._subject.memory
        assert memory is not None
        while memory.altering:
            self.takes_a_turn([])
            memory = self._subject.memory
            assert memory is not None


def asked(connection: LaneConnection, wish: Wish) -> str:
    row = NewRequest(KIND, "controller", KEY, "mira", "we test", Asked(wish))
    with connection.cursor() as cursor:
        return requests.store(cursor, row)


def moved(*partitions: int, replicas: tuple[int, ...] | None) -> AlterReassignments:
    wanted = (WantedReplicas(topic="orders", partition=one, replicas=replicas) for one in partitions)
    return AlterReassignments(partitions=tuple(wanted))


def errors(connection: LaneConnection, request_id: str) -> list[ErrorCode]:
    (row,) = requests.answers(connection, [request_id])
    return [one.error for one in msgspec.convert(row.answer, ReassignmentResults).results]


def test_what_one_owner_has_cancelled_the_next_does_not_refuse(connection: LaneConnection) -> None:
    asked(connection, moved(*range(5), replicas=OTHERS))
    first = Owner(connection)
    first.takes_a_turn(first.waiting())
    first.ends_all()
    cancelled = asked(connection, moved(*range(5), replicas=None))
    first.takes_a_turn(first.waiting())
    second = Owner(connection)
    second.takes_a_turn(second.waiting())
    second.ends_all()
    assert errors(connection, cancelled) == [ErrorCode.NONE] * 5
    assert not second.rows.reassignments


def test_what_one_owner_has_asked_for_the_next_does_not_ask_for_again(connection: LaneConnection) -> None:
    """Somebody else may have wanted something else of it since."""
    long = asked(connection, moved(*range(5), replicas=OTHERS))
    first = Owner(connection)
    first.takes_a_turn(first.waiting())
    second = Owner(connection)
    asked(connection, moved(0, replicas=OTHERS_AGAIN))
    second.takes_a_turn(second.waiting()[1:])
    second.takes_a_turn(second.waiting())
    second.ends_all()
    assert errors(connection, long) == [ErrorCode.NONE] * 5
    targets = {one.partition: one.target for one in second.rows.reassignments.values()}
    assert targets == {0: OTHERS_AGAIN, **dict.fromkeys(range(1, 5), OTHERS)}


def test_of_what_was_withdrawn_nothing_more_is_done(connection: LaneConnection) -> None:
    long = asked(connection, moved(*range(5), replicas=OTHERS))
    owner = Owner(connection)
    owner.takes_a_turn(owner.waiting())
    requests.give_up(connection, long, "Nobody waits")
    with pytest.raises(NotWaiting):
        owner.takes_a_turn([])
    owner.takes_a_turn([])
    assert sorted(one.partition for one in owner.rows.reassignments.values()) == [0, 1]
