"""A wish that stands in a row is carried out and answered by one transaction, and once, whoever dies."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import msgspec
import pytest
from structlog.testing import capture_logs

from controller import asking, store
from controller.asking import Asking, NoAnswer
from controller.configuration import ServiceSettings
from controller.core import events as told
from controller.core.requests import KEY, KIND, Asked
from controller.enrolment import enroll
from controller.subject import CLUSTER, Cluster
from muster.kernel.error_codes import ErrorCode
from muster.kernel.instants import Instant
from muster.messages.link.from_broker import (
    AlterReassignments,
    CreateTopics,
    DeleteTopics,
    NamedTopic,
    NewTopic,
    WantedReplicas,
    Wish,
)
from muster.messages.link.rows import BrokerRow
from muster.messages.link.to_broker import CreateTopicsAnswer, ReassignmentResults, TopicResults
from runtime import cluster, requests
from runtime.ports import ConnectionLost, VersionConflict
from runtime.postgres import LaneConnection, PostgresLink
from runtime.requests import AnotherAsked, NewRequest, NotWaiting

PLACED = CreateTopics(
    topics=(NewTopic(name="flights", assignments={0: (1,), 1: (1,)}, configs={"retention.ms": "1000"}),),
    timeout_ms=0,
)
DELETED = DeleteTopics(topics=(NamedTopic(name="orders"),))


class Node:
    """A node whose questions run on one connection; it does not tick, and hears its own wake-ups."""

    frozen = False

    def __init__(self, connection: LaneConnection) -> None:
        self.connection = connection
        self.woken: list[str] = []

    def now(self) -> Instant:
        return Instant(1_000)

    def wake(self, name: str, key: str = "") -> None:
        self.woken.append(name)

    async def query(self, function: Callable[[Any], Any]) -> Any:
        with self.connection.transaction():
            return function(self.connection)


@pytest.fixture
def connection(fresh_database: str) -> Iterator[LaneConnection]:
    with LaneConnection.connect(fresh_database, autocommit=True) as connection:
        with connection.transaction():
            cluster.initialise(connection, uuid4(), ["controller"])
            enroll(connection, 1, "a secret", rotate=False)
        yield connection


class Owner:
    """One owner of the controller's lane, with a live broker 1."""

    def __init__(self, connection: LaneConnection) -> None:
        self._connection = connection
        self.late: list[str] = []
        node: Any = Node(connection)
        self._subject = Cluster(node, ServiceSettings().core, late=self.late.append)
        rows = store.load(connection)
        rows.brokers[1] = BrokerRow(1, 1, "a", {})
        state, revived = self._subject.revive(CLUSTER, rows, Instant(0))
        self._subject.settle(CLUSTER, state, revived)

    def waiting(self) -> list[told.Heard]:
        """What the desk hands in."""
        return [
            told.Heard(
                told.RequestSeat(row.id, row.principal, row.reason),
                msgspec.convert(row.payload, Asked, str_keys=True).wish,
                uuid4(),
            )
            for row in requests.ready(self._connection, KIND, [KEY])
        ]

    def asks(self, request_id: str) -> told.Heard:
        """The one of this id."""
        [event] = [one for one in self.waiting() if getattr(one.link, "id", None) == request_id]
        return event

    def takes_a_turn(self, events: list[told.Heard], *, dies: bool = False) -> None:
        """Decide and write, as a lane does; `dies` before the commit."""
        state = self._subject.cached(CLUSTER)
        assert state is not None
        decision = self._subject.decide(CLUSTER, state, events, Instant(1_000))
        with self._connection.transaction(force_rollback=dies):
            self._subject.store.save(self._connection, CLUSTER, state.rows, decision.records)
        if dies:
            return
        self._subject.settle(CLUSTER, state, decision)


def stored(
    connection: LaneConnection, wish: Wish, key: str | None = None, waits_s: float | None = None
) -> str:
    row = NewRequest(KIND, "controller", KEY, "mira", "we test", Asked(wish), key, waits_s=waits_s)
    with connection.cursor() as cursor:
        return requests.store(cursor, row)


