"""A broker says with each ping how much it holds of partitions that come to it, until they are in sync."""

import asyncio
from pathlib import Path

from websockets.asyncio.server import ServerConnection

from muster.messages import codec
from muster.messages.link.from_broker import Arriving, BrokerPing
from muster.messages.link.rows import AlikePartitions
from muster.messages.link.to_broker import Changes
from tests.unit.broker_process.controller_side import ORDERS, ControllerSide, linked_broker


async def next_ping(link: ServerConnection, version: int) -> BrokerPing:
    """The next one that states this version."""
    while True:
        frame = codec.decode_from_broker(await link.recv())
        if isinstance(frame, BrokerPing) and frame.metadata_version == version:
            return frame


async def test_each_ping_names_what_comes_and_is_not_in_sync(tmp_path: Path) -> None:
    controller = ControllerSide()
    async with asyncio.timeout(30), linked_broker(tmp_path, controller):
        link, _ = await controller.bind()
        await controller.apply(link, version=5)
        coming = AlikePartitions(ORDERS, (1, 2), 2, 1, (2,), (3,), adding=(1,), removing=(2,))
        to_another = AlikePartitions(ORDERS, (1, 2), 1, 1, (1,), (4,), adding=(2,))
        await controller.say(link, Changes(metadata_version=6, leader_and_isr=(coming, to_another)))
        for _ in range(2):
            assert (await next_ping(link, 6)).arriving == (Arriving(ORDERS, 3, 0),), "silence means nothing"
        in_sync = AlikePartitions(ORDERS, (1, 2), 2, 1, (2, 1), (3,), adding=(1,), removing=(2,))
        await controller.say(link, Changes(metadata_version=7, leader_and_isr=(in_sync,)))
        assert (await next_ping(link, 7)).arriving == ()
