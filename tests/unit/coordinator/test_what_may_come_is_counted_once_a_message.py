"""How long a member's message may be is counted once for it, however many fragments it comes in."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from coordinator.door import ConsumerDoor
from coordinator.sockets import TEXT_EXTENSION, ConsumerSocket
from muster.messages import codec
from muster.messages.limits import FRAME_LIMIT_BYTES
from muster.messages.member import ClusterMetadataRequest
from tests.unit.coordinator.test_sockets_leave_nothing_behind import BOUND_S, SCOPE, Peer, new_door

ASKS = codec.encode(ClusterMetadataRequest(correlation_id=1, group_id="readers")).decode()


class Line:
    """A server that puts messages together, and asks before it keeps more of one."""

    hear: Callable[[str], float]
    fits: Callable[[int], bool]

    def hear_by(self, hear: Callable[[str], float], fits: Callable[[int], bool], whose: str) -> None:
        self.hear, self.fits = hear, fits

    def say_now(self, payload: bytes) -> bool:
        return False

    def rest(self) -> Callable[[], None]:
        raise AssertionError("nothing is unanswered")

    def cut_off_within(self, seconds: float) -> None:
        """Nobody is behind it."""


class Counted:
    """The door's answers, in their order, and how often it was asked."""

    def __init__(self, door: ConsumerDoor, monkeypatch: pytest.MonkeyPatch, *limits: int) -> None:
        self._left = list(limits)
        self.asked = 0
        monkeypatch.setattr(door, "inbound_limit_bytes", self)

    def __call__(self, connection: object, size_bytes: int) -> int:
        self.asked += 1
        return self._left[self.asked - 1]


@asynccontextmanager
async def connected(door: ConsumerDoor) -> AsyncIterator[tuple[Line, Peer]]:
    line, peer = Line(), Peer()
    scope = SCOPE | {"extensions": {TEXT_EXTENSION: line}}
    serving = asyncio.create_task(ConsumerSocket(door)(scope, peer.receive, peer.send))
    try:
        async with asyncio.timeout(BOUND_S):
            while not peer.heard:
                await asyncio.sleep(0)
        yield line, peer
    finally:
        peer.goes()
        await serving


async def test_a_message_of_thousands_of_fragments_is_counted_for_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    door = new_door()
    counted = Counted(door, monkeypatch, 2 * FRAME_LIMIT_BYTES)
    async with connected(door) as (line, _):
        assert all(line.fits(FRAME_LIMIT_BYTES + 1 + grown) for grown in range(10_000))
        assert counted.asked == 1


async def test_one_that_grows_beyond_it_is_refused_when_it_was_counted_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    door = new_door()
    counted = Counted(door, monkeypatch, 2 * FRAME_LIMIT_BYTES, 2 * FRAME_LIMIT_BYTES)
    async with connected(door) as (line, peer):
        assert line.fits(2 * FRAME_LIMIT_BYTES) and not line.fits(2 * FRAME_LIMIT_BYTES + 1)
        assert counted.asked == 2 and not line.fits(FRAME_LIMIT_BYTES), "it was hung up on"
        async with asyncio.timeout(BOUND_S):
            while peer.heard[-1]["type"] != "websocket.close":
                await asyncio.sleep(0)


async def test_for_the_next_message_counts_what_the_member_owns_by_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    door = new_door()
    counted = Counted(door, monkeypatch, 2 * FRAME_LIMIT_BYTES, FRAME_LIMIT_BYTES)
    monkeypatch.setattr(door, "tell_metadata", lambda connection, message: None)
    async with connected(door) as (line, _):
        assert line.fits(2 * FRAME_LIMIT_BYTES)
        line.hear(ASKS)
        assert not line.fits(2 * FRAME_LIMIT_BYTES) and counted.asked == 2
