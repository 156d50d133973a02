"""This room matches topic patterns with RE2, whose time grows with the topic's name and nothing else."""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final

import re2

from muster.messages.member import PATTERN_LENGTH_MAX

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
