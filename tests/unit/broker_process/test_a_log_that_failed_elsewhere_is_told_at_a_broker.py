"""Metadata at a broker names replicas whose log failed on a broker that lives, as the controller tells it."""

import asyncio
from pathlib import Path
from typing import Any

from muster.kafkawire.api_table import ApiKey
from muster.messages.link.rows import UnusableAt
from muster.messages.link.to_broker import Changes
from tests.unit.broker_process.controller_side import ORDERS, PARTITIONS, ControllerSide, linked_broker
from tests.unit.gateway.doors import Peer


async def told(peer: Peer, *, until: dict[int, tuple[int, ...]]) -> bool:
    """Ask until these partitions, by number, and no others, have replicas that are offline."""
    while True:
        body: Any = await peer.ask(
            ApiKey.METADATA,
            5,
            topics=None,
            allow_auto_topic_creation=False,
        )
        (orders,) = body.topics
        assert len(orders.partitions) == PARTITIONS
        found = {one.partition_index: tuple(one.offline_replicas) for one in orders.partitions}
        if {number: offline for number, offline in found.items() if offline} == until:
            return True


async def test_it_is_told_though_no_row_changed_and_no_more_when_it_is_sound(tmp_path: Path) -> None:
    controller = ControllerSide()
    async with asyncio.timeout(30), linked_broker(tmp_path, controller):
        link, hello = await controller.bind()
        await controller.apply(link, version=5)
        host, _, port = hello.endpoints["client"].rpartition(":")
        peer = Peer(*await asyncio.open_connection(host, int(port)))
        assert await told(peer, until={})
        await controller.say(link, Changes(metadata_version=5, unusable=(UnusableAt(2, ORDERS, (0, 7)),)))
        assert await told(peer, until={0: (2,), 7: (2,)})
        await controller.say(link, Changes(metadata_version=5, unusable=(UnusableAt(2, ORDERS, (), (0,)),)))
        assert await told(peer, until={7: (2,)})
        peer.close()
