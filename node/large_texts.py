"""This room hears texts a few at a time: of many that come together the others wait, and nothing else.

A subscription to a thousand topics takes a millisecond to read. Thousands of members who come back together
once held the node's loop for five seconds, and its leases with it. So did twenty strangers who said thousands
of small frames each, and two hundred connections of one token who said eight of them in each round.
"""

import asyncio
from operator import attrgetter
from typing import Final, Protocol

from kafkaserver.turns import Turns
from runtime.of_loops import OfLoops

LARGE_BYTES: Final = 4_096
"""A text of so many bytes or more is a large one; what members say all day is smaller."""

FRAMES_AT_ONCE: Final = 8
"""So many small ones of one connection are heard in its turn, or a large one; the next ones wait."""

SLICE_S: Final = 0.02
"""For so long texts are heard before everything else on the loop has its turn."""


class Listener(Protocol):
    """One websocket."""

    whose: str
    """With whom it shares its turns: the principal whose token was shown."""

    def take_turn(self) -> None:
        """Its turn has come: hear one portion, and `Turns.wait` if there is more."""


_turns: OfLoops[Turns[Listener]] = OfLoops(
    lambda loop: Turns(loop, lambda one: one.take_turn(), attrgetter("whose"), SLICE_S)
)


def turns(loop: asyncio.AbstractEventLoop) -> Turns[Listener]:
    """Those of all websockets on this loop."""
    return _turns.of(loop)
