"""This room lets what keeps failing rest, longer each time: tried without end it would hold up all others."""

from collections.abc import Hashable
from typing import Final

from runtime.ports import is_unable, is_unable_behind
from runtime.turn import GaveUp

FIRST_MS: Final = 1_000
"""After one failure: ask again so much later, as time would have."""

LONGEST_MS: Final = 30_000
"""Whoever mends a row by hand sees it taken within so long, and at once where anybody asks for it."""

_DOUBLED_MAX: Final = 5
_KEPT_MAX: Final = 10_000
"""So many are known to have failed; then all begin anew."""


class Rests:
    """How often in a row each thing has failed by itself, and so for how long it is left alone."""

    def __init__(self) -> None:
        self._failures: dict[Hashable, int] = {}

    def after(self, what: Hashable, error: Exception) -> int:
        """It has failed: for how many ms it rests. Where the database is at fault, for no longer each time:
        it may be well again at any moment.
        """
        if isinstance(error, GaveUp) or is_unable(error) or is_unable_behind(error):
            return FIRST_MS
        if len(self._failures) >= _KEPT_MAX:
            self._failures.clear()
        failures = self._failures.get(what, 0)
        self._failures[what] = failures + 1
        return min(FIRST_MS << min(failures, _DOUBLED_MAX), LONGEST_MS)

    def went_well(self, what: Hashable) -> None:
        """It begins anew."""
        self._failures.pop(what, None)

    def forget(self) -> None:
        """Nothing has failed."""
        self._failures.clear()
