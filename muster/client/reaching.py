"""This room opens a connection to a name that has several addresses, of which some may be dead."""

import asyncio
import socket
from collections.abc import Sequence
from ipaddress import ip_address
from typing import Final

from aiohappyeyeballs import AddrInfoType, start_connection

NEXT_AFTER_S: Final = 0.25
"""So long an address is waited for alone before the next is tried beside it (RFC 8305)."""


async def reach(host: str, port: int) -> socket.socket:
    """A connection to the address of `host` that takes one first; the resolver's order counts.

    The event loops by themselves wait until an address has failed: where packets to the first one vanish,
    nobody who bounds that wait ever comes to the second. Raises OSError, which is a ConnectionRefusedError
    where every address was refused; UnicodeError for what can be no name.
    """
    addresses = await _addresses_of(host, port)
    task = asyncio.current_task()
    assert task is not None
    cancelled = task.cancelling()
    connection = await start_connection(addresses, happy_eyeballs_delay=NEXT_AFTER_S)
    if task.cancelling() > cancelled:
        # While the tries that lost end, it takes what ends its caller for what ends them.
        connection.close()
        raise asyncio.CancelledError
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


async def _addresses_of(host: str, port: int) -> Sequence[AddrInfoType]:
    """What the resolver says of a name; an address needs none."""
    try:
        family = socket.AF_INET if ip_address(host).version == 4 else socket.AF_INET6
    except ValueError:
        return await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [(family, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (host, port))]
