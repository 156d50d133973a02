"""What is said to one websocket in a row leaves with one write, in its order, and before what follows."""

import asyncio
from typing import Any

import pytest

from node import said_texts
from node.said_texts import HELD_BYTES_MAX, SaidTexts
from tests.unit.node.rounds import Rounds
from tests.unit.node.test_texts_take_the_short_way import CLOSE, TEXT, Application, connected, frame


class Transport:
    """Notes each write."""

    def __init__(self) -> None:
        self.writes: list[bytes] = []
        self.closing = False

    def write(self, data: bytes) -> None:
        self.writes.append(data)

    def is_closing(self) -> bool:
        return self.closing


def said_on(loop: Rounds) -> SaidTexts:
    return SaidTexts(loop)  # type: ignore[arg-type]


def say(said: SaidTexts, transport: Transport, *texts: bytes) -> None:
    for text in texts:
        said.say(transport, text)  # type: ignore[arg-type]


def test_texts_to_one_peer_leave_in_one_write_in_the_next_round() -> None:
    loop, ann = Rounds(), Transport()
    said = said_on(loop)
    say(said, ann, b"one", b"two", b"three")
    assert ann.writes == []
    loop.next_round()
    assert ann.writes == [b"onetwothree"]
    say(said, ann, b"four")
    loop.next_round()
    assert ann.writes == [b"onetwothree", b"four"]


def test_who_is_spoken_to_next_makes_the_one_before_hear() -> None:
    loop, ann, ben = Rounds(), Transport(), Transport()
    said = said_on(loop)
    say(said, ann, b"one", b"two")
    say(said, ben, b"three")
    assert (ann.writes, ben.writes) == ([b"onetwo"], [])
    loop.next_round()
    assert (ann.writes, ben.writes) == ([b"onetwo"], [b"three"])


def test_much_is_not_held() -> None:
    loop, ann = Rounds(), Transport()
    said = said_on(loop)
    long = b"x" * HELD_BYTES_MAX
    say(said, ann, b"a", long, b"b")
    assert ann.writes == [b"a" + long]
    loop.next_round()
    assert ann.writes == [b"a" + long, b"b"]


def test_to_who_is_gone_by_then_nothing_is_said() -> None:
    loop, ann, ben = Rounds(), Transport(), Transport()
    said = said_on(loop)
    say(said, ann, b"one")
    ann.closing = True
    say(said, ben, b"two")
    loop.next_round()
    assert (ann.writes, ben.writes) == ([], [b"two"])


class Farewell(Application):
    """Says two texts by the short way, and a third and the close by the long one."""

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        self.send = send
        await super().__call__(scope, receive, send)

    def hear(self, text: str) -> float:
        assert self.line.say_now(b"one")
        assert self.line.say_now(b"two")
        # At once, in the same round of the loop: nothing of it has to wait.
        for message in (
            {"type": "websocket.send", "text": "three"},
            {"type": "websocket.close", "code": 1001},
        ):
            with pytest.raises(StopIteration):
                self.send(message).send(None)
        return 0.0


async def test_the_long_way_comes_after_the_short_one() -> None:
    async with connected(Farewell()) as peer:
        peer.send(frame(b"hello"))
        heard = [await peer.next_frame() for _ in range(4)]
        assert heard[:3] == [(TEXT, b"one"), (TEXT, b"two"), (TEXT, b"three")]
        assert heard[3][0] == CLOSE


async def test_the_websockets_of_one_loop_share_what_is_held() -> None:
    loop = asyncio.get_running_loop()
    assert said_texts.said_texts(loop) is said_texts.said_texts(loop)