def test_it_is_asked_again_until_its_turn_is_written_and_then_never(connection: LaneConnection) -> None:
    request_id = stored(connection, PLACED)
    first = Owner(connection)
    (event,) = first.waiting()
    first.takes_a_turn([event], dies=True)
    assert requests.answers(connection, [request_id]) == []
    second = Owner(connection)
    second.takes_a_turn(second.waiting())
    # Nobody has said anything yet, and never need: whoever looks finds the answer.
    (row,) = requests.answers(connection, [request_id])
    answer = msgspec.convert(row.answer, CreateTopicsAnswer)
    assert [(one.name, one.error, one.partition_count) for one in answer.topics] == [
        ("flights", ErrorCode.NONE, 2)
    ]
    assert Owner(connection).waiting() == []
    assert [topic.name for topic in store.load(connection).topics.values()] == ["flights"]
    with pytest.raises(VersionConflict):
        second.takes_a_turn([event])


def test_a_turn_of_several_goes_on_without_those_that_nobody_waits_for(connection: LaneConnection) -> None:
    """Each conflict reads the whole cluster anew: one is enough, however many were withdrawn."""
    withdrawn = [stored(connection, wish) for wish in (PLACED, DELETED)]
    clicks = NewTopic(name="clicks", assignments={0: (1,)})
    kept = stored(connection, CreateTopics(topics=(clicks,), timeout_ms=0))
    owner = Owner(connection)
    events = owner.waiting()
    for request_id in withdrawn:
        requests.give_up(connection, request_id, "Nobody waited")
    with pytest.raises(NotWaiting):
        owner.takes_a_turn(events)
    owner.takes_a_turn(events)
    assert [topic.name for topic in store.load(connection).topics.values()] == ["clicks"]
    found = {row.id: row.error for row in requests.answers(connection, [*withdrawn, kept])}
    assert found == {**dict.fromkeys(withdrawn, "Nobody waited"), kept: ""}


def test_every_wish_comes_out_of_its_row_as_it_went_in(connection: LaneConnection) -> None:
    moved = AlterReassignments(partitions=(WantedReplicas(topic="flights", partition=0, replicas=(1,)),))
    deleted = DeleteTopics(topics=(NamedTopic(topic_id=uuid4()),))
    for wish in (PLACED, moved, deleted):
        stored(connection, wish)
    owner = Owner(connection)
    assert [event.frame for event in owner.waiting()] == [PLACED, moved, deleted]
    owner.takes_a_turn(owner.waiting())
    assert Owner(connection).waiting() == []


def test_a_key_names_one_request(connection: LaneConnection) -> None:
    request_id = stored(connection, PLACED, "a-key")
    assert stored(connection, PLACED, "a-key") == request_id
    with pytest.raises(AnotherAsked):
        stored(connection, DeleteTopics(topics=(NamedTopic(name="flights"),)), "a-key")
    owner = Owner(connection)
    owner.takes_a_turn(owner.waiting())
    assert stored(connection, PLACED, "a-key") == request_id
    assert Owner(connection).waiting() == []


async def test_who_asks_from_a_loop_hears_the_answer(connection: LaneConnection) -> None:
    node = Node(connection)
    asker = Asking(node)  # type: ignore[arg-type]
    waiting = asyncio.create_task(asker.ask(PLACED, "mira", "we test", timeout_s=60))
    owner = Owner(connection)
    while not (events := owner.waiting()):
        await asyncio.sleep(0)
    while "due" not in node.woken:
        await asyncio.sleep(0)
    owner.takes_a_turn(events)
    asker.woken(asking.ANSWERED)
    async with asyncio.timeout(10):
        answer = await waiting
    assert isinstance(answer, CreateTopicsAnswer) and answer.topics[0].error is ErrorCode.NONE
    asker.stop()


