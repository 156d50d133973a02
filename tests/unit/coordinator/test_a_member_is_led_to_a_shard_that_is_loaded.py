"""Who asks for its coordinator is led to this node once the shard is loaded, on its own connection."""

from typing import Any

import pytest

from access.grants import Role
from access.tokens import Caller
from coordinator import door as door_module
from coordinator.connections import MemberConnection
from coordinator.door import ConsumerDoor
from coordinator.service import ShardService, build
from muster.kernel.error_codes import ErrorCode
from muster.kernel.shards import shard_of
from muster.messages import codec
from muster.messages.member import ClusterMetadataRequest, ClusterMetadataResponse
from runtime.ports import NodeContext, shard_lane
from tests.unit.coordinator.shards import Node, eventually

GROUP = "readers"
ELSEWHERE = "ws://two"


class Owner(Node):
    """It holds the shard's lease, or another node does."""

    doubts = 0
    owner = Node.address

    def owner_address(self, lane: str) -> str:
        return self.owner

    def doubt_owner(self) -> None:
        self.doubts += 1

    def verify_token(self, presented: str) -> Any:
        return Caller(presented, Role.CONSUMER, presented)


class Asking:
    """A member that has connected to a door, and what it was told."""

    def __init__(self) -> None:
        self.node = Owner()
        context: NodeContext = self.node
        services = build(context)
        self.shard: ShardService = services[shard_lane(shard_of(GROUP))]
        self.answers: list[ClusterMetadataResponse] = []
        self.door = ConsumerDoor(context, services)
        admitted = self.door.admit({b"authorization": b"Bearer ann"}, "127.0.0.1", self._send, self._say)
        assert isinstance(admitted, MemberConnection)
        self.connection = admitted

    async def _send(self, message: dict[str, Any]) -> None: ...

    def _say(self, payload: bytes) -> bool:
        answer = codec.decode_to_member(payload)
        assert isinstance(answer, ClusterMetadataResponse)
        self.answers.append(answer)
        return True

    def ask(self) -> None:
        question = ClusterMetadataRequest(correlation_id=1, group_id=GROUP, client_id="ann")
        self.door.tell_metadata(self.connection, question)


async def test_it_is_told_as_soon_as_the_shard_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door_module, "HELD_MAX_MS", 1 << 30)
    ann = Asking()
    ann.ask()
    assert ann.answers == []
    ann.shard.accepting = True
    await eventually(lambda: ann.answers)
    [answer] = ann.answers
    assert (answer.error_code, answer.coordinator_address) == (ErrorCode.NONE, Node.address)
    # The node knows itself: nobody else needs to be looked at.
    assert ann.node.doubts == 0


async def test_it_is_told_that_nobody_serves_where_that_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door_module, "HELD_MAX_MS", 2 * door_module.HELD_LOOK_MS)
    ann = Asking()
    ann.ask()
    await eventually(lambda: ann.answers)
    [answer] = ann.answers
    assert (answer.error_code, answer.coordinator_address) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, "")


async def test_who_asks_again_meanwhile_is_told_at_once_and_the_first_question_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(door_module, "HELD_MAX_MS", 1 << 30)
    ann = Asking()
    for _ in range(3):
        ann.ask()
    assert [one.error_code for one in ann.answers] == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 2
    ann.shard.accepting = True
    await eventually(lambda: len(ann.answers) == 3)
    assert ann.answers[-1].coordinator_address == Node.address
    ann.shard.accepting = False
    ann.ask()
    assert len(ann.answers) == 3
    ann.connection.closing = True


async def test_it_is_led_to_another_node_at_once() -> None:
    ann = Asking()
    ann.node.owner = ELSEWHERE
    ann.ask()
    [answer] = ann.answers
    assert (answer.error_code, answer.coordinator_address) == (ErrorCode.NONE, ELSEWHERE)
    assert ann.node.doubts == 1
