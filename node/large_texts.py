"""This room hears large texts a few at a time: of many that come together the others wait, and nothing else.

A subscription to a thousand topics takes a millisecond to read. Thousands of members who come back together
once held the node's loop for five seconds, and its leases with it. So did twenty strangers who said thousands
of small frames each, all of which lay there to be read in the same round.
"""

import asyncio
from typing import Final

from runtime.of_loops import OfLoops
from runtime.slices import Slices

LARGE_BYTES: Final = 4_096
"""A text of so many bytes or more is a large one; what members say all day is smaller."""

FRAMES_AT_ONCE: Final = 8
"""So many of one connection are heard in a row; the next ones, be they small, wait as a large text does."""

SLICE_S: Final = 0.02
"""For so long large texts are heard before everything else on the loop has its turn."""

_slices = OfLoops(lambda loop: Slices(loop, SLICE_S))


def large_texts(loop: asyncio.AbstractEventLoop) -> Slices:
    """Those of all websockets on this loop."""
    return _slices.of(loop)
