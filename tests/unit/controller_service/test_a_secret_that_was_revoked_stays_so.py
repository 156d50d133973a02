"""A broker that was unregistered does not come in by what was being read of secrets meanwhile."""

import asyncio
from collections.abc import Callable
from typing import Any

from controller.configuration import ServiceSettings
from controller.enrolment import Enrolment, hash_of
from controller.service import ENROLMENT_INTERVAL_MS, ControllerService
from tests.unit.controller_service.stage import HereAndNow, linked

SECRET = "a-secret"


class SlowRead(HereAndNow):
    """The same; what is read of secrets is from the beginning of the read, which ends when it may."""

    def __init__(self) -> None:
        super().__init__()
        self.secrets = {3: hash_of(SECRET)}
        self.reads = 0
        self.may_end = asyncio.Event()

    async def query(self, function: Callable[[Any], Any]) -> Any:
        self.reads += 1
        found = Enrolment(dict(self.secrets))
        await self.may_end.wait()
        return found


async def test_a_read_that_was_under_way_does_not_bring_it_back() -> None:
    here = SlowRead()
    here.may_end.set()
    service, links, _ = await linked(here)
    assert await service.admits(3, SECRET)
    here.may_end.clear()
    here.time = type(here.time)(here.time + 60_000)
    again = asyncio.create_task(service.admits(3, "another"))
    await asyncio.sleep(0)
    here.secrets.clear()
    service._revoke(3)
    here.may_end.set()
    assert not await again
    assert not await service.admits(3, SECRET)
    for link in links.values():
        link.hang_up("the end")


async def test_while_the_database_stands_still_strangers_leave_one_read_with_it() -> None:
    here = SlowRead()
    here.may_end.set()
    service, links, _ = await linked(here)
    here.may_end.clear()
    before = here.reads
    strangers = []
    for _ in range(5):
        here.time = type(here.time)(here.time + 60_000)
        strangers.append(asyncio.create_task(service.admits(3, "another")))
        await asyncio.sleep(0)
    assert here.reads == before + 1
    here.may_end.set()
    assert await asyncio.gather(*strangers) == [False] * 5
    assert await service.admits(3, SECRET)
    for link in links.values():
        link.hang_up("the end")


async def test_who_shows_a_secret_that_was_taken_back_has_not_come() -> None:
    """Nobody tells a node that is not the controller, and who comes to it decides who is (leases.md)."""
    here = SlowRead()
    here.may_end.set()
    service = ControllerService(here, ServiceSettings(), here.find_unread)  # type: ignore[arg-type]
    assert await service.admits(3, SECRET)
    service.came(3)
    assert service.heard().came == {3}
    here.secrets.clear()
    here.time = type(here.time)(here.time + ENROLMENT_INTERVAL_MS)
    assert await service.admits(3, SECRET)
    service.came(3)
    assert service.heard().came == set()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not await service.admits(3, SECRET)


async def test_who_is_enrolled_still_has_come_again() -> None:
    here = SlowRead()
    here.may_end.set()
    service = ControllerService(here, ServiceSettings(), here.find_unread)  # type: ignore[arg-type]
    assert await service.admits(3, SECRET)
    for _ in range(3):
        here.time = type(here.time)(here.time + ENROLMENT_INTERVAL_MS)
        reads = here.reads
        assert await service.admits(3, SECRET) and await service.admits(3, SECRET)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert here.reads == reads + 1
        service.came(3)
        assert service.heard().came == {3}
