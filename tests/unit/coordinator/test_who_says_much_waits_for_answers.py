"""Commits that are large in words cost much more to take apart: who does not wait for answers is not read."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from coordinator.connections import UNANSWERED_CHARACTERS, MemberConnection
from coordinator.sockets import TEXT_EXTENSION, ConsumerSocket
from muster.messages import codec
from muster.messages.member import CommitOffsetsRequest
from tests.unit.coordinator.test_sockets_leave_nothing_behind import BOUND_S, SCOPE, Peer, new_door

COMMITS = codec.encode(CommitOffsetsRequest(correlation_id=1, consumer_id="a" * 200, offset_info=())).decode()
ENOUGH = -(-UNANSWERED_CHARACTERS // len(COMMITS))
"""So many of them are too much."""


class Line:
    """A server that rests from reading when it is asked to."""

    hear: Callable[[str], float]
    connection: MemberConnection

    def __init__(self) -> None:
        self.rests = 0
        self.reads_on = 0

    def hear_by(self, hear: Callable[[str], float], fits: Callable[[int], bool], whose: str) -> None:
        self.hear = hear

    def say_now(self, payload: bytes) -> bool:
        return False

    def rest(self) -> Callable[[], None]:
        self.rests += 1
        return self._read_on

    def _read_on(self) -> None:
        self.reads_on += 1

    def cut_off_within(self, seconds: float) -> None:
        """Nobody is behind it."""


@pytest.fixture
async def line(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Line]:
    """Of a connection whose commits nobody answers before its test does."""
    door, line, peer = new_door(), Line(), Peer()
    monkeypatch.setattr(door, "commit", lambda connection, _, characters: connection.commit_came(characters))
    scope = SCOPE | {"extensions": {TEXT_EXTENSION: line}}
    serving = asyncio.create_task(ConsumerSocket(door)(scope, peer.receive, peer.send))
    async with asyncio.timeout(BOUND_S):
        while not peer.heard:
            await asyncio.sleep(0)
    [line.connection] = door._connections.all()
    yield line
    peer.goes()
    await serving


async def test_reading_rests_from_so_much_that_is_unanswered_on_until_it_is_less(line: Line) -> None:
    for _ in range(ENOUGH - 1):
        line.hear(COMMITS)
    assert line.rests == 0
    line.hear(COMMITS)
    line.hear(COMMITS)
    assert (line.rests, line.reads_on) == (1, 0), "once, and not yet"
    line.connection.commit_answered(len(COMMITS))
    assert line.reads_on == 0, "it is still too much"
    for _ in range(ENOUGH):
        line.connection.commit_answered(len(COMMITS))
    assert (line.rests, line.reads_on, line.connection.unanswered_characters) == (1, 1, 0)


async def test_whoever_is_hung_up_on_meanwhile_is_read_so_that_its_answer_is_heard(line: Line) -> None:
    for _ in range(ENOUGH):
        line.hear(COMMITS)
    line.connection.close(1008, "the token is gone")
    assert (line.rests, line.reads_on) == (1, 1)
    line.hear(COMMITS)
    assert line.rests == 1, "what comes behind it is not heard"
