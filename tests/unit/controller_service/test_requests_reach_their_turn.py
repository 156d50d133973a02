"""A request's row is handed to one turn; with which no turn can be taken is answered in its row."""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from controller import service as services
from controller import store
from controller.core.events import Heard, PlanComputed, ProposalsReady, RequestSeat
from controller.core.plans import COMPUTE_PLAN
from controller.core.proposing import Task
from controller.core.records import ProducerIdsGiven, ReassignmentChanged, RequestAnswered, TopicDeleted
from controller.core.requests import KEY, KIND, Asked
from controller.core.state import Altering
from controller.links import BrokerLink
from controller.service import ControllerService
from controller.subject import CLUSTER, Cluster
from kafkaserver.admin.asking import ANSWER_GRACE_S, TURN_TIMEOUT_S
from muster.kernel.error_codes import ErrorCode
from muster.kernel.instants import Instant
from muster.kernel.topology import Unread
from muster.messages.link.from_broker import (
    AllocateProducerIds,
    AlterReassignments,
    DeleteTopics,
    ListReassignments,
    NamedTopic,
    RemovePartitions,
    WantedReplicas,
)
from muster.messages.link.to_broker import TopicResults
from runtime import requests
from runtime.memory import MemoryDatabase, MemoryLink
from runtime.ports import ConnectionLost, VersionConflict
from runtime.turn import GaveUp
from runtime.work_table import AnsweredRow, FinishedItem, WorkRow
from tests.unit.controller_service.stage import ORDERS, HereAndNow, linked

ID = "5f0c1c57-58a0-4d1c-8b53-6b3a0f5b8f11"
NOBODY: Any = None
"""Nothing is written on this connection."""
NOTHING = DeleteTopics(topics=(NamedTopic(name="nothing"),), principal="mira")


class WithRows(HereAndNow):
    """The same, with a table of work items."""

    def __init__(self) -> None:
        super().__init__()
        self.link: MemoryLink | None = None

    async def query(self, function: Callable[[Any], Any]) -> Any:
        if self.link is None:
            raise ConnectionLost("no database")
        return self.link.transaction(function)

    async def read(self, function: Callable[[Any], Any]) -> Any:
        return await self.query(function)

    def stores(self, payload: Any) -> None:
        self.link = MemoryDatabase(["controller"]).connect("a-run", "test")
        row = WorkRow(ID, KIND, "controller", KEY, None, payload, "done", principal="mira", reason="we test")
        self.link.transaction(lambda connection: connection.work_table.insert(row))

    def answers(self) -> list[AnsweredRow]:
        assert self.link is not None
        return self.link.transaction(lambda connection: requests.answers(connection, [ID]))


async def woken(service: ControllerService) -> None:
    """Everything is done that a wake-up leads to."""
    service.woken("work", f"{KIND} {KEY}")
    for _ in range(10):
        await asyncio.sleep(0)


async def test_a_request_is_handed_in_once_however_often_somebody_tells_of_it() -> None:
    here = WithRows()
    service, links, _ = await linked(here)
    here.stores(msgspec.to_builtins(Asked(NOTHING)))
    for _ in range(3):
        await woken(service)
    (answer,) = here.recorded
    assert isinstance(answer, RequestAnswered)
    assert (answer.request_id, answer.principal, answer.reason) == (ID, "mira", "we test")
    links[1].hang_up("the end")


async def test_what_no_turn_can_be_taken_with_is_answered_in_its_row() -> None:
    here = WithRows()
    service, links, _ = await linked(here)
    here.stores(msgspec.to_builtins(Asked(NOTHING)))
    seat = RequestSeat(ID, "mira", "we test")
    service.cluster.refuse(CLUSTER, [Heard(seat, NOTHING, ORDERS)], GaveUp("controller: cluster"))
    for _ in range(10):
        await asyncio.sleep(0)
    (row,) = here.answers()
    answer = msgspec.convert(row.answer, TopicResults)
    assert answer.topics[0].error is ErrorCode.UNKNOWN_SERVER_ERROR
    links[1].hang_up("the end")


async def test_where_no_answer_can_say_so_the_row_does() -> None:
    here = WithRows()
    service, links, _ = await linked(here)
    here.stores(msgspec.to_builtins(Asked(ListReassignments())))
    seat = RequestSeat(ID, "mira", "we test")
    service.cluster.refuse(CLUSTER, [Heard(seat, ListReassignments(), ORDERS)], GaveUp("controller"))
    for _ in range(10):
        await asyncio.sleep(0)
    (row,) = here.answers()
    assert row.answer is None and "mistake of ours" in row.error
    links[1].hang_up("the end")


