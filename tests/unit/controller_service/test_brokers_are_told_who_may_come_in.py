"""Every broker knows who may come in at a Kafka door, as soon as a token was given or taken back."""

import asyncio

from controller.service import ControllerService
from muster.kernel.instants import Instant
from muster.messages import codec
from muster.messages.link.callers import CALLERS_PER_FRAME, CallerRow, Callers
from tests.unit.controller_service.stage import HereAndNow, linked


def caller(number: int) -> CallerRow:
    return CallerRow(
        name=f"ann-{number}",
        principal=f"ann-{number}",
        operations=("consume",),
        prefix=f"{number:08x}",
        digest=bytes(32),
    )


async def told(said: "asyncio.Queue[str]") -> list[Callers]:
    """What was said about callers until now."""
    await asyncio.sleep(0)
    frames = [codec.decode_to_broker(said.get_nowait()) for _ in range(said.qsize())]
    return [frame for frame in frames if isinstance(frame, Callers)]


def tick(service: ControllerService, here: HereAndNow) -> None:
    here.time = Instant(here.time + 100)
    service.tick(here.time)


async def test_they_are_told_once_and_again_when_they_are_others() -> None:
    here = HereAndNow()
    here.kafka_callers = (caller(1),)
    service, links, said = await linked(here)
    for _ in range(3):
        tick(service, here)
    assert await told(said) == [Callers(callers=(caller(1),))]
    here.kafka_callers = (caller(1), caller(2))
    tick(service, here)
    assert await told(said) == [Callers(callers=(caller(1), caller(2)))]
    links[1].hang_up("the end")


async def test_that_nobody_may_come_in_is_told_too() -> None:
    here = HereAndNow()
    here.kafka_callers = ()
    service, links, said = await linked(here)
    tick(service, here)
    assert await told(said) == [Callers(callers=())]
    links[1].hang_up("the end")


async def test_nothing_is_told_before_the_node_has_read_them() -> None:
    here = HereAndNow()
    service, links, said = await linked(here)
    tick(service, here)
    assert await told(said) == []
    links[1].hang_up("the end")


async def test_many_are_told_in_frames_of_which_one_is_the_last() -> None:
    here = HereAndNow()
    here.kafka_callers = tuple(caller(number) for number in range(CALLERS_PER_FRAME + 1))
    service, links, said = await linked(here)
    tick(service, here)
    frames = await told(said)
    assert [(len(frame.callers), frame.last) for frame in frames] == [(CALLERS_PER_FRAME, False), (1, True)]
    links[1].hang_up("the end")
