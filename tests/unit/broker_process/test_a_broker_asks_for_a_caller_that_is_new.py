"""A broker asks the controller, if that answers, for a token that it was not told of: once, only so often."""

import pytest

from broker.callers import ANSWER_MS, UNKNOWN_MS, UNKNOWN_NAMES, ToldCallers
from kafkaserver.guard import Guard
from kafkaserver.newcomers import IN_ALL, OF_ONE_NETWORK, WAITING
from muster.kernel.instants import Instant, after
from muster.messages.link.callers import Callers
from muster.messages.link.from_broker import FromBroker, LookForCaller
from muster.messages.link.protocol import LINK_PROTOCOL, LOOKS_FOR_CALLERS
from muster.messages.link.to_broker import CallerLookedFor
from tests.unit.kafkaserver.test_callers_may_what_their_tokens_say import row

HOME = "192.0.2.1"
PREFIX = row().prefix
TOKEN_USER = f"mst_{PREFIX}"


class Link:
    """A link to a node of this version; keeps what is asked on it."""

    def __init__(self, protocol: int = LINK_PROTOCOL) -> None:
        self.time = Instant(1_000)
        self.asked: list[LookForCaller] = []
        self.is_up = True
        self.guard = Guard(sasl=True)
        self.callers = ToldCallers(self.guard, self.guard.know, self.send, lambda: self.time)
        self.callers.linked(protocol)

    def send(self, frame: FromBroker) -> bool:
        assert isinstance(frame, LookForCaller)
        if self.is_up:
            self.asked.append(frame)
        return self.is_up

    def answer(self, *numbers: int) -> None:
        """To the last question, or to these."""
        for number in numbers or (self.asked[-1].number,):
            self.callers.looked_for(CallerLookedFor(number=number))

    def wait(self, ms: int) -> None:
        self.time = after(self.time, ms)


async def test_who_is_told_of_is_known_when_the_answer_comes() -> None:
    link = Link()
    told = link.callers.look_for(TOKEN_USER, HOME)
    assert told is not None and not told.done()
    assert [(one.name, one.peer) for one in link.asked] == [(PREFIX, HOME)]
    link.callers.hear(Callers(callers=(row(),)))
    link.answer()
    assert told.done() and link.guard.caller(TOKEN_USER) is not None
    assert not link.callers._unknown


@pytest.mark.parametrize("protocol", [0, LOOKS_FOR_CALLERS - 1])
async def test_a_node_of_before_is_not_asked(protocol: int) -> None:
    link = Link(protocol)
    assert link.callers.look_for(TOKEN_USER, HOME) is None and link.asked == []


async def test_without_a_link_nobody_is_asked() -> None:
    link = Link()
    link.is_up = False
    assert link.callers.look_for(TOKEN_USER, HOME) is None
    link.is_up = True
    told = link.callers.look_for(TOKEN_USER, HOME)
    link.callers.link_lost()
    assert link.callers.look_for("another", HOME) is None
    link.answer()
    # It goes on waiting for what the next link tells.
    assert told is not None and not told.done() and not link.callers._looks


async def test_who_comes_meanwhile_shares_one_more_question() -> None:
    link = Link()
    first = link.callers.look_for("orders-app", HOME)
    others = [link.callers.look_for("orders-app", f"10.0.0.{number}") for number in range(50)]
    assert len(link.asked) == 1
    link.answer()
    assert first is not None and first.done()
    # Their token may have been made behind the first look.
    assert len(link.asked) == 2 and not any(one is None or one.done() for one in others)
    link.callers.hear(Callers(callers=(row(),)))
    link.answer()
    assert len(link.asked) == 2 and all(one is not None and one.done() for one in others)
    assert not link.callers._looks


async def test_when_the_first_look_finds_it_all_are_let_in() -> None:
    link = Link()
    told = [link.callers.look_for(TOKEN_USER, f"10.0.0.{number}") for number in range(3)]
    link.callers.hear(Callers(callers=(row(),)))
    link.answer()
    assert len(link.asked) == 1 and all(one is not None and one.done() for one in told)


