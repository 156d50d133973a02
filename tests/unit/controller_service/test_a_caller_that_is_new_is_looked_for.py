"""A broker that asks for a caller hears of all that the node has read since, and that it was looked for."""

import asyncio

from controller.service import LOOKS_OF_ONE_LINK
from muster.messages import codec
from muster.messages.link.callers import CallerRow, Callers
from muster.messages.link.from_broker import LookForCaller
from muster.messages.link.to_broker import CallerLookedFor
from tests.unit.controller_service.stage import HereAndNow, linked
from tests.unit.controller_service.test_brokers_are_told_who_may_come_in import caller

PEER = "192.0.2.1"


class Looking(HereAndNow):
    """The same, and a database that has `newer` callers, once `answers` is set."""

    def __init__(self, *newer: CallerRow) -> None:
        super().__init__()
        self.kafka_callers = (caller(1),)
        self.newer = newer
        self.asked: list[tuple[str, str]] = []
        self.answers = asyncio.Event()
        self.answers.set()

    async def find_caller(self, name: str, address: str) -> bool:
        self.asked.append((name, address))
        await self.answers.wait()
        if self.newer:
            self.kafka_callers = self.newer
        return bool(self.newer)


async def heard(said: "asyncio.Queue[str]", count: int) -> list[Callers | CallerLookedFor]:
    frames: list[Callers | CallerLookedFor] = []
    async with asyncio.timeout(10):
        while len(frames) < count:
            frame = codec.decode_to_broker(await said.get())
            if isinstance(frame, Callers | CallerLookedFor):
                frames.append(frame)
    return frames


async def test_whoever_is_found_is_told_before_the_answer() -> None:
    here = Looking(caller(1), caller(2))
    service, links, said = await linked(here)
    service.link_heard(links[1], LookForCaller(number=7, name="ann-2", peer=PEER))
    assert await heard(said, 2) == [Callers(callers=(caller(1), caller(2))), CallerLookedFor(number=7)]
    assert here.asked == [("ann-2", PEER)] and here.recorded == []
    for link in links.values():
        link.hang_up("the end")


async def test_of_a_stranger_only_that_it_was_looked_for() -> None:
    here = Looking()
    service, links, said = await linked(here)
    service.tick(here.time)
    assert await heard(said, 1) == [Callers(callers=(caller(1),))]
    service.link_heard(links[1], LookForCaller(number=8, name="eve", peer=PEER))
    assert await heard(said, 1) == [CallerLookedFor(number=8)]
    for link in links.values():
        link.hang_up("the end")


async def test_for_one_broker_only_so_many_are_looked_for_at_once() -> None:
    here = Looking()
    here.answers.clear()
    service, links, said = await linked(here)
    for number in range(LOOKS_OF_ONE_LINK + 3):
        service.link_heard(links[1], LookForCaller(number=number, name=f"eve-{number}", peer=PEER))
    first = await heard(said, 4)
    answered = [one.number for one in first if isinstance(one, CallerLookedFor)]
    assert answered == [LOOKS_OF_ONE_LINK + number for number in range(3)]
    assert len(here.asked) == LOOKS_OF_ONE_LINK
    here.answers.set()
    await heard(said, LOOKS_OF_ONE_LINK)
    assert service.cluster.links[links[1]].looks == 0
    for link in links.values():
        link.hang_up("the end")


async def test_a_link_that_is_gone_has_nobody_looked_for() -> None:
    here = Looking()
    service, links, _ = await linked(here)
    service.link_closed(links[1])
    service.link_heard(links[1], LookForCaller(number=1, name="eve", peer=PEER))
    for _ in range(3):
        await asyncio.sleep(0)
    assert here.asked == []
    links[2].hang_up("the end")
