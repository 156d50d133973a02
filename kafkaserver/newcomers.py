"""This room lets nobody be refused for being newer than what is known here: it waits a moment for news.

A stranger waits as long as somebody whose token was made an instant ago, and is refused then. Of one network,
and in all, only so many wait at once, and nothing that they say is kept but one frame by their connection.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from time import monotonic
from typing import Final

from muster.kernel.addresses import network_of
from muster.kernel.buckets import Buckets

WAITING: Final = 64
WAITING_OF_ONE: Final = 8
LOOKS: Final = 50
"""So often one who waits is looked at again before it is refused, every `replies.HEARD_AGAIN_MS`."""

NAME_MAX: Final = 150

OF_ONE_NETWORK: Final = (10, 2.0)
IN_ALL: Final = (64, 20.0)
"""How many may be looked for at once, and how many a second from then on."""

LookFor = Callable[[str, str], "asyncio.Future[None] | None"]
"""Asks whoever knows more about this name, for this peer; done when all that there is has been told.

None: nobody can be asked now, and what is told anyway is waited for."""


def is_name(name: str) -> bool:
    """Whether a token can have it as its name, or as its public part."""
    return len(name) <= NAME_MAX and name.isprintable()


class Bounds:
    """How often strangers have somebody looked for, of one network and in all."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._of_one_network = Buckets(*OF_ONE_NETWORK, clock)
        self._in_all = Buckets(*IN_ALL, clock)

    def allow(self, address: str) -> bool:
        """Whether somebody at this address may have one more looked for."""
        return not self._of_one_network.take(network_of(address)) and not self._in_all.take("")


class Newcomers:
    """Those of one door of whom nothing is known; without `look_for` they wait for what is told anyway."""

    def __init__(self, look_for: LookFor | None = None) -> None:
        self._look_for = look_for
        self._waiting: Counter[str] = Counter()

    def __len__(self) -> int:
        return self._waiting.total()

    def at(self, peer: str, who: Callable[[str], object | None]) -> "Newcomer":
        """One that has come from host `peer`; `who` bears a name, as it is known now."""
        return Newcomer(self, peer, who)

    def enter(self, network: str) -> bool:
        """Whether one more may wait."""
        if self._waiting.total() >= WAITING or self._waiting[network] >= WAITING_OF_ONE:
            return False
        self._waiting[network] += 1
        return True

    def leave(self, network: str) -> None:
        """It is decided about, or gone."""
        self._waiting[network] -= 1
        if not self._waiting[network]:
            del self._waiting[network]

    def look_for(self, name: str, peer: str) -> "asyncio.Future[None] | None":
        """None: nobody can be asked."""
        return None if self._look_for is None else self._look_for(name, peer)


class Newcomer:
    """Whoever speaks on one connection, until it is decided about."""

    def __init__(self, others: Newcomers, peer: str, who: Callable[[str], object | None]) -> None:
        self._others = others
        self._peer = peer
        self._who = who
        self._looks_left = LOOKS
        self._asked: asyncio.Future[None] | None = None
        self._is_waiting = False

    def must_wait(self, name: str, than: object | None = None) -> bool:
        """Whether there may be news of this name soon; else what is known is what it is decided by.

        News is that somebody bears it other `than` the one whom the client did not prove to be.
        """
        if self._who(name) != than or not self._looks_left:
            self.leave()
            return False
        if not self._is_waiting:
            if not self._others.enter(network_of(self._peer)):
                self._looks_left = 0
                return False
            self._is_waiting = True
            self._asked = self._others.look_for(name, self._peer)
        self._looks_left -= 1
        if self._asked is not None and self._asked.done():
            self._looks_left = 0
            self.leave()
            return False
        return True

    def leave(self) -> None:
        """It waits no more, or its connection is closed."""
        if self._is_waiting:
            self._is_waiting = False
            self._others.leave(network_of(self._peer))
