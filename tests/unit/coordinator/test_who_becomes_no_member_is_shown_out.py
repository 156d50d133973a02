"""A connection that registers in time stays; one whose registration is refused goes when time is over."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from coordinator.connections import MemberConnection
from coordinator.door import ConsumerDoor
from coordinator.service import build
from coordinator.sockets import ConsumerSocket
from muster.kernel.error_codes import ErrorCode
from muster.messages.errors import POLICY_VIOLATION_CLOSE
from muster.messages.member import RegisterConsumerResponse
from tests.unit.coordinator.test_sockets_leave_nothing_behind import SCOPE, Node, Peer

LATE = {
    "type": "websocket.close",
    "code": POLICY_VIOLATION_CLOSE,
    "reason": "RegisterConsumer did not come in time",
}


class Door(ConsumerDoor):
    """One that waits 20 ms for a registration, of whoever does not register with the handshake."""

    registers = False

    def admit(self, *arguments: Any, **named: Any) -> MemberConnection | int:
        connection = super().admit(*arguments, **named)
        assert isinstance(connection, MemberConnection)
        connection.group_id = "orders" if self.registers else None
        return connection


class Opened:
    """A connection at the door, and its peer."""

    def __init__(self, door: Door) -> None:
        self.peer = Peer()
        self.serving = asyncio.create_task(ConsumerSocket(door)(SCOPE, self.peer.receive, self.peer.send))


async def registering(door: Door) -> tuple[Opened, MemberConnection]:
    """Somebody who has registered, and was not answered yet."""
    before = len(door._connections)
    door.registers, opened = True, Opened(door)
    while len(door._connections) == before:
        await asyncio.sleep(0)
    door.registers = False
    return opened, door._connections.all()[-1]


@pytest.fixture
def door() -> Door:
    node: Any = Node()
    made = Door(node, build(node))
    made.limits = replace(made.limits, registration_timeout_ms=20)
    return made


def answer(error: ErrorCode) -> RegisterConsumerResponse:
    return RegisterConsumerResponse(correlation_id=1, error_code=error)


async def test_whoever_was_refused_goes_and_a_member_stays(door: Door) -> None:
    async with asyncio.timeout(10):
        ann, member = await registering(door)
        ben, refused = await registering(door)
        member.say(answer(ErrorCode.NONE))
        refused.say(answer(ErrorCode.INVALID_SESSION_TIMEOUT))
        silent = Opened(door)
        await asyncio.gather(ben.serving, silent.serving)
        assert ben.peer.heard[-1] == silent.peer.heard[-1] == LATE
        assert not member.closing, "it has registered"
        ann.peer.goes()
        await ann.serving


async def test_whoever_waits_for_an_answer_is_waited_for(door: Door) -> None:
    async with asyncio.timeout(10):
        ann, waiting = await registering(door)
        # Somebody who says nothing is sent away twice meanwhile.
        for _ in range(2):
            await Opened(door).serving
        assert not waiting.closing
        waiting.say(answer(ErrorCode.GROUP_SIZE_EXCEEDED))
        await ann.serving
    assert ann.peer.heard[-1] == LATE
