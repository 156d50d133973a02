"""Whoever looks for a coordinator is held up by no node that is dead, hangs, or has not heard the news."""

import asyncio
from http import HTTPStatus

import pytest

from muster import ConsumerRefused
from muster.client import discovery as rooms
from muster.client.discovery import Discovery
from muster.kernel.error_codes import ErrorCode
from muster.messages.member import ClusterMetadataRequest
from tests.unit.client.nodes import Nodes, running

QUESTION = ClusterMetadataRequest(correlation_id=1, group_id="readers")


def looking(nodes: Nodes, *, first: str = "") -> Discovery:
    """A consumer that knows all of them, and asks `first` first."""
    found = Discovery(list(nodes.addresses.values()), "token", QUESTION, lambda answer: None)
    if first:
        names = list(nodes.addresses)
        found._last = nodes.addresses[names[names.index(first) - 1]]
    return found


async def arrives(discovery: Discovery, hint: str = "", besides: str = "") -> str:
    """Where it arrives, before the test loses patience."""
    transport = await asyncio.wait_for(discovery.find(hint, besides=besides), 10)
    transport.hang_up()
    return transport.address


async def test_a_node_leads_to_the_coordinator() -> None:
    async with running("one", "two") as nodes:
        nodes.coordinator = "two"
        assert await arrives(looking(nodes, first="one")) == nodes.addresses["two"]


async def test_nodes_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    # However slow the machine is, the node that is asked first holds up the next.
    monkeypatch.setattr(rooms, "STAGGER_S", 60.0)
    async with running("one", "two", "three") as nodes:
        nodes.coordinator = "three"
        discovery = looking(nodes, first="one")
        turns = []
        for _ in range(4):
            before = nodes.handshakes.copy()
            await arrives(discovery)
            turns.append(nodes.handshakes - before)
        assert turns == [{"one": 1, "three": 1}, {"two": 1, "three": 1}, {"three": 1}, {"one": 1, "three": 1}]


async def test_a_node_that_hangs_holds_up_nobody() -> None:
    async with running("one", "two") as nodes:
        nodes.hanging, nodes.coordinator = {"one"}, "two"
        async with asyncio.timeout(rooms.STAGGER_S * 6):
            assert await arrives(looking(nodes, first="one")) == nodes.addresses["two"]


async def test_a_node_that_is_slow_is_waited_for_a_little_longer_each_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rooms, "OPEN_TIMEOUT_S", 0.05)
    async with running("one") as nodes:
        nodes.coordinator, nodes.delay_s = "one", 0.3
        assert await arrives(looking(nodes)) == nodes.addresses["one"]
        assert nodes.handshakes["one"] >= 2


async def test_a_hint_that_leads_nowhere_holds_up_nobody() -> None:
    async with running("one", "two") as nodes:
        nodes.hanging, nodes.coordinator = {"one"}, "two"
        async with asyncio.timeout(rooms.STAGGER_S * 6):
            hint = nodes.addresses["one"]
            assert await arrives(looking(nodes, first="two"), hint) == nodes.addresses["two"]


@pytest.mark.parametrize("address", [f"ws://{'a' * 64}.example:9301", "ws://127.0.0.1:99999"])
async def test_an_address_that_can_be_nobodys_is_one_more_node_that_is_away(address: str) -> None:
    async with asyncio.timeout(10), running("one") as nodes:
        discovery = looking(nodes)
        discovery.learn_nodes([address, nodes.addresses["one"]])
        looks = asyncio.create_task(arrives(discovery, hint=address))
        while address not in discovery.problems:
            await asyncio.sleep(0.01)
        nodes.coordinator = "one"
        assert await looks == nodes.addresses["one"]


async def test_while_a_dead_node_is_named_the_living_one_is_asked_again_on_one_connection() -> None:
    async with running("one", "two") as nodes:
        await nodes.stop("one")
        nodes.coordinator = "one"
        looks = asyncio.create_task(arrives(looking(nodes)))
        while nodes.questions["two"] < 4:
            await asyncio.sleep(0.01)
        assert nodes.handshakes["two"] == 1
        nodes.coordinator = "two"
        assert await looks == nodes.addresses["two"]


async def test_nobody_is_followed_back_to_the_node_that_fell_silent() -> None:
    async with running("one", "two") as nodes:
        nodes.coordinator = "one"
        looks = asyncio.create_task(arrives(looking(nodes), besides=nodes.addresses["one"]))
        while nodes.questions["two"] < 3:
            await asyncio.sleep(0.01)
        assert not nodes.handshakes["one"]
        nodes.coordinator = "two"
        assert await looks == nodes.addresses["two"]


async def test_what_stands_in_the_way_is_known_node_by_node() -> None:
    async with running("one", "two") as nodes:
        await nodes.stop("one")
        discovery = looking(nodes)
        looks = asyncio.create_task(arrives(discovery))
        while len(discovery.problems) < 2:
            await asyncio.sleep(0.01)
        assert "nobody serves the group" in discovery.problems[nodes.addresses["two"]]
        assert "Connection refused" in discovery.problems[nodes.addresses["one"]]
        looks.cancel()
        await asyncio.gather(looks, return_exceptions=True)


@pytest.mark.parametrize(
    ("status", "code", "words"),
    [
        (HTTPStatus.UNAUTHORIZED, ErrorCode.AUTHENTICATION_FAILED, "does not know this token"),
        (HTTPStatus.FORBIDDEN, ErrorCode.GROUP_AUTHORIZATION_FAILED, "role of this token may not consume"),
    ],
)
async def test_a_token_that_every_node_refuses_is_believed_to_be_wrong(
    monkeypatch: pytest.MonkeyPatch, status: HTTPStatus, code: ErrorCode, words: str
) -> None:
    monkeypatch.setattr(rooms, "UNWELCOME_MS", 100)
    async with running("one", "two") as nodes:
        nodes.status, nodes.coordinator = status, "one"
        with pytest.raises(ConsumerRefused, match=words) as refusal:
            await arrives(looking(nodes))
        assert refusal.value.error_code is code


async def test_a_token_that_is_known_a_moment_later_is_welcome() -> None:
    async with running("one") as nodes:
        nodes.status, nodes.coordinator = HTTPStatus.UNAUTHORIZED, "one"
        looks = asyncio.create_task(arrives(looking(nodes)))
        while nodes.handshakes["one"] < 2:
            await asyncio.sleep(0.01)
        nodes.status = HTTPStatus.OK
        assert await looks == nodes.addresses["one"]
