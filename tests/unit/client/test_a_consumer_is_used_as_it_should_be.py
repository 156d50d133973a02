"""Misuse of a Consumer raises at once, and its state can be asked at any time."""

import asyncio
from http import HTTPStatus

import pytest

from muster import Consumer, ConsumerRefused, NotReady, State
from muster.client import clock
from muster.client import discovery as rooms
from muster.kernel.instants import Instant
from tests.unit.client.ann import Ann, ann_who_has_read
from tests.unit.client.nodes import running
from tests.unit.client_core.test_a_member_obeys_its_coordinator import start


def ben(*nodes: str, **options: int) -> Consumer:
    return Consumer("readers", ["orders"], nodes=list(nodes), token="mst_", **options)  # type: ignore[arg-type]


async def test_two_tasks_that_ask_for_the_next_record_do_not_both_wait() -> None:
    async with running("one") as nodes, ben(nodes.addresses["one"]) as consumer:
        first = asyncio.create_task(anext(consumer))
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="one task iterates"):
            await anext(consumer)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        second = asyncio.create_task(anext(consumer))
        await asyncio.sleep(0)
        assert not second.done()
        await consumer.close()
        with pytest.raises(StopAsyncIteration):
            await second


async def test_a_group_that_does_not_let_it_in_within_the_time_given() -> None:
    async with running("one") as nodes, ben(nodes.addresses["one"], ready_timeout_ms=300) as consumer:
        with pytest.raises(NotReady, match=r"not within 300 ms: searching: .*nobody serves the group"):
            await anext(consumer)
        assert consumer.state is State.FAILED


async def test_a_refused_token_raises_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rooms, "UNWELCOME_MS", 100)
    async with running("one") as nodes:
        nodes.status = HTTPStatus.UNAUTHORIZED
        async with ben(nodes.addresses["one"]) as consumer:
            with pytest.raises(ConsumerRefused, match="does not know this token"):
                await anext(consumer)


async def test_an_address_that_is_no_node_is_not_taken_for_a_token_that_is_wrong() -> None:
    async with running("one") as nodes:
        nodes.status = HTTPStatus.NOT_FOUND
        async with ben(nodes.addresses["one"]) as consumer:
            while "it answered 404: is it a node?" not in consumer.state_text:
                await asyncio.sleep(0.01)
            assert consumer.state is State.SEARCHING


async def test_its_state_is_told_from_the_beginning_to_the_end() -> None:
    consumer = ben("ws://127.0.0.1:9")
    seen = [consumer.state]
    assert consumer.state_text == ""
    async with consumer:
        while "Connection refused" not in consumer.state_text:
            await asyncio.sleep(0.01)
        seen.append(consumer.state)
    seen.append(consumer.state)
    assert seen == [State.NEW, State.SEARCHING, State.CLOSED]
    with pytest.raises(RuntimeError, match="make another one"):
        await consumer.__aenter__()


async def test_a_partition_that_cannot_be_fetched_is_told_with_the_reason() -> None:
    ann = ann_who_has_read(0)
    assert ann.conversation.standing().state is State.CONSUMING
    [tenure] = ann.tenures()
    ann.conversation.fetching._lose_leader([tenure], "broker 1: refused")
    standing = ann.conversation.standing()
    assert (standing.state, standing.trouble) == (State.STALLED, True)
    assert "1 of 1 partitions cannot be fetched, such as orders-0 (broker 1: refused)" in standing.why


async def test_a_member_without_a_partition_is_idle_and_that_is_no_trouble() -> None:
    ann = Ann()
    ann.registers()
    standing = ann.conversation.standing()
    assert (standing.state, standing.trouble) == (State.IDLE, False)


async def test_skipping_goes_ahead_only_and_where_it_fetches() -> None:
    consumer = ben("ws://127.0.0.1:9")
    consumer._conversation = ann_who_has_read(1).conversation
    consumer.skip("orders", 0, 50)
    [tenure] = consumer._conversation.fetching.tenures()
    assert (tenure.delivered_to, tenure.finished_to, tenure.fetched_to) == (50, 50, 50)
    with pytest.raises(ValueError, match="at 50 already"):
        consumer.skip("orders", 0, 50)
    with pytest.raises(ValueError, match="not fetched by this consumer"):
        consumer.skip("orders", 1, 60)


async def test_an_idle_member_asks_why_ever_more_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    ann = Ann()
    ann.registers()
    ann.hears(start(1))
    telling, asked, now = ann.conversation._telling, [], 0

    async def missing(topics: set[str]) -> frozenset[str]:
        asked.append(now // 1_000)
        return frozenset(topics)

    monkeypatch.setattr(telling._fetching, "missing", missing)
    monkeypatch.setattr(clock, "now", lambda: Instant(now))
    for second in range(200):
        now = 1_000 * second
        await telling._look_why_idle()
    assert asked == [0, 2, 6, 14, 30, 62, 122, 182]
    assert "there is no topic orders yet" in ann.conversation.standing().why
