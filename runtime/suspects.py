"""This room holds events that spoil their turn together, until by halves those are found that are guilty."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from runtime.turn import is_guilt

TRIES_MAX: Final = 256
"""Turns that one search may take: enough for fifteen guilty ones among a thousand. Where more are, all that
is not decided by then is refused: each failure reads the rows anew, and whoever is innocent asks again.
"""

Refuse = Callable[[Sequence[Any], Exception], None]


class Suspects:
    """Take what is next and decide it in a turn; say if that failed. Over when nothing is left."""

    def __init__(self, events: Sequence[Any], error: Exception, refuse: Refuse) -> None:
        self._pieces: list[Sequence[Any]] = []
        self._tries_left = TRIES_MAX
        self._refuse = refuse
        self.failed(events, error)

    @property
    def is_over(self) -> bool:
        """Whether each event was decided or refused."""
        return not self._pieces

    def take(self) -> Sequence[Any]:
        """What the next turn is to decide."""
        self._tries_left -= 1
        return self._pieces.pop()

    def failed(self, events: Sequence[Any], error: Exception) -> None:
        """These fail together: each half is tried by itself, until what fails is one event."""
        if len(events) < 2 or not is_guilt(error):
            self._refuse(events, error)
        else:
            middle = len(events) // 2
            self._pieces += (events[middle:], events[:middle])
        if self._tries_left <= 0:
            pieces, self._pieces = self._pieces, []
            for piece in reversed(pieces):
                self._refuse(piece, error)
