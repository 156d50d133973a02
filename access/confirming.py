"""This room asks that a name be typed before what cannot be undone, and shows it so that it can be."""

import re
import unicodedata
from typing import Final

LONGEST_TYPED: Final = 2_500
"""What a field must take for a name of 249 letters: each may be written out, or be two for a browser."""

_JOINERS: Final = frozenset("\u200c\u200d")
"""They are seen by what they join: a picture of several, a word of Persian."""

_ODD_SPACES: Final = re.compile("^ | $|(?<= ) ")
"""Those that a page does not show: the first, the last, the second of two."""


def written_out(name: str) -> str:
    """The whole name, to be read off, typed or copied: `ann[U+202E]txt`.

    What has no shape stands as its number.
    """
    if name.isascii() and name.isprintable() and name.strip() == name and "  " not in name:
        return name
    shown = "".join(letter if _has_a_shape(letter) else _number(letter) for letter in name)
    return _ODD_SPACES.sub(_number(" "), shown)


def is_confirmed(typed: str, name: str) -> bool:
    """True if this name was typed: as it is, or as it was shown."""
    return typed in (name, written_out(name))


def _has_a_shape(letter: str) -> bool:
    category = unicodedata.category(letter)
    return letter == " " or letter in _JOINERS or (category[0] != "C" and category not in ("Zl", "Zp", "Zs"))


def _number(letter: str) -> str:
    return f"[U+{ord(letter):04X}]"
