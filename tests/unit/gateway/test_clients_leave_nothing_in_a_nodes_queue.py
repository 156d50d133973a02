"""While the database stands still, clients who ask and go again leave one question with it, not one each."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from controller.asking import Asking, NoAnswer
from gateway.administration import NodeController
from gateway.cluster import ClusterOfNode
from gateway.known_configs import ConfigsOfNode
from gateway.shared_reads import InTurn, SharedRead
from kafkaserver.admin.asking import ControllerUnreachable
from muster.messages.link.from_broker import DeleteTopics, ListReassignments, NamedTopic
from runtime import side as sides
from runtime.memory import MemoryDatabase
from runtime.ports import ConnectionLost
from runtime.side import SideLink
from tests.unit.coordinator.shards import Node

STRANGERS = 20


class StandingStill(Node):
    """A node whose database answers nobody until it `goes_on`, and counts what is with it."""

    def __init__(self) -> None:
        self.goes_on = asyncio.Event()
        self.asked: list[Callable[[Any], Any]] = []
        self.answer: Any = ()

    async def query(self, function: Callable[[Any], Any]) -> Any:
        self.asked.append(function)
        await self.goes_on.wait()
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


async def _come_and_go(ask: Callable[[], Any]) -> None:
    for _ in range(STRANGERS):
        asked = asyncio.create_task(ask())
        for _ in range(5):
            await asyncio.sleep(0)
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)


async def test_who_asks_for_configs_waits_outside_of_the_queue() -> None:
    node = StandingStill()
    configs = ConfigsOfNode(node, {})
    await _come_and_go(lambda: configs.look({"orders"}, ()))
    assert len(node.asked) == 1
    node.answer = ConnectionLost("the database is away")
    node.goes_on.set()
    with pytest.raises(ControllerUnreachable):
        await configs.look({"orders"}, ())
    assert len(node.asked) == 2, "and no question of those who are gone"


async def test_wishes_leave_room_behind_them_for_whatever_else_a_node_asks() -> None:
    """Its tokens above all, and the withdrawal of those wishes."""
    goes_on = threading.Event()
    side = SideLink(MemoryDatabase(["controller"]), lambda: "a-run", "queries")

    class Beside(Node):
        async def query(self, function: Callable[[Any], Any]) -> Any:
            return await side.query(function)

    asker = Asking(Beside())
    try:
        held = asyncio.create_task(side.query(lambda connection: goes_on.wait(10)))
        for _ in range(sides.MOST_WAITING + STRANGERS):
            with pytest.raises(NoAnswer):
                await asker.ask(DeleteTopics(topics=(NamedTopic(name="orders"),)), "mira", "we test", 0)
        tokens = asyncio.create_task(side.query(lambda connection: "tokens"))
        await asyncio.sleep(0)
        goes_on.set()
        assert await tokens == "tokens" and await held
    finally:
        goes_on.set()
        asker.stop()
        side.stop()


async def test_who_asks_for_moves_shares_one_question() -> None:
    node = StandingStill()
    controller = NodeController(node, ClusterOfNode(node))
    await _come_and_go(lambda: controller.ask(ListReassignments()))
    assert len(node.asked) == 1
    node.goes_on.set()
    answers = await asyncio.gather(*(controller.ask(ListReassignments()) for _ in range(STRANGERS)))
    assert len(answers) == STRANGERS and len(node.asked) <= 3


async def test_one_behind_the_other_each_is_answered_with_its_own() -> None:
    node = StandingStill()
    node.goes_on.set()
    in_turn = InTurn(node)
    node.answer = 1
    assert await asyncio.gather(*(in_turn.query(lambda connection: None) for _ in range(3))) == [1, 1, 1]
    assert len(node.asked) == 3


async def test_a_read_begins_behind_whoever_asks_for_it() -> None:
    node = StandingStill()
    shared = SharedRead[int](node, lambda connection: 0)
    early = asyncio.create_task(shared.now())
    while not node.asked:
        await asyncio.sleep(0)
    late = [asyncio.create_task(shared.now()) for _ in range(STRANGERS)]
    node.answer = 7
    node.goes_on.set()
    assert await early == 7 and set(await asyncio.gather(*late)) == {7}
    assert len(node.asked) == 2
    node.answer = ConnectionLost("the database is away")
    with pytest.raises(ConnectionLost):
        await shared.now()
    node.answer = 8
    assert await shared.now() == 8
