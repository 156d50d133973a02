"""This room notices at once that another process has ended: one silent connection to each breaks.

The system closes the connections of a process with it. Nothing is said on them: a listener hangs up on
whoever does not say in time who it is, so each is renewed before that.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final, Generic, TypeVar

from muster.client.reaching import reach
from muster.kernel.addresses import host_and_port

RENEW_S: Final = 3.0
"""A broker has 5 s of patience with strangers (`kafkaserver.limits`), a node 10 s (`access.bounded_http`)."""

CONNECT_TIMEOUT_S: Final = 1.0
AGAIN_S: Final = 1.0
"""Between two tries to meet somebody that nobody was met at."""

YOUNG_S: Final = 2 * RENEW_S
"""What ends at this age, or earlier, ended by no node's patience; on a busy loop a renewal may fail."""

REFUSES_WITHIN_S: Final = (0.0, 0.01, 0.04, 0.1)
"""A process that is killed closes its connections and its listener one after the other."""

FIRST_PAUSE_S: Final = 0.01
"""After a connection ended; doubled each time, for a door that hangs up on everybody at once."""

MOST_KEPT: Final = 100
"""So many are watched; of the others one hears in the ways that were there before."""

Key = TypeVar("Key", int, str)
Place = tuple[str, int]


class Vigils(Generic[Key]):
    """One connection to each process that is to be watched. All calls come from one loop."""

    def __init__(self, lost: Callable[[Key], None], refused: Callable[[Key], None] | None = None) -> None:
        """`lost` is called with the one whose connection ended, and not by us; `refused` right after it if
        nobody listens there any more; not of a connection that its listener may have been tired of.
        """
        self._lost: Callable[[Key], None] = lost
        self._refused: Callable[[Key], None] | None = refused
        self._kept: dict[Key, tuple[str, asyncio.Task[None]]] = {}

    def keep(self, addresses: Mapping[Key, str]) -> None:
        """Watch these, at host:port, and no others."""
        wanted = dict(sorted(addresses.items())[:MOST_KEPT])
        for key, (address, task) in list(self._kept.items()):
            if wanted.get(key) != address or task.done():
                task.cancel()
                del self._kept[key]
        for key, address in wanted.items():
            place = host_and_port(address)
            if key not in self._kept and place is not None:
                task = asyncio.create_task(self._watch(key, place), name=f"watch {key}")
                self._kept[key] = address, task

    async def _watch(self, key: Key, place: Place) -> None:
        held: _Held | None = None
        pause_s = FIRST_PAUSE_S
        try:
            while True:
                fresh = await _connect(place)
                if fresh is not None:
                    if held is not None:
                        held.leave()
                    held = fresh
                if held is None:
                    await asyncio.sleep(AGAIN_S)
                elif not await held.ends_within(RENEW_S):
                    pause_s = FIRST_PAUSE_S
                else:
                    ended, held = held, None
                    self._lost(key)
                    if self._refused is not None and ended.is_young and await _refuses_soon(ended.met):
                        self._refused(key)
                    await asyncio.sleep(pause_s)
                    pause_s = min(2 * pause_s, AGAIN_S)
        finally:
            if held is not None:
                held.leave()


class _Held(asyncio.Protocol):
    """One silent connection."""

    def __init__(self, place: Place) -> None:
        self._ended = asyncio.Event()
        self._transport: asyncio.BaseTransport | None = None
        self._clock = asyncio.get_running_loop().time
        self._made_at = self._clock()
        self.is_young = True
        """Whether it was, when it ended."""
        self.met = place
        """The one address, of all that a name may have, at which somebody was met."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        # None: the connection was reset before the system was asked.
        self.met = (transport.get_extra_info("peername") or self.met)[:2]

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_young = self._clock() - self._made_at <= YOUNG_S
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


async def _connect(place: Place) -> _Held | None:
    """None if nobody is met there."""
    try:
        return await _meet(place)
    except (OSError, TimeoutError):
        return None


async def _refuses_soon(place: Place) -> bool:
    for pause_s in REFUSES_WITHIN_S:
        await asyncio.sleep(pause_s)
        if await _refuses(place):
            return True
    return False


async def _refuses(place: Place) -> bool:
    """Whether the machine is there, and says that nobody listens."""
    try:
        (await _meet(place)).leave()
    except ConnectionRefusedError:
        return True
    except (OSError, TimeoutError):
        return False
    return False


async def _meet(place: Place) -> _Held:
    async with asyncio.timeout(CONNECT_TIMEOUT_S):
        taken = await reach(*place)
        _, held = await asyncio.get_running_loop().create_connection(lambda: _Held(place), sock=taken)
    return held
