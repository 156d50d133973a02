"""A node asks the database once for a token that it does not know, and only so often for all strangers."""

import asyncio

import pytest

from kafkaserver.newcomers import IN_ALL, OF_ONE_NETWORK
from node.newcomers import LOOKED_FOR_MAX, Newcomers

HOME = "192.0.2.1"


class Tokens:
    """What the database holds; a look takes until `answers` is set."""

    def __init__(self, *new: str) -> None:
        self.new = new
        self.looks: list[frozenset[str]] = []
        self.reads = 0
        self.known = object()
        self.answers = asyncio.Event()
        self.answers.set()
        self.newcomers = Newcomers(self.is_new, self.read, lambda: self.known)

    async def is_new(self, names: frozenset[str]) -> bool:
        self.looks.append(names)
        await self.answers.wait()
        return not names.isdisjoint(self.new)

    async def read(self) -> None:
        self.reads += 1
        self.known = object()


async def test_a_new_token_has_all_of_them_read() -> None:
    tokens = Tokens("0a0b0c0d")
    assert await tokens.newcomers.find("0a0b0c0d", HOME)
    assert tokens.reads == 1


async def test_what_a_stranger_shows_has_nothing_read() -> None:
    tokens = Tokens("0a0b0c0d")
    assert not await tokens.newcomers.find("ffffffff", HOME)
    assert (tokens.looks, tokens.reads) == ([frozenset({"ffffffff"})], 0)


async def test_one_whose_token_was_read_before_the_look_came_to_it_is_no_stranger() -> None:
    tokens = Tokens()
    tokens.answers.clear()
    asked = asyncio.create_task(tokens.newcomers.find("read by now", HOME))
    await asyncio.sleep(0)
    await tokens.read()
    tokens.answers.set()
    assert await asked


async def test_those_who_ask_during_a_look_share_the_next() -> None:
    tokens = Tokens("b", "c")
    tokens.answers.clear()
    asked = [asyncio.create_task(tokens.newcomers.find(name, HOME)) for name in "abc"]
    for _ in range(5):
        await asyncio.sleep(0)
    asked += [asyncio.create_task(tokens.newcomers.find(name, HOME)) for name in "bd"]
    await asyncio.sleep(0)
    tokens.answers.set()
    assert await asyncio.gather(*asked) == [True] * 5
    assert tokens.looks == [frozenset("abc"), frozenset("bd")]
    assert tokens.reads == 2


async def test_many_who_come_together_with_one_new_token_are_all_let_in() -> None:
    tokens = Tokens("new")
    tokens.answers.clear()
    asked = [asyncio.create_task(tokens.newcomers.find("new", HOME)) for _ in range(50)]
    for _ in range(5):
        await asyncio.sleep(0)
    asked += [asyncio.create_task(tokens.newcomers.find("new", HOME)) for _ in range(50)]
    await asyncio.sleep(0)
    tokens.answers.set()
    assert await asyncio.gather(*asked) == [True] * 100
    assert len(tokens.looks) == 2


async def test_one_who_gives_up_leaves_the_look_to_the_others() -> None:
    tokens = Tokens("b")
    tokens.answers.clear()
    impatient = asyncio.create_task(tokens.newcomers.find("a", HOME))
    patient = asyncio.create_task(tokens.newcomers.find("b", HOME))
    await asyncio.sleep(0)
    impatient.cancel()
    tokens.answers.set()
    assert await patient


async def test_one_network_asks_only_so_often() -> None:
    tokens = Tokens("new")
    found = [await tokens.newcomers.find("new", HOME) for _ in range(OF_ONE_NETWORK[0] + 3)]
    assert found.index(False) == OF_ONE_NETWORK[0]
    assert await tokens.newcomers.find("new", "192.0.2.2")


async def test_all_networks_together_ask_only_so_often() -> None:
    tokens = Tokens("new")
    found = [await tokens.newcomers.find("new", f"10.0.0.{number}") for number in range(IN_ALL[0] + 20)]
    assert not all(found) and found.index(False) >= IN_ALL[0]


async def test_what_waits_for_one_look_is_bounded() -> None:
    tokens = Tokens()
    tokens.answers.clear()
    asked = [
        asyncio.create_task(tokens.newcomers.find(f"token-{number}", f"10.0.0.{number}"))
        for number in range(IN_ALL[0])
    ]
    await asyncio.sleep(0)
    assert len(tokens.newcomers._names) <= LOOKED_FOR_MAX
    tokens.answers.set()
    assert not any(await asyncio.gather(*asked))


@pytest.mark.parametrize("name", ["0a0b\x000d", "\ud800", "x" * 151, "\n"])
async def test_what_no_token_is_called_is_not_looked_for(name: str) -> None:
    tokens = Tokens(name)
    assert not await tokens.newcomers.find(name, HOME)
    assert tokens.looks == []