async def test_a_request_that_cannot_be_read_is_given_up() -> None:
    """Stored by another version, perhaps: nobody would ever answer it."""
    here = WithRows()
    service, links, _ = await linked(here)
    here.stores({"wish": {"type": "MakeCoffee"}})
    await woken(service)
    (row,) = here.answers()
    assert row.error and here.recorded == []
    links[1].hang_up("the end")


async def test_an_answer_that_cannot_be_written_does_not_leave_the_row_to_the_next_owner(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = WithRows()
    service, links, _ = await linked(here)
    here.stores(msgspec.to_builtins(Asked(NOTHING)))

    def refused(connection: Any, request_id: str, answer: Any) -> None:
        raise ValueError("what spoilt the turn stands in the answer, too")

    monkeypatch.setattr(requests, "conclude", refused)
    seat = RequestSeat(ID, "mira", "we test")
    service.cluster.refuse(CLUSTER, [Heard(seat, NOTHING, ORDERS)], ValueError("spoilt"))
    for _ in range(10):
        await asyncio.sleep(0)
    (row,) = here.answers()
    assert row.answer is None and "mistake of ours" in row.error
    links[1].hang_up("the end")


async def test_a_removal_of_which_nobody_can_say_what_is_unread_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Unknowing(WithRows):
        def find_unread(self, connection: Any, topic: str, first: int) -> list[Unread]:
            raise ValueError("nobody knows")

    monkeypatch.setattr(services, "ENDS_TIMEOUT_S", 0)
    here = Unknowing()
    service, links, _ = await linked(here)
    here.stores(msgspec.to_builtins(Asked(RemovePartitions(topic="orders", partition_count=1))))
    await woken(service)
    async with asyncio.timeout(10):
        while not (rows := here.answers()):
            await asyncio.sleep(0)
    assert "mistake of ours" in rows[0].error and here.recorded == []
    links[1].hang_up("the end")


def test_finished_work_that_cannot_be_read_has_failed() -> None:
    """Of a worker of another version, perhaps: the plan would be computing for ever."""
    item = FinishedItem(ID, COMPUTE_PLAN, str(ORDERS), None, ["no plan"], "")
    heard = services._finished(item)
    assert isinstance(heard, PlanComputed) and "cannot be read" in heard.failure
    elected = services._finished(FinishedItem(ID, Task.BROKER_CHANGE, "1", None, [{"no": "proposal"}], ""))
    assert isinstance(elected, ProposalsReady) and elected.proposals == ()


async def test_a_request_that_was_read_twice_is_decided_once() -> None:
    here = WithRows()
    service, links, _ = await linked(here)
    asked = [Heard(RequestSeat(ID, "mira", "we test"), NOTHING, ORDERS) for _ in range(2)]
    here.hand_in(service.cluster, CLUSTER, *asked)
    assert [one.request_id for one in here.recorded] == [ID]
    links[1].hang_up("the end")


class StandingStill(HereAndNow):
    """Takes its turns only when it goes on, all together."""

    stands_still = False

    def __init__(self) -> None:
        super().__init__()
        self.waiting: list[Any] = []

    def hand_in(self, subject: Cluster, key: str, *events: Any) -> None:
        self.waiting += events
        if not self.stands_still:
            waiting, self.waiting = self.waiting, []
            super().hand_in(subject, key, *waiting)


async def test_what_was_wished_on_a_link_that_is_gone_is_not_done() -> None:
    """The database stood still, and the broker has told whoever asked that nobody answers."""
    here = StandingStill()
    service, links, _ = await linked(here)
    here.stands_still = True
    service.link_heard(links[2], DeleteTopics(topics=(NamedTopic(name="orders"),)))
    service.link_closed(links[2])
    here.stands_still = False
    service.link_heard(links[1], AllocateProducerIds())
    assert not any(isinstance(one, TopicDeleted) for one in here.recorded)
    assert any(isinstance(one, ProducerIdsGiven) for one in here.recorded)
    links[1].hang_up("the end")


@pytest.mark.parametrize(("late_ms", "is_done"), [(0, True), (1, False)])
async def test_what_was_wished_so_long_ago_that_nobody_waits_is_not_done(late_ms: int, is_done: bool) -> None:
    """A table was locked meanwhile: the broker keeps its link, and has said that nobody answers."""
    here = StandingStill()
    service, links, _ = await linked(here)
    here.stands_still = True
    service.link_heard(links[2], DeleteTopics(topics=(NamedTopic(name="orders"),)))
    here.time = Instant(here.time + round((TURN_TIMEOUT_S + ANSWER_GRACE_S) * 1_000) + late_ms)
    here.stands_still = False
    service.link_heard(links[1], AllocateProducerIds())
    assert any(isinstance(one, TopicDeleted) for one in here.recorded) == is_done
    assert any(isinstance(one, ProducerIdsGiven) for one in here.recorded)
    links[1].hang_up("the end")


def a_move_that_turns_go_on_with(service: ControllerService, link: BrokerLink) -> None:
    assert service.cluster.memory is not None
    swapped = WantedReplicas(topic="orders", partition=0, replicas=(2, 1))
    frame = AlterReassignments(partitions=(swapped,))
    service.cluster.memory.altering = [Altering(link, frame, ORDERS, frozenset())]


async def test_no_turn_goes_on_with_what_was_wished_on_a_link_that_is_gone() -> None:
    here = HereAndNow()
    service, links, _ = await linked(here)
    a_move_that_turns_go_on_with(service, links[2])
    service.link_closed(links[2])
    assert not any(isinstance(one, ReassignmentChanged) for one in here.recorded)
    a_move_that_turns_go_on_with(service, links[1])
    service.link_heard(links[1], AllocateProducerIds())
    assert any(isinstance(one, ReassignmentChanged) for one in here.recorded)
    links[1].hang_up("the end")


async def test_what_a_turn_goes_on_with_as_its_link_goes_is_taken_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = HereAndNow()
    service, links, _ = await linked(here)
    a_move_that_turns_go_on_with(service, links[2])
    monkeypatch.setattr(store, "save", lambda *_: None)
    subject, state = service.cluster, service.cluster.cached(CLUSTER)
    assert state is not None
    records = subject.decide(CLUSTER, state, [], here.now()).records
    assert any(isinstance(one, ReassignmentChanged) for one in records)
    subject.links.pop(links[2])
    with pytest.raises(VersionConflict):
        subject.store.save(NOBODY, CLUSTER, state.rows, records)
    links[1].hang_up("the end")


async def test_what_nobody_waits_for_when_it_is_written_is_taken_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = HereAndNow()
    service, links, _ = await linked(here)
    subject, state = service.cluster, service.cluster.cached(CLUSTER)
    assert state is not None
    wish = DeleteTopics(topics=(NamedTopic(name="orders"),))
    monkeypatch.setattr(store, "save", lambda *_: None)
    records = subject.decide(
        CLUSTER, state, [Heard(links[2], wish, ORDERS, until=here.time)], here.now()
    ).records
    subject.store.save(NOBODY, CLUSTER, state.rows, records)
    here.time = Instant(here.time + 1)
    with pytest.raises(VersionConflict):
        subject.store.save(NOBODY, CLUSTER, state.rows, records)
    links[1].hang_up("the end")


async def test_what_is_being_written_as_its_link_goes_is_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """The database stood still in the middle of the turn."""
    here = HereAndNow()
    service, links, _ = await linked(here)
    subject, wish = (
        service.cluster,
        Heard(links[2], DeleteTopics(topics=(NamedTopic(name="orders"),)), ORDERS),
    )
    monkeypatch.setattr(store, "save", lambda *_: None)

    def written() -> list[Any]:
        state = subject.cached(CLUSTER)
        if state is None:
            state, revived = subject.revive(CLUSTER, here.rows, here.now())
            subject.store.save(NOBODY, CLUSTER, here.rows, revived.records)
        decision = subject.decide(CLUSTER, state, [wish], here.now())
        if gone_meanwhile:
            subject.links.pop(gone_meanwhile.pop())
        subject.store.save(NOBODY, CLUSTER, state.rows, decision.records)
        return list(decision.records)

    gone_meanwhile: list[Any] = []
    assert any(isinstance(one, TopicDeleted) for one in written())
    gone_meanwhile.append(links[2])
    with pytest.raises(VersionConflict):
        written()
    subject.drop(CLUSTER)
    assert not any(isinstance(one, TopicDeleted) for one in written())
    links[1].hang_up("the end")