async def test_what_nobody_decides_in_time_is_withdrawn(connection: LaneConnection) -> None:
    asker = Asking(Node(connection))  # type: ignore[arg-type]
    with pytest.raises(NoAnswer):
        await asker.ask(PLACED, "mira", "we test", timeout_s=0)
    async with asyncio.timeout(10):
        while asker._withdrawing or Owner(connection).waiting():
            await asyncio.sleep(0)
    assert Owner(connection).waiting() == []
    asker.stop()


class StandingStill(Node):
    """Whose database takes what it is asked only when it goes on."""

    def __init__(self, connection: LaneConnection) -> None:
        super().__init__(connection)
        self.asked: list[Callable[[], Any]] = []

    async def query(self, function: Callable[[Any], Any]) -> Any:
        self.asked.append(lambda: PostgresLink(self.connection).transaction(function))
        await asyncio.Event().wait()


@pytest.mark.parametrize("ends", ["its time is over", "it hangs up"])
async def test_what_was_given_up_before_it_was_stored_is_never_stored(
    connection: LaneConnection, ends: str
) -> None:
    """A topic is not deleted an hour later for whoever was told that nobody answers."""
    node = StandingStill(connection)
    asker = Asking(node)  # type: ignore[arg-type]
    timeout_s = 0 if ends == "its time is over" else 60
    asked = asyncio.create_task(asker.ask(DELETED, "mira", "we test", timeout_s))
    while not node.asked:
        await asyncio.sleep(0)
    if ends == "it hangs up":
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
    else:
        with pytest.raises(NoAnswer):
            await asked
    with pytest.raises(NoAnswer):
        node.asked[0]()
    assert Owner(connection).waiting() == []


async def test_what_is_given_up_while_it_is_stored_is_taken_back(
    connection: LaneConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = StandingStill(connection)
    asked = asyncio.create_task(Asking(node).ask(DELETED, "mira", "we test", 60))  # type: ignore[arg-type]
    while not node.asked:
        await asyncio.sleep(0)
    store, is_stored, goes_on = asking._store, threading.Event(), threading.Event()

    def store_where_the_server_stands_still(taker: Any, row: NewRequest) -> str:
        request_id = store(taker, row)
        is_stored.set()
        assert goes_on.wait(10)
        return request_id

    monkeypatch.setattr(asking, "_store", store_where_the_server_stands_still)
    storing = asyncio.create_task(asyncio.to_thread(node.asked[0]))
    assert await asyncio.to_thread(is_stored.wait, 10)
    asked.cancel()
    await asyncio.gather(asked, return_exceptions=True)
    goes_on.set()
    with pytest.raises(NoAnswer):
        await storing
    assert Owner(connection).waiting() == []


@pytest.mark.parametrize("ends", ["its time is over", "it hangs up"])
async def test_what_is_given_up_while_it_is_committed_is_withdrawn_right_behind(
    connection: LaneConnection, ends: str
) -> None:
    """A commit that waits for a disk, or a standby, nobody can stop."""
    node = StandingStill(connection)
    asker, goes_on = Asking(node), asyncio.Event()  # type: ignore[arg-type]

    async def query(function: Callable[[Any], Any]) -> Any:
        found = PostgresLink(connection).transaction(function)
        node.asked.append(lambda: None)
        await goes_on.wait()
        return found

    node.query = query  # type: ignore[method-assign]
    timeout_s = 0.01 if ends == "its time is over" else 60
    asked = asyncio.create_task(asker.ask(DELETED, "mira", "we test", timeout_s))
    while not node.asked:
        await asyncio.sleep(0)
    if ends == "it hangs up":
        asked.cancel()
    await asyncio.gather(asked, return_exceptions=True)
    assert len(Owner(connection).waiting()) == 1
    goes_on.set()
    async with asyncio.timeout(10):
        while Owner(connection).waiting():
            await asyncio.sleep(0)
    asker.stop()


async def test_what_is_stored_is_withdrawn_when_its_client_hangs_up(connection: LaneConnection) -> None:
    """Java's clients do after 30 s, and the time of a request is two longer."""
    asker = Asking(Node(connection))  # type: ignore[arg-type]
    asked = asyncio.create_task(asker.ask(DELETED, "mira", "we test", 60))
    async with asyncio.timeout(10):
        while not asker._waiting:
            await asyncio.sleep(0)
    assert len(Owner(connection).waiting()) == 1
    asked.cancel()
    await asyncio.gather(asked, return_exceptions=True)
    async with asyncio.timeout(10):
        while Owner(connection).waiting():
            await asyncio.sleep(0)
    asker.stop()


@pytest.mark.parametrize("hangs_up", [False, True])
async def test_what_may_be_committed_on_a_connection_that_is_lost_is_withdrawn(
    connection: LaneConnection, monkeypatch: pytest.MonkeyPatch, hangs_up: bool
) -> None:
    """Also where the first tries meet a database that is not back."""
    node, lost = StandingStill(connection), 0
    asker, goes_on = Asking(node), asyncio.Event()  # type: ignore[arg-type]
    monkeypatch.setattr(asking, "WITHDRAWN_AGAIN_S", 0.0)

    async def query(function: Callable[[Any], Any]) -> Any:
        nonlocal lost
        if 1 <= lost < 3:
            lost += 1
            raise ConnectionLost("it is not back")
        found = PostgresLink(connection).transaction(function)
        if lost:
            return found
        lost = 1
        node.asked.append(lambda: None)
        await goes_on.wait()
        raise ConnectionLost("in the commit")

    node.query = query  # type: ignore[method-assign]
    asked = asyncio.create_task(asker.ask(DELETED, "mira", "we test", 60))
    while not node.asked:
        await asyncio.sleep(0)
    if hangs_up:
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)
    goes_on.set()
    if not hangs_up:
        with pytest.raises(NoAnswer):
            await asked
    async with asyncio.timeout(10):
        while Owner(connection).waiting():
            await asyncio.sleep(0)
    assert lost == 3
    asker.stop()


