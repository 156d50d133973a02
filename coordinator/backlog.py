"""This room bounds what waits at one node for its database: commits, and what is kept of those who are gone.

What somebody said before his connection closed still counts, so a commit stays when its connection goes, and
so does a farewell: while the database stands still, whoever comes, says it and goes would fill the memory.
"""

from collections.abc import Iterable
from typing import Any, Final, Protocol

import msgspec

MOST_WAITING: Final = 1_000_000
"""Partitions in all, about 200 MB; some ten for each of the members that one node bears."""

WEIGHT_OF_ONE: Final = 4
"""Something is kept of each, however little it says."""

BYTES_OF_A_PARTITION: Final = 64
"""Of what is said: so many take as much memory as one more partition would."""


class Weighty(Protocol):
    """A commit, or what somebody said."""

    @property
    def weight(self) -> int:
        """How many partitions take as much memory; always the same."""


class Said:
    """All that somebody who is gone has said, but for commits."""

    def __init__(self, events: Iterable[Any]) -> None:
        sizes = [len(msgspec.msgpack.encode(event)) for event in events]
        self.weight = sum(WEIGHT_OF_ONE + size_bytes // BYTES_OF_A_PARTITION for size_bytes in sizes)


class Backlog:
    """What waits in all shards of a node."""

    def __init__(self, most: int = MOST_WAITING) -> None:
        self._most = most
        self._weight = 0

    def takes(self, one: Weighty) -> bool:
        """Count it; False, and it is not, where more would wait than may. One alone always may."""
        weight = self._weight + one.weight
        if weight > self._most and self._weight:
            return False
        self._weight = weight
        return True

    def left(self, one: Weighty) -> None:
        """It was decided, or refused."""
        self._weight = max(0, self._weight - one.weight)
