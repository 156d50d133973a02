"""A broker that was told to stop serves on until others lead, and waits for nobody who cannot say so."""

import asyncio
from pathlib import Path
from typing import Any

from broker.departure import Departure
from broker.process import clock_ms
from muster.kernel.instants import Instant
from muster.messages import codec
from muster.messages.link.from_broker import BrokerHello, FromBroker, Leaving
from muster.messages.link.protocol import LEAVES
from muster.messages.link.to_broker import HelloAccepted, MayLeave
from tests.unit.broker_process.controller_side import ControllerSide, linked_broker

LONG_MS = 600_000


async def leaving(departure: Departure, *duties: asyncio.Task[Any]) -> asyncio.Task[None]:
    waiting = asyncio.create_task(departure.until_allowed(LONG_MS, duties))
    await asyncio.sleep(0)
    return waiting


async def test_it_says_so_on_its_link_and_goes_when_it_may() -> None:
    said: list[FromBroker] = []

    def say(frame: FromBroker) -> bool:
        said.append(frame)
        return True

    departure = Departure(say, clock_ms)
    departure.linked(LEAVES)
    waiting = await leaving(departure)
    assert said == [Leaving()]
    assert not waiting.done()
    departure.allowed()
    async with asyncio.timeout(5):
        await waiting


async def test_a_lost_link_is_waited_for_as_long_as_a_node_takes_to_hand_over() -> None:
    now = [Instant(0)]
    departure = Departure(lambda _: True, lambda: now[0])
    departure.linked(LEAVES)
    waiting = await leaving(departure)
    departure.unlinked()
    assert not waiting.done()
    now[0] = Instant(1_000)
    async with asyncio.timeout(5):
        await waiting
    assert departure.wanted


async def test_nobody_is_waited_for_who_has_no_answer() -> None:
    async with asyncio.timeout(5):
        departure = Departure(lambda _: True, clock_ms)
        await departure.until_allowed(LONG_MS, ())
        older = Departure(lambda _: True, clock_ms)
        older.linked(0)
        await older.until_allowed(LONG_MS, ())
        slow = Departure(lambda _: True, clock_ms)
        slow.linked(LEAVES)
        await slow.until_allowed(1, ())


async def test_a_duty_that_ended_ends_the_waiting() -> None:
    departure = Departure(lambda _: True, clock_ms)
    departure.linked(LEAVES)

    async def ends() -> None: ...

    duty = asyncio.create_task(ends())
    async with asyncio.timeout(5):
        await departure.until_allowed(LONG_MS, (duty,))


async def test_a_process_that_is_stopped_is_let_go_by_its_controller(tmp_path: Path) -> None:
    controller = ControllerSide()

    async def let_go() -> list[str]:
        """Bind the first link, break it when the broker leaves, and let it go on the second."""
        link = await controller.links.get()
        assert isinstance(codec.decode_from_broker(await link.recv()), BrokerHello)
        accepted = HelloAccepted(
            cluster_id="a-cluster", broker_epoch=1, session_timeout_ms=9_000, protocol=LEAVES
        )
        await controller.say(link, accepted)
        bound.set()
        heard = []
        while "Leaving" not in heard:
            heard.append(type(codec.decode_from_broker(await link.recv())).__name__)
        await link.close()
        link = await controller.links.get()
        hello = codec.decode_from_broker(await link.recv())
        assert isinstance(hello, BrokerHello)
        assert hello.leaving
        await controller.say(link, accepted)
        await controller.say(link, MayLeave())
        return heard

    bound = asyncio.Event()
    async with asyncio.timeout(30):
        letting_go = asyncio.create_task(let_go())
        async with linked_broker(
            tmp_path, controller, MUSTER_CONTROLLED_SHUTDOWN_TIMEOUT_MS=str(LONG_MS)
        ) as process:
            await bound.wait()
        assert "Leaving" in await letting_go
        assert process.ailment() == "it is about to stop"
