"""A request's row is handed to one turn; with which no turn can be taken is answered in its row."""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from controller.core.events import Heard, RequestSeat
from controller.core.records import RequestAnswered
from controller.core.requests import KEY, KIND, Asked
from controller.service import ControllerService
from controller.subject import CLUSTER
from muster.kernel.error_codes import ErrorCode
from muster.messages.link.from_broker import DeleteTopics, ListReassignments, NamedTopic
from muster.messages.link.to_broker import TopicResults
from runtime import requests
from runtime.memory import MemoryDatabase, MemoryLink
from runtime.ports import ConnectionLost
from runtime.turn import GaveUp
from runtime.work_table import AnsweredRow, WorkRow
from tests.unit.controller_service.stage import ORDERS, HereAndNow, linked

ID = "5f0c1c57-58a0-4d1c-8b53-6b3a0f5b8f11"
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


async def test_a_request_that_was_read_twice_is_decided_once() -> None:
    here = WithRows()
    service, links, _ = await linked(here)
    asked = [Heard(RequestSeat(ID, "mira", "we test"), NOTHING, ORDERS) for _ in range(2)]
    here.hand_in(service.cluster, CLUSTER, *asked)
    assert [one.request_id for one in here.recorded] == [ID]
    links[1].hang_up("the end")
