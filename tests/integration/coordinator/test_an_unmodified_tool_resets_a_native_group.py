"""Kafka's admin clients set the offsets of a native group without members; who comes goes on from there."""

import asyncio
from collections.abc import Callable

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from muster.kernel.error_codes import ErrorCode
from tests.integration.coordinator.conftest import NewMember
from tests.integration.coordinator.control_plane import PATIENCE_S, ControlPlane


class Tool:
    """librdkafka's AdminClient, which knows the node's Kafka listener and nothing of native groups."""

    def __init__(self, plane: ControlPlane, group: str) -> None:
        [[address]] = plane.query("SELECT addresses ->> 'kafka' FROM node_session WHERE NOT ended")
        self._admin = AdminClient({"bootstrap.servers": str(address), "log_level": 0})
        self._group = group

    async def sets(self, **offsets: int) -> dict[int, int]:
        """`--reset-offsets --execute`: partitions as `p0`, and their errors, 0 for none."""
        wanted = [TopicPartition("orders", int(name[1:]), offset) for name, offset in offsets.items()]
        asked = ConsumerGroupTopicPartitions(self._group, wanted)
        told = await _answer(lambda: self._admin.alter_consumer_group_offsets([asked])[self._group])
        return {one.partition: one.error.code() if one.error else 0 for one in told.topic_partitions or ()}

    async def lists(self) -> dict[int, int]:
        """What the group has committed."""
        asked = ConsumerGroupTopicPartitions(self._group)
        told = await _answer(lambda: self._admin.list_consumer_group_offsets([asked])[self._group])
        return {one.partition: one.offset for one in told.topic_partitions or ()}


async def _answer(ask: Callable[[], object]) -> ConsumerGroupTopicPartitions:
    return await asyncio.to_thread(lambda: ask().result(PATIENCE_S))  # type: ignore[attr-defined]


async def test_a_member_goes_on_where_the_tool_set_the_offsets(
    plane: ControlPlane, group: str, new_member: NewMember
) -> None:
    tool = Tool(plane, group)
    ann = new_member("ann")
    await ann.connect()
    await ann.register()
    await ann.owns(0, 1, 2, 3)
    assert (await ann.commit({0: 100, 1: 100})).error_code == ErrorCode.NONE
    try:
        refused = await tool.sets(p0=7)
    except KafkaException as error:
        refused = {0: error.args[0].code()}
    # While a member is there, which would commit over it.
    assert refused == {0: ErrorCode.UNKNOWN_MEMBER_ID}
    assert (await ann.leave()).error_code == ErrorCode.NONE

    assert await tool.sets(p0=7, p2=20) == {0: 0, 2: 0}
    assert await tool.lists() == {0: 7, 1: 100, 2: 20}

    ben = new_member("ben")
    await ben.connect()
    await ben.register()
    await ben.owns(0, 1, 2, 3)
    assert ben.owned == {0: 7, 1: 100, 2: 20, 3: -1}
    assert (await ben.commit({0: 8})).error_code == ErrorCode.NONE
    assert (await tool.lists())[0] == 8


async def test_who_was_cut_off_begins_where_the_tool_set_the_offsets(
    plane: ControlPlane, group: str, new_member: NewMember
) -> None:
    """The same process, with what it has read in hand: it must not commit over what was set."""
    tool = Tool(plane, group)
    ann = new_member("ann")
    ann.session_timeout_ms = 2_000
    await ann.connect()
    await ann.register()
    await ann.owns(0, 1, 2, 3)
    ann.owned[0] = 100
    assert (await ann.commit({0: 100})).error_code == ErrorCode.NONE
    await ann.vanish()
    while (await tool.sets(p0=7)) != {0: 0}:
        await asyncio.sleep(0.05)
    earlier = ann.since[0]
    await ann.connect()
    ann.owned.clear()
    await ann.register()
    await ann.owns(0, 1, 2, 3)
    assert ann.owned[0] == 7
    late = await ann.commit({0: 101}, generation=earlier)
    [topic] = late.refused
    assert [one.error_code for one in topic.partitions] == [ErrorCode.ILLEGAL_GENERATION]
    assert await tool.lists() == {0: 7}
