"""This room matches topic patterns with RE2, whose time grows with the topic's name and nothing else."""

from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final

import re2

from muster.messages.member import PATTERN_LENGTH_MAX

_MEMORY_MAX_BYTES: Final = 1 << 16
"""What one compiled pattern may take; a pattern that needs more is refused. It is compiled within two
milliseconds then; with a megabyte it took thirty.
"""

INSTRUCTIONS_MAX: Final = 65_536
"""Of all patterns of one subscription together, as RE2 counts them; `flights-.*` has 20. While they are
compiled nobody else is heard: some thousand take a millisecond.
"""


class InvalidPattern(ValueError):
    """A pattern that RE2 does not understand, or that is too long or too large."""


# Strangers choose the patterns: with what one may take, this bounds the memory of all.
@lru_cache(maxsize=8_192)
def _compiled(pattern: str) -> Any:
    if not 0 < len(pattern) <= PATTERN_LENGTH_MAX:
        raise InvalidPattern(f"a pattern has 1 to {PATTERN_LENGTH_MAX} characters")
    options = re2.Options()
    options.max_mem = _MEMORY_MAX_BYTES
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as problem:
        # RE2 tells why in bytes, which people would be shown as Python writes them.
        told = problem.args[0] if problem.args else ""
        why = told.decode("utf-8", "replace") if isinstance(told, bytes) else told
        raise InvalidPattern(f"not an RE2 pattern: {why}") from problem


def check(patterns: Iterable[str]) -> None:
    """Raise InvalidPattern unless one subscription may name all of them."""
    left = INSTRUCTIONS_MAX
    for pattern in patterns:
        left -= _compiled(pattern).programsize
        if left < 0:
            raise InvalidPattern("the patterns are too large together")


def matches(pattern: str, topic: str) -> bool:
    """True if the whole name of `topic` fits; a pattern that `check` refuses matches nothing."""
    try:
        return _compiled(pattern).fullmatch(topic) is not None
    except InvalidPattern:
        return False
