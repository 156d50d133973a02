"""This room asks that a name be typed before what cannot be undone, and shows it so that it can be."""

import re
import unicodedata
from collections.abc import Iterable
from typing import Final

LONGEST_TYPED: Final = 2_500
"""What a field must take for a name of 249 letters: each may be written out, or be two for a browser."""

_JOINERS: Final = frozenset("\u200c\u200d")
"""They are seen by what they join: a picture of several, a word of Persian; elsewhere nobody sees them."""

_BLANK: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""Letters and marks by their kind, that are drawn as nothing."""

_ODD_SPACES: Final = re.compile("^ | $|(?<= ) ")
"""Those that a page does not show: the first, the last, the second of two."""

_OF_SCRIPTS: Final = {"CJK": "CJK", "IDEOGRAPHIC": "CJK", "KATAKANA-HIRAGANA": "Katakana"}
"""Names that are not one word and small letters; the last two are of marks within ordinary words."""

_LOOKS_WRITTEN_OUT: Final = re.compile(r"\[(?=U\+)")
"""Else a name of these very letters were shown as that in whose place they stand."""


def written_out(name: str) -> str:
    """The whole name, to be read off, typed or copied: `ann[U+202E]txt`.

    What has no shape stands as its number. So does what makes another name look the same: the bracket of a
    name of these very letters, an accent beside its letter where the letter with it is one of its own.
    """
    told = _LOOKS_WRITTEN_OUT.sub(_number("["), name)
    if name.isascii() and name.isprintable() and name.strip() == name and "  " not in name:
        return told
    shown = [letter if _has_a_shape(letter) else _number(letter) for letter in told]
    for place in range(1, len(shown) - 1):
        if shown[place] in _JOINERS and not (_is_joined(shown[place - 1]) and _is_joined(shown[place + 1])):
            shown[place] = _number(shown[place])
    return _ODD_SPACES.sub(_number(" "), _apart("".join(shown)))


def scripts_of(name: str) -> dict[str, str]:
    """The letters of a name by their script, each once, those of the rarest script first.

    Empty for a name of Latin letters alone. Letters of several scripts look alike and are typed otherwise:
    the Latin a and the Cyrillic one. So do forms of letters, as of mathematics, and Roman numerals: they are
    told apart from the letters for which Unicode says that they stand.
    """
    found: dict[str, list[str]] = {}
    for letter in name:
        if _is_a_letter(letter):
            found.setdefault(_script_of(letter), []).append(letter)
    if found.keys() <= {"Latin"}:
        return {}
    rarest = sorted(found.items(), key=lambda one: len(one[1]))
    return {script: "".join(dict.fromkeys(letters)) for script, letters in rarest}


def _is_a_letter(letter: str) -> bool:
    category = unicodedata.category(letter)
    return category[0] == "L" or category == "Nl"


def _script_of(letter: str) -> str:
    """`Cyrillic`, or `Latin (fullwidth)`: the first word of what Unicode calls it, and what it stands for."""
    script, plain = _first_word(letter), unicodedata.normalize("NFKC", letter)[0]
    stands_for = _first_word(plain) if _is_a_letter(plain) else script
    return script if stands_for == script else f"{stands_for} ({script.lower()})"


def _first_word(letter: str) -> str:
    word = unicodedata.name(letter, "OTHER").split()[0]
    return _OF_SCRIPTS.get(word) or word.capitalize()


def is_confirmed(typed: str, name: str) -> bool:
    """True if this name was typed: as it is, or as it was shown."""
    return typed in (name, written_out(name))


def meant(typed: str, names: Iterable[str]) -> str:
    """The one of these names that was typed as it is shown, where it was; else what was typed."""
    if "[U+" not in typed:
        return typed
    found = typed
    for name in names:
        if name == typed:
            return typed
        if written_out(name) == typed:
            found = name
    return found


def _apart(shown: str) -> str:
    if unicodedata.is_normalized("NFC", shown):
        return shown
    return "".join(_number(letter) if _may_be_another(letter) else letter for letter in shown)


def _may_be_another(letter: str) -> bool:
    is_jamo = "\u1160" <= letter <= "\u11ff"
    return is_jamo or unicodedata.category(letter)[0] == "M" or not unicodedata.is_normalized("NFC", letter)


def _is_joined(letter: str) -> bool:
    """True of letters of the scripts that have joiners, and of pictures."""
    return len(letter) == 1 and letter >= "\u0590"


def _has_a_shape(letter: str) -> bool:
    if letter == " " or letter in _JOINERS:
        return True
    category = unicodedata.category(letter)
    return category[0] != "C" and category not in ("Zl", "Zp", "Zs") and not _BLANK.match(letter)


def _number(letter: str) -> str:
    return f"[U+{ord(letter):04X}]"
