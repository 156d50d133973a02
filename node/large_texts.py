"""This room hears large texts a few at a time: of many that come together the others wait, and nothing else.

A subscription to a thousand topics takes a millisecond to read. Thousands of members who come back together
once held the node's loop for five seconds, and its leases with it.
"""

import asyncio
from typing import Final

from runtime.of_loops import OfLoops
from runtime.slices import Slices

LARGE_BYTES: Final = 4_096
"""A text of so many bytes or more is a large one; what members say all day is smaller."""

SLICE_S: Final = 0.02
"""For so long large texts are heard before everything else on the loop has its turn."""

_slices = OfLoops(lambda loop: Slices(loop, SLICE_S))


def large_texts(loop: asyncio.AbstractEventLoop) -> Slices:
    """Those of all websockets on this loop."""
    return _slices.of(loop)
