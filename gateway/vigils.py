"""This room notices at once that a live broker's process has ended: one silent connection to each breaks.

The system closes the connections of a process with it. Nothing is said on them: a broker hangs up on whoever
does not say in time who it is, so each is renewed before that.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from muster.kernel.addresses import host_and_port

RENEW_S: Final = 3.0
"""A broker's patience with strangers is 5 s (`kafkaserver.limits`)."""

CONNECT_TIMEOUT_S: Final = 1.0
AGAIN_S: Final = 1.0
"""Between two tries to meet a broker that nobody was met at."""

MOST_KEPT: Final = 100
"""Brokers that are watched; clients of the others find a new leader when they ask again by themselves."""


class Vigils:
    """One connection to each live broker's listener for brokers. All calls come from the node's loop."""

    def __init__(self, lost: Callable[[int], None]) -> None:
        """`lost` is called with the broker whose connection ended, and not by us."""
        self._lost = lost
        self._kept: dict[int, tuple[str, asyncio.Task[None]]] = {}

    def keep(self, addresses: Mapping[int, str]) -> None:
        """Watch these brokers, at host:port, and no others."""
        wanted = dict(sorted(addresses.items())[:MOST_KEPT])
        for broker_id, (address, task) in list(self._kept.items()):
            if wanted.get(broker_id) != address or task.done():
                task.cancel()
                del self._kept[broker_id]
        for broker_id, address in wanted.items():
            place = host_and_port(address)
            if broker_id not in self._kept and place is not None:
                watching = self._watch(broker_id, place)
                task = asyncio.create_task(watching, name=f"watch broker {broker_id}")
                self._kept[broker_id] = address, task

    async def _watch(self, broker_id: int, place: tuple[str, int]) -> None:
        held: _Held | None = None
        try:
            while True:
                fresh = await _connect(place)
                if fresh is not None:
                    if held is not None:
                        held.leave()
                    held = fresh
                if held is None:
                    await asyncio.sleep(AGAIN_S)
                elif await held.ends_within(RENEW_S):
                    held = None
                    self._lost(broker_id)
        finally:
            if held is not None:
                held.leave()


class _Held(asyncio.Protocol):
    """One silent connection."""

    def __init__(self) -> None:
        self._ended = asyncio.Event()
        self._transport: asyncio.BaseTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self._ended.set()

    async def ends_within(self, patience_s: float) -> bool:
        """True as soon as the other end hangs up; False if it does not for so long."""
        try:
            async with asyncio.timeout(patience_s):
                await self._ended.wait()
        except TimeoutError:
            return False
        return True

    def leave(self) -> None:
        """Hang up."""
        if self._transport is not None:
            self._transport.close()


async def _connect(place: tuple[str, int]) -> _Held | None:
    """None if nobody is met there."""
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            _, held = await asyncio.get_running_loop().create_connection(_Held, *place)
    except (OSError, TimeoutError):
        return None
    return held
