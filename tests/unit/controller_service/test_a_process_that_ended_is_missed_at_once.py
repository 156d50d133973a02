"""This room tests how the controller tells a broker that ended from one whose link only broke."""

import asyncio
import os
import resource
import socket
from collections.abc import Iterator

import pytest

from controller.configuration import ServiceSettings
from controller.core.records import BrokerChanged
from controller.links import BrokerLink
from controller.presence import Presence
from controller.service import ControllerService
from muster.messages.link.from_broker import BrokerHello
from muster.messages.link.rows import REPLICATION_LISTENER
from tests.unit.controller_service.stage import HereAndNow

LONG_MS = 60_000
SHORT_MS = 50


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """The door of a broker's process, closed with it."""
    with socket.create_server(("127.0.0.1", 0)) as door:
        yield door


def address_of(listener: socket.socket) -> str:
    host, port = listener.getsockname()
    return f"{host}:{port}"


async def every_duty() -> None:
    await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()})


async def test_nobody_listens_any_more(listener: socket.socket) -> None:
    presence, address = Presence(), address_of(listener)
    await presence.meet(1, address)
    listener.close()
    assert await presence.until_gone(1, address, LONG_MS)


async def test_it_ends_while_it_is_looked_at(listener: socket.socket) -> None:
    presence, address = Presence(), address_of(listener)
    await presence.meet(1, address)
    looking = asyncio.create_task(presence.until_gone(1, address, LONG_MS))
    listener.setblocking(False)
    met = [(await asyncio.get_running_loop().sock_accept(listener))[0] for _ in range(2)]
    listener.close()
    for one in met:
        one.close()
    assert await looking


async def test_it_lives_and_only_its_link_broke(listener: socket.socket) -> None:
    presence, address = Presence(), address_of(listener)
    await presence.meet(1, address)
    assert not await presence.until_gone(1, address, SHORT_MS)


async def test_a_controller_without_a_descriptor_left_says_nothing(listener: socket.socket) -> None:
    presence, address = Presence(), address_of(listener)
    await presence.meet(1, address)
    listener.close()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with open(os.devnull, "rb") as lowest_free:
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free.fileno() + 1, hard))
        try:
            assert not await presence.until_gone(1, address, LONG_MS)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert await presence.until_gone(1, address, LONG_MS)


async def test_an_address_at_which_nobody_was_ever_met_says_nothing(listener: socket.socket) -> None:
    """A firewall refuses the controller, and only it."""
    address = address_of(listener)
    listener.close()
    presence = Presence()
    await presence.meet(1, address)
    assert not await presence.until_gone(1, address, LONG_MS)


@pytest.mark.parametrize(
    "address", ["", "no-port", "no.such.name.invalid:1", "127.0.0.1:none", "x" * 300 + ":1"]
)
async def test_an_address_that_is_none_says_nothing(address: str) -> None:
    presence = Presence()
    await presence.meet(1, address)
    assert not await presence.until_gone(1, address, LONG_MS)


async def test_the_controller_fences_it_as_soon_as_its_address_refuses(listener: socket.socket) -> None:
    here = HereAndNow()
    service = ControllerService(here, ServiceSettings(), here.find_unread)  # type: ignore[arg-type]
    await service.accept(here)  # type: ignore[arg-type]
    link, endpoints = BrokerLink(1, "127.0.0.1:1"), {REPLICATION_LISTENER: address_of(listener)}
    service.link_opened(link, BrokerHello(broker_id=1, incarnation="a", endpoints=endpoints))
    await every_duty()
    here.recorded.clear()
    service.link_closed(link)
    assert here.recorded == [], "a closed link proves nothing"
    listener.close()
    await every_duty()

    fenced = [one.row for one in here.recorded if isinstance(one, BrokerChanged)]
    assert [(row.broker_id, row.live) for row in fenced] == [(1, False)]
