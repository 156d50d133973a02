"""This room opens a connection to a name that has several addresses, of which some may be dead."""

import asyncio
import socket
from ipaddress import ip_address
from typing import Any, Final

NEXT_AFTER_S: Final = 0.25
"""So long an address is waited for alone before the next is tried beside it (RFC 8305)."""


async def reach(host: str, port: int) -> socket.socket:
    """A connection to the address of `host` that takes one first; the resolver's order counts.

    The event loops by themselves wait until an address has failed: where packets to the first one vanish,
    nobody who bounds that wait ever comes to the second. Raises OSError, which is a ConnectionRefusedError
    where every address was refused; UnicodeError for what can be no name.
    """
    tries: list[asyncio.Task[socket.socket]] = []
    taken = None
    left = await _addresses_of(host, port)
    try:
        while taken is None:
            if left:
                tries.append(asyncio.create_task(_connected(*left.pop(0))))
            waiting = [one for one in tries if not one.done()]
            if not waiting:
                raise _failure([one.exception() for one in tries])
            pause_s = NEXT_AFTER_S if left else None
            await asyncio.wait(waiting, timeout=pause_s, return_when=asyncio.FIRST_COMPLETED)
            taken = next((one for one in tries if one.done() and one.exception() is None), None)
        return taken.result()
    finally:
        # Nothing is waited for here: whoever was cancelled meanwhile would lose what was taken.
        for one in tries:
            if one is not taken:
                one.cancel()
                one.add_done_callback(_let_go)


def _let_go(one: "asyncio.Task[socket.socket]") -> None:
    """Close what came in the moment in which nobody wanted it any more."""
    if not one.cancelled() and one.exception() is None:
        one.result().close()


async def _addresses_of(host: str, port: int) -> list[tuple[int, Any]]:
    """Families and places."""
    try:
        version = ip_address(host).version
    except ValueError:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return list(dict.fromkeys((family, place) for family, _, _, _, place in found))
    return [(socket.AF_INET if version == 4 else socket.AF_INET6, (host, port))]


async def _connected(family: int, place: Any) -> socket.socket:
    connection = socket.socket(family, socket.SOCK_STREAM)
    try:
        connection.setblocking(False)
        await asyncio.get_running_loop().sock_connect(connection, place)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except BaseException:
        connection.close()
        raise
    return connection


def _failure(problems: list[BaseException | None]) -> BaseException:
    """What is told where no address took a connection: of several, each one's."""
    told = [problem for problem in problems if problem is not None]
    mistakes = [problem for problem in told if not isinstance(problem, OSError)]
    if mistakes or len(told) == 1:
        return (mistakes or told)[0]
    text = "; ".join(map(str, told))
    are_refused = all(isinstance(problem, ConnectionRefusedError) for problem in told)
    return ConnectionRefusedError(text) if are_refused else OSError(text)
