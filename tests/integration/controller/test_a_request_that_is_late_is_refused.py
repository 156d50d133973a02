"""What a client was told that nobody answers is not carried out later: its row says until when it waits."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from controller import store
from controller.asking import Asking, NoAnswer
from controller.core.requests import KEY, KIND
from muster.messages.link.from_broker import CreateTopics, NewTopic
from runtime import requests
from runtime.ports import ConnectionLost
from runtime.postgres import LaneConnection
from runtime.requests import NotWaiting
from tests.integration.controller.test_a_request_is_answered_by_its_turn import (
    DELETED,
    PLACED,
    Node,
    Owner,
    connection,
    stored,
)

__all__ = ["connection"]

ORDERS = CreateTopics(topics=(NewTopic(name="orders", assignments={0: (1,)}),), timeout_ms=0)


async def test_what_can_never_be_withdrawn_is_refused_by_whoever_takes_it_late(
    connection: LaneConnection,
) -> None:
    """The database was away right then, and the node with it: the topic was deleted a second later."""
    node = Node(connection)
    asker, ask = Asking(node), node.query  # type: ignore[arg-type]

    async def query(function: Callable[[Any], Any]) -> Any:
        if asker._waiting or asker._withdrawing:
            raise ConnectionLost("the database is away")
        return await ask(function)

    owner = Owner(connection)
    owner.takes_a_turn([owner.asks(stored(connection, ORDERS))])
    node.query = query  # type: ignore[method-assign]
    with pytest.raises(NoAnswer):
        await asker.ask(DELETED, "mira", "we test", 0.5)
    for task in asker._withdrawing:
        task.cancel()
    async with asyncio.timeout(10):
        # Its time is counted from when the database took it.
        while not (row := requests.ready(connection, KIND, [KEY])[0]).is_late:
            await asyncio.sleep(0)
    with pytest.raises(NotWaiting):
        owner.takes_a_turn([owner.asks(row.id)])
    assert [topic.name for topic in store.load(connection).topics.values()] == ["orders"]
    asker.stop()


def test_what_is_late_when_its_turn_is_written_is_not_done_and_is_told(connection: LaneConnection) -> None:
    request_id = stored(connection, PLACED, waits_s=3_600)
    owner = Owner(connection)
    (event,) = owner.waiting()
    with connection.cursor() as cursor:
        cursor.execute("UPDATE work_item SET wanted_until = clock_timestamp() - interval '1 second'")
    with pytest.raises(NotWaiting):
        owner.takes_a_turn([event])
    assert owner.late == []
    owner.takes_a_turn([event])
    assert owner.late == [request_id], "whoever looks at the row is to find why"
    assert not store.load(connection).topics


def test_what_goes_on_over_turns_ends_where_nobody_waits_any_more(connection: LaneConnection) -> None:
    late, waits = stored(connection, PLACED, waits_s=0), stored(connection, PLACED, waits_s=3_600)
    with pytest.raises(NotWaiting):
        requests.go_on(connection, late, [1])
    requests.go_on(connection, waits, [1])
    requests.give_up(connection, late, requests.WITHDRAWN)
    (row,) = requests.answers(connection, [late, waits])
    assert (row.id, row.error) == (late, requests.WITHDRAWN)


def test_who_may_ask_for_the_answer_later_is_never_late(connection: LaneConnection) -> None:
    """REST says 202, and where the answer will stand."""
    stored(connection, PLACED)
    (row,) = requests.ready(connection, KIND, [KEY])
    assert not row.is_late
    assert connection.execute("SELECT wanted_until FROM work_item").fetchall() == [(None,)]