async def test_what_cannot_be_withdrawn_when_its_time_is_over_is_withdrawn_when_it_can(
    connection: LaneConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many questions wait for the database as may, or it is away: it would go on, and delete the topic."""
    node, refused = StandingStill(connection), 0
    asker = Asking(node)  # type: ignore[arg-type]
    monkeypatch.setattr(asking, "WITHDRAWN_AGAIN_S", 0.0)

    async def query(function: Callable[[Any], Any]) -> Any:
        nonlocal refused
        if asker._waiting or (asker._withdrawing and refused < 5):
            refused += bool(asker._withdrawing)
            raise ConnectionLost("a thousand questions wait for the database already")
        return PostgresLink(connection).transaction(function)

    node.query = query  # type: ignore[method-assign]
    with pytest.raises(NoAnswer, match="a thousand questions"):
        # Long enough to be stored on a machine that does other work as well.
        await asker.ask(DELETED, "mira", "we test", 1)
    async with asyncio.timeout(10):
        while Owner(connection).waiting():
            await asyncio.sleep(0)
    asker.stop()


async def test_what_nobody_waits_for_is_withdrawn_when_a_database_comes_back_after_hours(
    connection: LaneConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No topic is deleted then for whoever was told so long ago that nobody answers."""
    node, tries = StandingStill(connection), 0
    asker = Asking(node)  # type: ignore[arg-type]
    monkeypatch.setattr(asking, "WITHDRAWN_AGAIN_S", 0.0)

    async def query(function: Callable[[Any], Any]) -> Any:
        nonlocal tries
        if asker._waiting or asker._withdrawing:
            tries += 1
            if tries < 10_000:
                raise ConnectionLost("the database is away")
        return PostgresLink(connection).transaction(function)

    node.query = query  # type: ignore[method-assign]
    with pytest.raises(NoAnswer):
        await asker.ask(DELETED, "mira", "we test", 0.05)
    async with asyncio.timeout(20):
        # Where the store took longer than was waited for, it begins to be withdrawn a little later.
        while tries < 10_000 or asker._withdrawing:
            await asyncio.sleep(0)
    assert Owner(connection).waiting() == []


@pytest.mark.parametrize("is_back", [True, False])
async def test_a_node_that_stops_withdraws_once_more_or_says_what_may_be_carried_out(
    connection: LaneConnection, monkeypatch: pytest.MonkeyPatch, is_back: bool
) -> None:
    """Dropped in silence, it was carried out by the next owner for whoever was told that nobody answers."""
    node, tries, away = Node(connection), 0, False
    asker, ask = Asking(node), node.query  # type: ignore[arg-type]
    monkeypatch.setattr(asking, "WITHDRAWN_AGAIN_S", 3600.0)

    async def query(function: Callable[[Any], Any]) -> Any:
        nonlocal tries
        if not away:
            return await ask(function)
        tries += 1
        raise ConnectionLost("the database is away")

    node.query = query  # type: ignore[method-assign]
    asked = asyncio.create_task(asker.ask(DELETED, "mira", "we test", 60))
    async with asyncio.timeout(10):
        while not asker._waiting:
            await asyncio.sleep(0)
        away = True
        asked.cancel()
        while not tries:
            await asyncio.sleep(0)
        away = not is_back
        with capture_logs() as said:
            asker.stop()
            while asker._withdrawing:
                await asyncio.sleep(0)
    warned = [one for one in said if one["log_level"] == "warning"]
    waiting = Owner(connection).waiting()
    assert len(waiting) == len(warned) == (0 if is_back else 1)


async def test_a_node_that_ends_while_the_database_hangs_says_what_may_be_carried_out(
    connection: LaneConnection,
) -> None:
    """Nobody waits for the last try: the loop ends, and cancels it."""
    node, hangs = Node(connection), asyncio.Event()
    asker, ask = Asking(node), node.query  # type: ignore[arg-type]
    away = False

    async def query(function: Callable[[Any], Any]) -> Any:
        if not away:
            return await ask(function)
        hangs.set()
        return await asyncio.Event().wait()

    node.query = query  # type: ignore[method-assign]
    asked = asyncio.create_task(asker.ask(DELETED, "mira", "we test", 60))
    async with asyncio.timeout(10):
        while not asker._waiting:
            await asyncio.sleep(0)
        away = True
        asker.stop()
        await asyncio.sleep(0)
        hangs.clear()
        asked.cancel()
        await hangs.wait()
        [last] = asker._withdrawing
        with capture_logs() as said:
            last.cancel()
            await asyncio.gather(last, return_exceptions=True)
    assert [one["log_level"] for one in said] == ["warning"]


async def test_only_so_many_wait_for_a_database_that_stands_still(
    connection: LaneConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody takes back what its thread was asked; each is kept until it goes on."""
    monkeypatch.setattr(asking, "MOST_STORED_AT_ONCE", 3)
    node = StandingStill(connection)
    asker = Asking(node)  # type: ignore[arg-type]
    for _ in range(5):
        with pytest.raises(NoAnswer):
            await asker.ask(DELETED, "mira", "we test", 0)
    assert len(node.asked) == 3


def test_answers_come_out_of_their_rows(connection: LaneConnection) -> None:
    wishes = {
        stored(connection, DeleteTopics(topics=(NamedTopic(name="nothing"),))): TopicResults,
        stored(
            connection, AlterReassignments(partitions=(WantedReplicas(topic="nothing", partition=0),))
        ): ReassignmentResults,
    }
    owner = Owner(connection)
    owner.takes_a_turn(owner.waiting())
    found = {row.id: asking._answer(row.answer) for row in requests.answers(connection, list(wishes))}
    assert {request_id: type(answer) for request_id, answer in found.items()} == wishes
