"""A node's door is told of tokens at its next tick: whoever comes before is known to the node, and let in."""

import asyncio

import pytest

from gateway.listener import NodeListener
from kafkaserver.guard import Guard
from muster.kafkawire.api_table import ApiKey
from muster.kernel.error_codes import ErrorCode
from muster.messages.link.callers import CallerRow
from runtime import clock
from tests.unit.coordinator.shards import eventually
from tests.unit.gateway.doors import DoorNode, kafka_door
from tests.unit.kafkaserver.test_callers_may_what_their_tokens_say import TOKEN, row


@pytest.mark.parametrize("before", [(), (row(prefix="ffffffff"),)], ids=["a new name", "replaced"])
@pytest.mark.parametrize("user", ["orders-app", "mst_0a0b0c0d"])
async def test_a_token_of_which_its_node_has_just_heard_is_good_before_the_next_tick(
    before: tuple[CallerRow, ...], user: str
) -> None:
    """The node looks for nobody whom it knows: nothing new is found, and the door asks what that is."""
    guard = Guard(sasl=True)
    guard.know(before)
    async with kafka_door(guard=guard) as door:
        assert isinstance(door.node, DoorNode)
        door.node.kafka_callers = (row(),)
        ann = await door.peer()
        await ann.ask(ApiKey.SASL_HANDSHAKE, 1, mechanism="PLAIN")
        proof = f"\0{user}\0{TOKEN}".encode()
        answer = await ann.ask(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=proof)
        assert ErrorCode(answer.error_code) is ErrorCode.NONE


async def test_a_stranger_is_refused() -> None:
    guard = Guard(sasl=True)
    guard.know(())
    async with kafka_door(guard=guard) as door:
        door.node.kafka_callers = ()
        ann = await door.peer()
        await ann.ask(ApiKey.SASL_HANDSHAKE, 1, mechanism="PLAIN")
        answer = await ann.ask(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=f"\0ann\0{TOKEN}".encode())
        assert ErrorCode(answer.error_code) is ErrorCode.SASL_AUTHENTICATION_FAILED


async def test_nobody_comes_in_before_its_node_knows_who_may() -> None:  # CVE-2024-27309
    async with kafka_door() as door:
        late = NodeListener(door.node, door.services, guard=Guard(sasl=True))
        port = late.bind("127.0.0.1", 0)
        late.tick(clock.now())
        await eventually(lambda: late._cluster.is_known)
        late.tick(clock.now())
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port)
        door.node.kafka_callers = ()
        late.tick(clock.now())
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.close()
        await late.drain(grace_ms=0)
