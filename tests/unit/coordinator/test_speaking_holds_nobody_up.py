"""This room sees that thousands are told in slices, each of them in order, and that others come between."""

import asyncio
import logging
from typing import Any, cast

import pytest

from coordinator.callers import Callers
from coordinator.core.events import ConnectionId, HangUp, Say
from coordinator.speech import ANSWERS_A_LOOK, HANG_UPS_A_SLICE, SLICE_MS, Speech
from muster.kernel.error_codes import ErrorCode
from muster.kernel.instants import Instant

SHARD = 0


class Peer:
    """A caller that keeps what it hears in a list of the whole node."""

    closing = False

    def __init__(self, name: str, heard: list[tuple[str, Any]]) -> None:
        self.id = ConnectionId(name)
        self._heard = heard

    def say(self, message: Any) -> None:
        if message == "break":
            raise RuntimeError("a mistake of ours")
        self._heard.append((self.id, message))

    def hang_up(self, error: ErrorCode, text: str) -> None:
        self._heard.append((self.id, error))


class Stage:
    """A node's speech; each look at its clock costs `ms`."""

    def __init__(self, *names: str, ms: int = 0) -> None:
        self.ms, self.now = ms, 0
        self.heard: list[tuple[str, Any]] = []
        self.callers = Callers()
        self.speech = Speech(self.callers, self._look)
        for name in names:
            self.callers.add(Peer(name, self.heard), SHARD)

    def _look(self) -> Instant:
        self.now += self.ms
        return Instant(self.now)

    def say(self, name: str, message: Any) -> None:
        self.speech.say(Say(ConnectionId(name), cast(Any, message)))

    def hang_up(self, name: str) -> None:
        self.speech.say(HangUp(ConnectionId(name), ErrorCode.NOT_COORDINATOR, ""))

    def messages(self, name: str) -> list[Any]:
        return [message for one, message in self.heard if one == name]

    async def all_is_said(self, many: int) -> None:
        async with asyncio.timeout(5):
            while len(self.heard) < many:
                await asyncio.sleep(0)


async def test_a_few_are_told_at_once() -> None:
    stage = Stage("ann", "ben")
    stage.say("ann", 1)
    stage.say("ben", 2)
    assert stage.heard == [("ann", 1), ("ben", 2)]


async def test_a_thousand_are_told_in_slices_between_which_others_have_their_turn() -> None:
    names = [f"member-{number}" for number in range(1_000)]
    stage = Stage(*names, ms=1)
    for name in names:
        stage.say(name, "start")
    rounds = []
    while len(stage.heard) < len(names):
        before = len(stage.heard)
        await asyncio.sleep(0)
        rounds.append(len(stage.heard) - before)
    assert max(rounds) <= SLICE_MS
    assert [name for name, _ in stage.heard] == names


async def test_a_thousand_commits_are_answered_in_slices_too() -> None:
    names = [f"member-{number}" for number in range(1_000)]
    stage = Stage(ms=1)
    for name in names:
        stage.speech.answer(ConnectionId(name), lambda what: stage.heard.append(what), (name, "committed"))
    assert len(stage.heard) <= SLICE_MS * (1 + ANSWERS_A_LOOK)
    await stage.all_is_said(len(names))
    assert [name for name, _ in stage.heard] == names


async def test_what_is_said_later_to_the_same_caller_waits_behind() -> None:
    stage = Stage("ann", "ben", ms=SLICE_MS)
    stage.say("ben", "said")
    stage.say("ann", "stop")
    stage.say("ann", "start")
    acknowledged: list[Any] = []
    stage.speech.answer(
        ConnectionId("ann"), lambda what: acknowledged.append((what, stage.messages("ann"))), 7
    )
    stage.speech.answer_at_once(ConnectionId("ann"), lambda what: stage.heard.append(("ann", what)), "nodes")
    stage.hang_up("ann")
    assert stage.heard == [("ben", "said")]
    await stage.all_is_said(5)
    assert stage.messages("ann") == ["stop", "start", "nodes", ErrorCode.NOT_COORDINATOR]
    assert acknowledged == [(7, ["stop", "start"])]


async def test_who_is_gone_hears_nothing() -> None:
    stage = Stage("ann", "ben", ms=SLICE_MS)
    stage.say("ben", 1)
    stage.say("ann", 2)
    stage.say("ben", 3)
    ann = stage.callers.get(ConnectionId("ann"))
    assert ann is not None
    stage.callers.remove(ann, SHARD)
    await stage.all_is_said(2)
    assert stage.heard == [("ben", 1), ("ben", 3)]


async def test_hang_ups_are_few_in_a_slice_because_each_wakes_a_task() -> None:
    names = [f"member-{number}" for number in range(HANG_UPS_A_SLICE + 1)]
    stage = Stage(*names)
    for name in names:
        stage.hang_up(name)
    assert len(stage.heard) == HANG_UPS_A_SLICE
    await stage.all_is_said(len(names))


async def test_a_mistake_in_one_answer_costs_one_connection(caplog: pytest.LogCaptureFixture) -> None:
    stage = Stage("ann", "ben", "cleo", ms=SLICE_MS)
    with caplog.at_level(logging.CRITICAL):
        for name, message in (("cleo", "start"), ("ann", "break"), ("ben", "start")):
            stage.say(name, message)
        await stage.all_is_said(3)
    assert stage.heard[1:] == [("ann", ErrorCode.UNKNOWN_SERVER_ERROR), ("ben", "start")]


async def test_who_waits_for_nothing_is_answered_at_once_while_others_wait() -> None:
    stage = Stage("ann", "ben", "cleo", ms=SLICE_MS)
    stage.say("ben", "said")
    stage.say("ann", "stop")
    stage.speech.answer_at_once(ConnectionId("cleo"), lambda what: stage.heard.append(("cleo", what)), 1)
    stage.say("cleo", 2)
    stage.speech.answer_at_once(ConnectionId("cleo"), lambda what: stage.heard.append(("cleo", what)), 3)
    assert stage.heard == [("ben", "said"), ("cleo", 1)]
    await stage.all_is_said(5)
    assert stage.heard[2:] == [("ann", "stop"), ("cleo", 2), ("cleo", 3)]


async def test_of_answers_of_many_partitions_each_looks_at_the_clock() -> None:
    stage = Stage("ann", ms=SLICE_MS)
    ann = ConnectionId("ann")
    for number in range(4):
        stage.speech.answer(ann, lambda what: stage.heard.append((ann, what)), number, partitions=4_000)
    assert stage.messages("ann") == [0], "the slice is over with the first"
    await stage.all_is_said(4)
    assert stage.messages("ann") == list(range(4))
