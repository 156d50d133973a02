"""This room matches topic patterns with RE2, whose time grows with the topic's name and nothing else."""

import re
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, Final

import re2

from muster.messages.member import PATTERN_LENGTH_MAX

SEARCH_MAX_S: Final = 25.0
"""A worker matches for so long for one group: what takes a minute is computed again and again, for a claim
stands no longer (`runtime.desk`)."""

MATCHED_AT_ONCE: Final = 64
"""Names between two looks at the clock."""

_PREFIX_BYTES: Final = 32
"""So much of what a pattern begins with is told by RE2."""

_MEMORY_MAX_BYTES: Final = 1 << 16
"""What one compiled pattern may take; a pattern that needs more is refused."""

INSTRUCTIONS_MAX: Final = 65_536
"""Of all patterns of one subscription together, as RE2 counts them; `flights-.*` has 20. While they are
compiled nobody else is heard: some thousand take a millisecond.
"""

TEXT_MAX: Final = 8_192
"""Instructions that the text of one pattern may stand for, be they in the program or not: RE2 reads and
copies for milliseconds what turns out to be nothing, or the same as before.
"""

_CLASS_OF_LETTERS: Final = 512
"""Instructions; `\\pL` has six hundred ranges, each of which is folded where `(?i)` says so."""
_REPETITION: Final = 2
"""Instructions for each time that something may be repeated."""
_DEAR: Final = re.compile(r"\\[pP]|\{(?:\d*,)?(\d{1,4})\}")


class InvalidPattern(ValueError):
    """A pattern that RE2 does not understand, or that is too long or too large."""


class PatternsTakeTooLong(Exception):
    """The patterns of one group are too many and too slow for all the topics that there are."""


# Strangers choose the patterns: with what one may take, this bounds the memory of all. What is refused is
# kept, too: a group may have it stored, by another release, and would have it read for each topic.
@lru_cache(maxsize=8_192)
def _compiled(pattern: str) -> Any:
    """What RE2 made of it, or (a text) why it is none."""
    if not 0 < len(pattern) <= PATTERN_LENGTH_MAX:
        return f"a pattern has 1 to {PATTERN_LENGTH_MAX} characters"
    if _text_stands_for(pattern) > TEXT_MAX:
        return "the pattern is too large"
    options = re2.Options()
    options.max_mem = _MEMORY_MAX_BYTES
    options.log_errors = False
    # Nobody asks what a group matched; to find out would take ten times as long, and a hundred groups more.
    options.never_capture = True
    try:
        return re2.compile(pattern, options)
    except re2.error as problem:
        # RE2 tells why in bytes, which people would be shown as Python writes them.
        told = problem.args[0] if problem.args else ""
        why = told.decode("utf-8", "replace") if isinstance(told, bytes) else told
        return f"not an RE2 pattern: {why}"


def _text_stands_for(pattern: str) -> int:
    """Instructions that its classes of letters and its repetitions cost to read."""
    return sum(_REPETITION * int(times) if times else _CLASS_OF_LETTERS for times in _DEAR.findall(pattern))


def check(patterns: Iterable[str]) -> None:
    """Raise InvalidPattern unless one subscription may name all of them."""
    left = INSTRUCTIONS_MAX
    for pattern in patterns:
        compiled = _compiled(pattern)
        if isinstance(compiled, str):
            raise InvalidPattern(compiled)
        left -= max(compiled.programsize, _text_stands_for(pattern))
        if left < 0:
            raise InvalidPattern("the patterns are too large together")


def matches(pattern: str, topic: str) -> bool:
    """True if the whole name of `topic` fits; a pattern that `check` refuses matches nothing."""
    compiled = _compiled(pattern)
    return not isinstance(compiled, str) and compiled.fullmatch(topic) is not None


class Search:
    """Finds which of some names patterns match; all patterns of one group may take `most_s` together."""

    def __init__(
        self, names: Iterable[str], most_s: float = SEARCH_MAX_S, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._names = list(names)
        placed = sorted((name.encode(), place) for place, name in enumerate(self._names))
        self._sorted = [name for name, _ in placed]
        self._places = [place for _, place in placed]
        self._clock = clock
        self._ends_at = clock() + most_s
        self._found: dict[str, list[str]] = {}

    def __call__(self, pattern: str) -> list[str]:
        """In the order of all names. Raises PatternsTakeTooLong."""
        found = self._found.get(pattern)
        if found is None:
            found = self._found[pattern] = self._look_for(pattern)
        return found

    def _look_for(self, pattern: str) -> list[str]:
        compiled = _compiled(pattern)
        if isinstance(compiled, str):
            return []
        # Most patterns begin with a text: only names that do, too, are matched.
        least, most = _range_of(compiled)
        start, end = bisect_left(self._sorted, least), bisect_right(self._sorted, most)
        found: list[int] = []
        for first in range(start, end, MATCHED_AT_ONCE):
            if self._clock() > self._ends_at:
                raise PatternsTakeTooLong("to match the patterns of this group takes too long")
            places = self._places[first : min(first + MATCHED_AT_ONCE, end)]
            found += [place for place in places if compiled.fullmatch(self._names[place]) is not None]
        return [self._names[place] for place in sorted(found)]


def _range_of(compiled: Any) -> tuple[bytes, bytes]:
    """The first and the last name, in UTF-8, that it may match."""
    try:
        least, most = compiled.possiblematchrange(_PREFIX_BYTES)
    except re2.error:
        return b"", b"\xff"
    return least, most
