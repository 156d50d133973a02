"""A member whose token names groups and topics registers for those and no others."""

from typing import Any

import pytest

from access.grants import Role
from access.tokens import Caller
from coordinator.connections import MemberConnection
from coordinator.door import ConsumerDoor
from coordinator.service import build
from muster.kernel.error_codes import ErrorCode
from muster.kernel.instants import Instant
from muster.kernel.scopes import Scope
from muster.messages import codec
from muster.messages.member import RegisterConsumerRequest, RegisterConsumerResponse, TopicCount
from runtime.ports import NodeContext

HEADERS = {b"authorization": b"Bearer ann"}


class Node:
    """As much of a node as the door asks: it holds no shard."""

    node, address, frozen, tokens_known, kafka_callers = "node-1", "ws://one", False, True, None

    def now(self) -> Instant:
        return Instant(0)

    def live_nodes(self) -> tuple[()]:
        return ()

    def owner_address(self, lane: str) -> None:
        return None

    def verify_token(self, presented: str) -> Caller:
        return Caller(
            presented, Role.CONSUMER, presented, Scope.of(["orders", "logs-*"]), Scope.of(["team-a-*"])
        )


async def _send(message: dict[str, Any]) -> None: ...


def refusal(group: str, *wishes: TopicCount) -> tuple[ErrorCode, str]:
    """What the door says to who registers so; COORDINATOR_NOT_AVAILABLE where the token is good."""
    said: list[bytes] = []

    def say_now(payload: bytes) -> bool:
        said.append(payload)
        return True

    node: NodeContext = Node()  # type: ignore[assignment]
    door = ConsumerDoor(node, build(node))
    connection = door.admit(HEADERS, "127.0.0.1", _send, say_now)
    assert isinstance(connection, MemberConnection)
    request = RegisterConsumerRequest(
        correlation_id=1,
        group_id=group,
        consumer_id="ann",
        token="t" * 43,
        session_timeout_ms=10_000,
        topic_count=wishes,
    )
    door.register(connection, request)
    response = codec.decode_to_member(said[0])
    assert isinstance(response, RegisterConsumerResponse)
    return ErrorCode(response.error_code), response.error_text


def test_names_of_the_token_pass() -> None:
    wishes = TopicCount("orders", 1), TopicCount("logs-web", 2)
    assert refusal("team-a-1", *wishes)[0] is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_another_group_is_refused() -> None:
    assert refusal("team-b", TopicCount("orders", 1)) == (
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        "the token is not good for group team-b",
    )


@pytest.mark.parametrize("wish", [TopicCount("payments", 1), TopicCount("orders.*", 1, is_pattern=True)])
def test_another_topic_and_any_pattern_are_refused(wish: TopicCount) -> None:
    error, text = refusal("team-a-1", TopicCount("orders", 1), wish)
    assert error is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert wish.topic in text
