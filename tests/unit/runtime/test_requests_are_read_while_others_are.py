"""Who asks while the requests of others are read is read at once, and what was read is not read again."""

import asyncio
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from runtime.inbox import READ_AT_ONCE, RequestInbox
from runtime.memory import MemoryDatabase, MemoryLink
from runtime.requests import WITHDRAWN
from runtime.work_table import RequestRow, WorkRow

LANE, KIND, KEY = "controller", "controller.request", "cluster"


class SlowLane:
    """A lane whose reads see what is stored when they begin, and end when they are let."""

    name = LANE

    def __init__(self) -> None:
        self.link: MemoryLink = MemoryDatabase([LANE]).connect("a-run", "test")
        self.may_end = asyncio.Event()
        self.read_rows: list[int] = []
        self._count = 0

    async def read(self, function: Callable[[Any], Any]) -> Any:
        found = self.link.transaction(function)
        self.read_rows.append(len(found))
        await self.may_end.wait()
        return found

    def stores(self, count: int = 1) -> None:
        def insert(connection: Any) -> None:
            for number in range(self._count + 1, self._count + count + 1):
                connection.work_table.insert(WorkRow(f"request-{number}", KIND, LANE, KEY, None, {}, "done"))

        self.link.transaction(insert)
        self._count += count


def inbox_of(taken: list[str], node: "Node | None" = None) -> RequestInbox:
    def take(row: RequestRow) -> None:
        taken.append(row.id)

    return RequestInbox(KIND, take, node)  # type: ignore[arg-type]


class Node:
    """A node whose queries beside the turns fail while `mistakes` are left."""

    def __init__(self, lane: SlowLane, mistakes: int) -> None:
        self._link = lane.link
        self.mistakes = mistakes

    async def query(self, function: Callable[[Any], Any]) -> Any:
        if self.mistakes:
            self.mistakes -= 1
            raise ValueError("a mistake of ours, injected")
        return self._link.transaction(function)


class Answer(Struct):
    """What the asker would be told."""

    text: str


async def read_all(lane: SlowLane) -> None:
    lane.may_end.set()
    for _ in range(50):
        await asyncio.sleep(0)


async def test_who_asks_during_a_read_is_not_left_to_the_next_reminder() -> None:
    lane, taken = SlowLane(), list[str]()
    inbox = inbox_of(taken)
    lane.stores()
    inbox.look(lane, KEY)  # type: ignore[arg-type]
    await asyncio.sleep(0)
    lane.stores()
    inbox.look(lane, KEY)  # type: ignore[arg-type]
    await read_all(lane)
    assert taken == ["request-1", "request-2"]


async def test_what_was_handed_in_is_not_brought_again() -> None:
    """Each may hold megabytes, and stays where it is until its turn is written."""
    lane, taken = SlowLane(), list[str]()
    inbox = inbox_of(taken)
    lane.stores(3)
    for _ in range(3):
        inbox.look(lane, KEY)  # type: ignore[arg-type]
        await read_all(lane)
    assert (lane.read_rows, len(taken)) == ([3, 0, 0], 3)


async def test_many_are_read_in_parts_and_all_of_them() -> None:
    lane, taken = SlowLane(), list[str]()
    inbox = inbox_of(taken)
    lane.stores(2 * READ_AT_ONCE + 1)
    inbox.look(lane, KEY)  # type: ignore[arg-type]
    await read_all(lane)
    assert lane.read_rows == [READ_AT_ONCE, READ_AT_ONCE, 1]
    assert len(taken) == len(set(taken)) == 2 * READ_AT_ONCE + 1


async def test_a_lane_that_is_taken_again_is_read_at_once() -> None:
    """Also if the read of the lease before was under way when that one was lost."""
    lane, taken = SlowLane(), list[str]()
    inbox = inbox_of(taken)
    lane.stores()
    inbox.look(lane, KEY)  # type: ignore[arg-type]
    await asyncio.sleep(0)
    inbox.forget()
    inbox.look(lane, KEY)  # type: ignore[arg-type]
    await read_all(lane)
    assert taken == ["request-1"]


async def test_what_could_not_be_given_up_is_read_again_when_the_node_reminds_of_it() -> None:
    """Neither with its answer nor without: who asked would wait for the next owner else."""
    lane, taken = SlowLane(), list[str]()
    node = Node(lane, mistakes=2)
    inbox = inbox_of(taken, node)
    lane.stores()
    inbox.look(lane, KEY)  # type: ignore[arg-type]
    await read_all(lane)
    inbox.give_up("request-1", Answer("refused"))
    await read_all(lane)
    assert node.mistakes == 0
    inbox.look(lane, KEY)  # type: ignore[arg-type]
    await read_all(lane)
    assert taken == ["request-1", "request-1"]


async def test_what_is_late_is_handed_to_nobody_and_says_so() -> None:
    """Who asked has been told that nobody answers, and could not withdraw it."""
    taken: list[str] = []
    lane = SlowLane()
    lane.stores(2)
    late = RequestRow("request-1", KEY, "mira", "we test", {}, None, "", is_late=True)

    class Late(SlowLane):
        async def read(self, function: Callable[[Any], Any]) -> Any:
            return [late, *(await super().read(function))[1:]]

    lane.__class__ = Late
    lane.may_end.set()
    inbox = inbox_of(taken, Node(lane, 0))
    inbox.look(lane, KEY)  # type: ignore[arg-type]
    async with asyncio.timeout(10):
        while inbox._tasks:
            await asyncio.sleep(0)
    assert taken == ["request-2"]
    answered = lane.link.transaction(lambda connection: connection.work_table.answers(["request-1"]))
    assert [(row.answer, row.error) for row in answered] == [(None, WITHDRAWN)]
