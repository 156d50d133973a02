"""This room knows a request again that differs from an earlier one only in its offsets, without reading it.

Clients say the same for as long as they live, but for these; to compare is a fifth of what it costs to read.
"""

import struct
from collections.abc import Sequence

from muster.kafkawire.framing import Buffer

_OFFSET_BYTES = 8


class Pattern:
    """What stays the same in a request: everything but the offsets that stand at some places of it."""

    __slots__ = ("_fields", "_same")

    def __init__(self, said: bytes, places: Sequence[int]) -> None:
        """`places` is where in `said` the offsets stand, in order."""
        layout, behind = [">"], 0
        for place in places:
            layout.append(f"{place - behind}sq")
            behind = place + _OFFSET_BYTES
        layout.append(f"{len(said) - behind}s")
        self._fields = struct.Struct("".join(layout))
        self._same = self._fields.unpack(said)[::2]

    def numbers_in(self, buffer: Buffer, start: int = 0) -> tuple[int, ...] | None:
        """The offsets of a request that says the same from `start` on; None: it says something else."""
        if len(buffer) - start != self._fields.size:
            return None
        fields = self._fields.unpack_from(buffer, start)
        return fields[1::2] if fields[::2] == self._same else None
