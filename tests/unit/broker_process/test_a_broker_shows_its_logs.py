"""A broker shows its logs behind rows that are unproven, if the node that it is linked to understands it."""

import asyncio
from pathlib import Path

import pytest
from websockets.asyncio.server import ServerConnection

from muster.messages import codec
from muster.messages.limits import MAX_ROWS_PER_FRAME
from muster.messages.link.from_broker import BrokerPing
from muster.messages.link.log_ends import LogEnd, LogEnds
from muster.messages.link.protocol import LINK_PROTOCOL, SHOWS_LOGS
from muster.messages.link.rows import NO_LEADER, UNPROVEN, AlikePartitions, TopicRow
from muster.messages.link.to_broker import Changes
from tests.unit.broker_process.controller_side import (
    ORDERS,
    PARTITIONS,
    ControllerSide,
    linked_broker,
)

MANY = 2 * MAX_ROWS_PER_FRAME


async def shown_up_to(link: ServerConnection, version: int) -> list[LogEnds]:
    """What was shown before the ping that states this version."""
    found: list[LogEnds] = []
    while True:
        frame = codec.decode_from_broker(await link.recv())
        if isinstance(frame, LogEnds):
            found.append(frame)
        if isinstance(frame, BrokerPing) and frame.metadata_version == version:
            return found


def unproven(count: int) -> Changes:
    """Partitions behind those of the snapshot, the last one elsewhere."""
    here = AlikePartitions(ORDERS, (1, 2), NO_LEADER, 7, (1, 2), tuple(range(count)), unproven=UNPROVEN)
    elsewhere = AlikePartitions(ORDERS, (2,), NO_LEADER, 7, (2,), (count,), unproven=UNPROVEN)
    topic = TopicRow(ORDERS, "orders", count + 1, 2)
    return Changes(metadata_version=6, topics=(topic,), leader_and_isr=(here,), partitions=(elsewhere,))


@pytest.mark.parametrize(("protocol", "frames"), [(LINK_PROTOCOL, 2), (SHOWS_LOGS - 1, 0)])
async def test_it_names_each_of_its_logs_once_a_thousand_a_frame(
    tmp_path: Path, protocol: int, frames: int
) -> None:
    controller = ControllerSide()
    async with asyncio.timeout(60), linked_broker(tmp_path, controller):
        link, _ = await controller.bind(protocol=protocol)
        await controller.apply(link, version=5)
        await controller.say(link, unproven(MANY))
        shown = await shown_up_to(link, 6)
        assert len(shown) == frames
        ends = [end for frame in shown for end in frame.ends]
        # The snapshot names the first ones, which this broker led; the others are new.
        proven = [5] * PARTITIONS + [0] * (MANY - PARTITIONS)
        expected = [LogEnd(ORDERS, number, 7, -1, 0, 0, version) for number, version in enumerate(proven)]
        assert ends == (expected if frames else [])
