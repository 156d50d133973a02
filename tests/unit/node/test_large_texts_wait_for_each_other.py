"""Of many large texts that come together a few are heard in each round of the loop, and all else at once."""

import asyncio
from collections import Counter
from contextlib import AsyncExitStack
from typing import Any

import pytest

from node import large_texts
from node.large_texts import FRAMES_AT_ONCE, LARGE_BYTES, SLICE_S
from runtime.slices import Slices
from tests.unit.node.rounds import Rounds
from tests.unit.node.test_texts_take_the_short_way import Application, connected, frame

LARGE = "x" * LARGE_BYTES
MANY = 12


class Loop(Rounds):
    """On a clock of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0


class Crowd:
    """Each of it says one text, which takes `takes_s` to hear."""

    def __init__(self, takes_s: float) -> None:
        self.loop = Loop()
        self.texts = Slices(self.loop, SLICE_S, lambda: self.loop.now)  # type: ignore[arg-type]
        self.heard: list[int] = []
        self._takes_s = takes_s

    def say(self, number: int) -> None:
        if self.texts.has_turn():
            self.heard.append(number)
            self.loop.now += self._takes_s
        else:
            self.texts.wait(lambda: self.say(number))


def test_a_round_hears_no_more_than_its_slice_and_everybody_in_the_order_of_arrival() -> None:
    crowd = Crowd(takes_s=SLICE_S / 2)
    for number in range(7):
        crowd.say(number)
    assert crowd.heard == [0, 1]
    crowd.loop.next_round()
    assert crowd.heard == [0, 1, 2, 3]
    # Who comes later stays behind those that wait, though the round might have time left.
    crowd.say(7)
    for _ in range(2):
        crowd.loop.next_round()
    assert crowd.heard == list(range(8))


def test_each_round_hears_somebody_however_long_that_takes() -> None:
    crowd = Crowd(takes_s=SLICE_S * 5)
    for number in range(3):
        crowd.say(number)
    crowd.loop.next_round()
    crowd.loop.next_round()
    assert crowd.heard == [0, 1, 2]


def test_nothing_is_scheduled_while_nobody_speaks() -> None:
    crowd = Crowd(takes_s=0)
    crowd.say(0)
    crowd.loop.next_round()
    assert crowd.loop.is_quiet
    crowd.loop.now += 10
    crowd.say(1)
    assert crowd.heard == [0, 1]


def test_who_is_gone_when_called_takes_nobodys_turn() -> None:
    crowd = Crowd(takes_s=SLICE_S)
    crowd.say(0)
    crowd.texts.wait(lambda: None)
    crowd.texts.wait(lambda: crowd.say(1))
    crowd.loop.next_round()
    assert crowd.heard == [0, 1]
    assert crowd.texts.has_turn() is False


class Busy(Application):
    """Notes in which round of the loop it heard what."""

    def __init__(self) -> None:
        super().__init__()
        self.rounds = 0
        self.heard_in: list[int] = []

    def hear(self, text: str) -> float:
        self.heard_in.append(self.rounds)
        return super().hear(text)

    def count(self) -> None:
        self.rounds += 1
        asyncio.get_running_loop().call_soon(self.count)


async def test_a_connection_is_heard_in_order_while_its_large_texts_wait(monkeypatch: Any) -> None:
    monkeypatch.setattr(large_texts, "SLICE_S", 0.0)
    application = Busy()
    application.count()
    async with connected(application) as peer:
        said = [LARGE, "one", LARGE + "y", "two", LARGE + "z", "three"]
        peer.send(b"".join(frame(text.encode()) for text in said))
        assert [(await peer.next_frame())[1].decode() for _ in said] == said
    first, one, second, two, third, three = application.heard_in
    assert first == one < second == two < third == three


async def test_of_many_small_ones_in_a_row_the_next_wait_too(monkeypatch: Any) -> None:
    monkeypatch.setattr(large_texts, "SLICE_S", 0.0)
    application = Busy()
    application.count()
    async with connected(application) as peer:
        said = [str(number) for number in range(10 * FRAMES_AT_ONCE)]
        peer.send(b"".join(frame(text.encode()) for text in said))
        assert [(await peer.next_frame())[1].decode() for _ in said] == said
    most = max(Counter(application.heard_in).values())
    assert most <= 3 * FRAMES_AT_ONCE


class Heard:
    """Who was heard in which round, of all connections."""

    def __init__(self) -> None:
        self.rounds = Busy()
        self.rounds.count()
        self.names: list[str] = []
        self.in_round: Counter[int] = Counter()

    def by(self, name: str) -> Application:
        application = Application()
        application.principal = name

        def hear(text: str) -> float:
            self.names.append(name)
            self.in_round[self.rounds.rounds] += 1
            return 0

        application.hear = hear  # type: ignore[method-assign]
        return application


async def test_many_who_say_one_small_text_each_are_heard_in_several_rounds(monkeypatch: Any) -> None:
    """Two hundred of one token, eight texts each, held the loop for as long as all of them took."""
    monkeypatch.setattr(large_texts, "SLICE_S", 0.0)
    heard = Heard()
    async with AsyncExitStack() as all_of_them:
        peers = [await all_of_them.enter_async_context(connected(heard.by("ann"))) for _ in range(MANY)]
        for peer in peers:
            peer.send(frame(b"one") * 3)
        while len(heard.names) < 3 * MANY:
            await asyncio.sleep(0)
    assert max(heard.in_round.values()) <= 2 * 3


async def test_one_with_many_connections_is_heard_no_longer_than_another(monkeypatch: Any) -> None:
    monkeypatch.setattr(large_texts, "SLICE_S", 0.0)
    heard = Heard()
    async with AsyncExitStack() as all_of_them:
        peers = [await all_of_them.enter_async_context(connected(heard.by("ann"))) for _ in range(MANY)]
        application = heard.by("ben")
        ben = await all_of_them.enter_async_context(connected(application))
        ben_line = application.line
        for peer in peers:
            peer.send(frame(b"one") * (10 * FRAMES_AT_ONCE))
        while len(heard.names) < 5 * MANY * FRAMES_AT_ONCE:
            await asyncio.sleep(0)
        before, received = len(heard.names), ben_line.data_received

        def note(data: bytes) -> None:
            nonlocal before
            before = len(heard.names)
            received(data)

        ben_line.data_received = note
        ben.send(frame(b"one"))
        while "ben" not in heard.names:
            await asyncio.sleep(0)
        assert heard.names.index("ben") - before <= 3 * FRAMES_AT_ONCE
        while heard.names.count("ann") < 10 * MANY * FRAMES_AT_ONCE:
            await asyncio.sleep(0)


async def test_who_leaves_while_its_text_waits_is_not_heard(
    monkeypatch: Any, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(large_texts, "SLICE_S", 0.0)
    application = Busy()
    waiting = asyncio.Event()

    def leave(text: str) -> float:
        application.heard.append(text)
        peer.writer.transport.abort()
        application.line.transport.abort()
        waiting.set()
        return 0

    application.hear = leave  # type: ignore[method-assign]
    async with connected(application) as peer:
        peer.send(frame(LARGE.encode()) * 3)
        await waiting.wait()
    assert application.heard == [LARGE]
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []
