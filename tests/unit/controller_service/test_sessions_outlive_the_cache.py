"""Brokers stay heard while the controller's rows are not in its cache: the database was away."""

import asyncio

from controller.core.events import TimePassed
from controller.subject import CLUSTER
from muster.kernel.instants import Instant
from muster.messages import codec
from muster.messages.link.from_broker import BrokerPing
from muster.messages.link.to_broker import BrokerPingAnswer
from tests.unit.controller_service.stage import HereAndNow, linked


async def test_an_outage_that_empties_the_cache_fences_nobody() -> None:
    here = HereAndNow()
    service, links, _ = await linked(here)
    service.cluster.drop(CLUSTER)
    here.time = Instant(here.time + 20_000)
    service.thaw(20_000)
    here.hand_in(service.cluster, CLUSTER, TimePassed())
    assert here.recorded == []
    links[1].hang_up("the end")


async def test_pings_count_and_are_answered_while_rows_are_loaded_again() -> None:
    here = HereAndNow()
    service, links, said = await linked(here)
    service.cluster.drop(CLUSTER)
    here.time = Instant(here.time + 8_000)
    for link in links.values():
        service.link_heard(link, BrokerPing(number=4, metadata_version=5))
    here.time = Instant(here.time + 8_000)
    here.hand_in(service.cluster, CLUSTER, TimePassed())
    assert here.recorded == []
    async with asyncio.timeout(5):
        while True:
            frame = codec.decode_to_broker(await said.get())
            if isinstance(frame, BrokerPingAnswer):
                break
    assert frame.number == 4
    links[1].hang_up("the end")
