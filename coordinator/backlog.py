"""This room bounds the commits of one node that wait for its database, also of those who are gone.

What somebody said before his connection closed still counts, so a commit stays when its connection goes:
while the database stands still, whoever comes, commits and goes would fill the memory.
"""

from typing import Final, Protocol

MOST_WAITING: Final = 1_000_000
"""Partitions in all, about 200 MB; some ten for each of the members that one node bears."""


class Weighty(Protocol):
    """A commit."""

    @property
    def weight(self) -> int:
        """How many partitions take as much memory; always the same."""


class Backlog:
    """What waits in all shards of a node."""

    def __init__(self, most: int = MOST_WAITING) -> None:
        self._most = most
        self._weight = 0

    def takes(self, commit: Weighty) -> bool:
        """Count it; False, and it is not, where more would wait than may. One alone always may."""
        weight = self._weight + commit.weight
        if weight > self._most and self._weight:
            return False
        self._weight = weight
        return True

    def left(self, commit: Weighty) -> None:
        """It was decided, or refused."""
        self._weight = max(0, self._weight - commit.weight)
