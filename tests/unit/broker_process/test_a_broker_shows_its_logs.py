"""A broker shows its logs behind rows that are unproven, if the node that it is linked to understands it."""

import asyncio
from pathlib import Path

import pytest
from websockets.asyncio.server import ServerConnection

from broker import process as process_room
from broker.core.led_epochs import Led
from broker.core.replica_log import PartitionKey
from broker.log.led_notes import LedNotes
from broker.process import BrokerProcess
from muster.messages import codec
from muster.messages.limits import MAX_ROWS_PER_FRAME
from muster.messages.link.from_broker import BrokerPing
from muster.messages.link.log_ends import LogEnd, LogEnds
from muster.messages.link.protocol import LINK_PROTOCOL, SHOWS_LOGS
from muster.messages.link.rows import NO_LEADER, UNPROVEN, AlikePartitions, TopicRow
from muster.messages.link.to_broker import Changes
from tests.unit.broker_log.logs import append
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


def unproven(count: int, version: int = 6) -> Changes:
    """Partitions behind those of the snapshot, the last one elsewhere."""
    here = AlikePartitions(ORDERS, (1, 2), NO_LEADER, 7, (1, 2), tuple(range(count)), unproven=UNPROVEN)
    elsewhere = AlikePartitions(ORDERS, (2,), NO_LEADER, 7, (2,), (count,), unproven=UNPROVEN)
    topic = TopicRow(ORDERS, "orders", count + 1, 2)
    return Changes(metadata_version=version, topics=(topic,), leader_and_isr=(here,), partitions=(elsewhere,))


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
        expected = [LogEnd(ORDERS, number, 7, -1, 0, 0, version, -1) for number, version in enumerate(proven)]
        assert ends == (expected if frames else [])


def led(epoch: int, version: int) -> Changes:
    """All partitions of the snapshot are led here, in this epoch."""
    here = AlikePartitions(ORDERS, (1, 2), 1, epoch, (1,), tuple(range(PARTITIONS)))
    return Changes(metadata_version=version, leader_and_isr=(here,))


def hold_one_record(process: BrokerProcess) -> None:
    """In each partition, of leader epoch 1."""
    for hosted in process._plane.partitions():
        append(hosted.log, b"a", epoch=1)


async def test_in_which_epoch_it_led_outlives_its_process_though_it_wrote_nothing(tmp_path: Path) -> None:
    controller = ControllerSide()
    async with asyncio.timeout(60), linked_broker(tmp_path, controller) as process:
        link, _ = await controller.bind()
        await controller.apply(link, version=5)
        hold_one_record(process)
        await controller.say(link, led(3, 6))
        await shown_up_to(link, 6)
        noted = LedNotes(process._plane.folder)
        noted.load([PartitionKey(ORDERS, PARTITIONS - 1)])
        assert list(noted.led.values()) == [Led(3, 1)], "noted before it was told to stop"
    async with asyncio.timeout(60), linked_broker(tmp_path, controller):
        link, _ = await controller.bind(protocol=LINK_PROTOCOL)
        await controller.apply(link, version=7)
        await controller.say(link, unproven(PARTITIONS, 8))
        ends = [end for frame in await shown_up_to(link, 8) for end in frame.ends]
        assert [(end.last_epoch, end.end_offset, end.led_epoch) for end in ends] == [(1, 1, 3)] * PARTITIONS


async def test_nobody_is_served_in_an_epoch_that_is_not_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_room, "OBEY_AT_ONCE_MS", 0)
    controller, seen = ControllerSide(), set[int]()
    async with asyncio.timeout(60), linked_broker(tmp_path, controller) as process:

        async def serve() -> None:
            while len(seen) < 3:
                await asyncio.sleep(0)
                assert not process._plane.led_epochs.news
                seen.add(sum(one.replica.leader_epoch == 3 for one in process._plane.partitions()))

        link, _ = await controller.bind()
        await controller.apply(link, version=5)
        hold_one_record(process)
        serving = asyncio.create_task(serve())
        await controller.say(link, led(3, 6))
        await shown_up_to(link, 6)
        await serving
    assert 0 < min(seen - {0}) < PARTITIONS, "some rows were obeyed, and some were not"
