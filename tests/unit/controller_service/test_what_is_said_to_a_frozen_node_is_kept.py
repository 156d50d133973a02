"""Brokers say once what changed, and their links outlive a database that is away for a moment."""

import asyncio

from controller.core.events import TimePassed
from controller.subject import CLUSTER
from muster.kernel.instants import Instant
from muster.messages import codec
from muster.messages.link.condition import OFFLINE, Condition, Disk, LagNote, LogNote
from muster.messages.link.from_broker import BrokerPing, HighWatermark
from muster.messages.link.to_broker import BrokerPingAnswer
from tests.unit.controller_service.stage import ORDERS, HereAndNow, linked

SAID = HighWatermark(topic_id=ORDERS, partition=0, high_watermark=5)
CONDITION = Condition(
    disk=Disk(1_000, 5, 10),
    logs=(LogNote(ORDERS, 0, OFFLINE, "EIO"),),
    lags=(LagNote(ORDERS, 0, (2,)),),
)
PING = BrokerPing(number=4, metadata_version=5, high_watermarks=(SAID,), condition=CONDITION)


async def test_what_a_ping_says_is_kept_though_it_is_not_answered() -> None:
    """Partitions that were removed since seemed read to their end, and who had caught up lagged for ever."""
    here = HereAndNow()
    service, links, said = await linked(here)
    here.frozen = True
    service.link_heard(links[1], PING)
    here.frozen = False
    assert service._progress.take(here.time) == (SAID,)
    noted = service._conditions.take(here.time)
    assert (noted.conditions, noted.logs) == (((1, CONDITION),), ((1, CONDITION.logs[0]),))
    assert noted.lags == ((1, CONDITION.lags[0]),)
    assert service.cluster.memory is not None and service.cluster.memory.sessions[1].disk_is_full
    service.link_heard(links[1], BrokerPing(number=5, metadata_version=5))
    async with asyncio.timeout(5):
        while not isinstance(frame := codec.decode_to_broker(await said.get()), BrokerPingAnswer):
            pass
    assert frame.number == 5
    links[1].hang_up("the end")


async def test_no_session_goes_on_for_it() -> None:
    here = HereAndNow()
    service, links, _ = await linked(here)
    memory = service.cluster.memory
    assert memory is not None
    deadline = memory.sessions[1].deadline
    here.time, here.frozen = Instant(here.time + 2_000), True
    service.link_heard(links[1], PING)
    here.hand_in(service.cluster, CLUSTER, TimePassed())
    assert memory.sessions[1].deadline == deadline
    links[1].hang_up("the end")


async def test_what_a_link_says_that_is_not_bound_any_more_is_not_kept() -> None:
    here = HereAndNow()
    service, links, _ = await linked(here)
    service.link_closed(links[2])
    here.frozen = True
    service.link_heard(links[2], PING)
    assert service._progress.take(here.time) == ()
    links[1].hang_up("the end")
