"""This room finds out whether the process behind a link that closed is gone: does its address still answer?

A closed link proves nothing by itself: a broker may come back within `closed_link_timeout_ms`. But the system
closes the listeners of a process with it, and refuses whoever connects. That counts only of an address at
which this node had met somebody while the link was open: what a firewall refuses says nothing.
"""

import asyncio
import socket
from enum import Enum, auto
from typing import Final

CONNECT_TIMEOUT_S: Final = 1.0
AGAIN_S: Final = 0.02
"""A process that ends closes link and listeners one after the other; one without room hangs up."""


class _Met(Enum):
    NOBODY = auto()
    """Every address was refused by its own machine."""
    SOMEBODY = auto()
    UNKNOWN = auto()
    """Nobody answered, or the name has no address: that may be the network."""


class Presence:
    """Which brokers were met at which address. All calls come from the node's loop."""

    def __init__(self) -> None:
        self._met: dict[int, str] = {}

    async def meet(self, broker_id: int, address: str) -> None:
        """Its link was opened: remember whether it can be met there."""
        if self._met.get(broker_id) != address and await _look(address) is _Met.SOMEBODY:
            self._met[broker_id] = address

    async def until_gone(self, broker_id: int, address: str, within_ms: int) -> bool:
        """Its link was closed: True as soon as nobody listens there; False if that cannot be told in time."""
        if self._met.get(broker_id) != address:
            return False
        try:
            async with asyncio.timeout(within_ms / 1000):
                while (met := await _look(address, stay=True)) is _Met.SOMEBODY:
                    await asyncio.sleep(AGAIN_S)
        except TimeoutError:
            return False
        return met is _Met.NOBODY


async def _look(address: str, *, stay: bool = False) -> _Met:
    """Who is met at `address` (host:port). `stay`: if somebody is, until that connection ends."""
    host, _, port = address.rpartition(":")
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)
    except (OSError, ValueError, UnicodeError):
        return _Met.UNKNOWN
    refused = 0
    for family, kind, protocol, _, place in found:
        try:
            connection = socket.socket(family, kind | socket.SOCK_CLOEXEC, protocol)
        except OSError:
            # This process has no descriptor left, or its machine does not know such addresses.
            continue
        with connection:
            connection.setblocking(False)
            try:
                async with asyncio.timeout(CONNECT_TIMEOUT_S):
                    await loop.sock_connect(connection, place)
            except ConnectionRefusedError:
                refused += 1
                continue
            except OSError:
                continue
            if stay:
                await _until_it_ends(loop, connection)
            return _Met.SOMEBODY
    return _Met.NOBODY if refused and refused == len(found) else _Met.UNKNOWN


async def _until_it_ends(loop: asyncio.AbstractEventLoop, connection: socket.socket) -> None:
    try:
        while await loop.sock_recv(connection, 1024):
            pass
    except OSError:
        return