async def test_a_name_that_nobody_bears_is_not_asked_for_again_at_once() -> None:
    link = Link()
    assert link.callers.look_for("nobody", HOME) is not None
    link.answer()
    link.wait(UNKNOWN_MS)
    assert link.callers.look_for("nobody", HOME) is None
    link.wait(1)
    assert link.callers.look_for("nobody", HOME) is not None
    assert [one.name for one in link.asked] == ["nobody", "nobody"]


async def test_one_network_asks_only_so_often() -> None:
    link = Link()
    for number in range(OF_ONE_NETWORK[0] + 5):
        link.callers.look_for(f"name-{number}", HOME)
    assert len(link.asked) == OF_ONE_NETWORK[0]
    assert link.callers.look_for("name", "192.0.2.2") is not None


async def test_so_it_does_where_somebody_comes_during_each_look() -> None:
    link = Link()
    for _ in range(OF_ONE_NETWORK[0] * 3):
        for _ in range(2):
            link.callers.look_for("nobody", HOME)
        if link.callers._looks:
            link.answer()
    assert len(link.asked) == OF_ONE_NETWORK[0]


async def test_all_together_ask_only_so_often_and_no_more_wait_than_a_door_lets() -> None:
    link = Link()
    for number in range(WAITING + 5):
        link.callers.look_for(f"name-{number}", f"10.0.0.{number}")
    assert len(link.asked) == min(WAITING, IN_ALL[0]) == len(link.callers._looks)
    link.answer(*(one.number for one in link.asked))
    assert not link.callers._looks
    for number in range(100):
        link.callers.look_for(f"late-{number}", f"10.0.1.{number}")
    assert len(link.asked) <= IN_ALL[0]


async def test_a_controller_that_does_not_answer_is_asked_again_later() -> None:
    link = Link()
    first = link.callers.look_for("orders-app", HOME)
    link.wait(ANSWER_MS + 1)
    second = link.callers.look_for("orders-app", HOME)
    assert [one.number for one in link.asked] == [1, 2]
    link.answer(1)
    assert first is not None and not first.done()
    link.answer(2)
    assert second is not None and second.done()


async def test_what_is_remembered_of_strangers_is_bounded() -> None:
    link = Link()
    for number in range(UNKNOWN_NAMES * 2):
        # So slowly that each is asked for, within the time that names are remembered.
        if link.callers.look_for(f"name-{number}", f"10.{number >> 8}.0.{number & 255}") is not None:
            link.answer()
            link.callers._unknown[f"name-{number}"] = link.time
        link.callers._bounds._in_all.forget()
    assert len(link.callers._unknown) <= UNKNOWN_NAMES


@pytest.mark.parametrize("name", ["x" * 151, "a\x00b", "\ud800"])
async def test_what_no_token_is_called_is_not_asked_for(name: str) -> None:
    link = Link()
    assert link.callers.look_for(name, HOME) is None


async def test_a_telling_in_frames_is_heeded_when_its_last_has_come() -> None:
    link = Link()
    link.callers.hear(Callers(callers=(row(),), last=False))
    assert link.guard.caller(TOKEN_USER) is None
    link.callers.link_lost()
    link.callers.hear(Callers(callers=()))
    assert link.guard.caller(TOKEN_USER) is None


async def test_of_a_known_name_a_newer_token_is_asked_for() -> None:
    link = Link()
    link.guard.know((row(),))
    first = link.callers.look_for("orders-app", HOME)
    shared = link.callers.look_for("orders-app", HOME)
    link.answer()
    # Nothing newer yet: those who came since have it looked for once more.
    assert first is not None and first.done() and len(link.asked) == 2
    link.callers.hear(Callers(callers=(row(prefix="0a0b0c0e"),)))
    link.answer()
    assert shared is not None and shared.done() and len(link.asked) == 2 and not link.callers._unknown
