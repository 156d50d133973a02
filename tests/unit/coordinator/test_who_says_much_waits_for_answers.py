"""Commits that are large in words cost much more to take apart: who does not wait for answers is not read."""

import asyncio
from collections.abc import Callable

import pytest

from coordinator.connections import UNANSWERED_CHARACTERS
from coordinator.sockets import TEXT_EXTENSION, ConsumerSocket
from muster.messages import codec
from muster.messages.member import ClusterMetadataRequest
from tests.unit.coordinator.test_sockets_leave_nothing_behind import BOUND_S, SCOPE, Peer, new_door

ASKS = codec.encode(ClusterMetadataRequest(correlation_id=1, group_id="readers")).decode()


class Line:
    """A server that rests from reading when it is asked to."""

    hear: Callable[[str], float]

    def __init__(self) -> None:
        self.rests = 0
        self.reads_on = 0

    def hear_by(self, hear: Callable[[str], float], fits: Callable[[int], bool]) -> None:
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


async def test_reading_rests_from_so_much_that_is_unanswered_on_until_it_is_less(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    door, line, peer = new_door(), Line(), Peer()
    monkeypatch.setattr(door, "tell_metadata", lambda *_: None)
    scope = SCOPE | {"extensions": {TEXT_EXTENSION: line}}
    serving = asyncio.create_task(ConsumerSocket(door)(scope, peer.receive, peer.send))
    async with asyncio.timeout(BOUND_S):
        while not peer.heard:
            await asyncio.sleep(0)
    [connection] = door._connections.all()
    small, large = 100, UNANSWERED_CHARACTERS - 100
    connection.commit_came(large)
    line.hear(ASKS)
    assert line.rests == 0
    connection.commit_came(small)
    line.hear(ASKS)
    line.hear(ASKS)
    assert (line.rests, line.reads_on) == (1, 0), "once, and not yet"
    connection.commit_answered(small)
    assert (line.rests, line.reads_on) == (1, 1)
    connection.commit_answered(large)
    assert (line.rests, line.reads_on, connection.unanswered_characters) == (1, 1, 0)
    peer.goes()
    await serving
