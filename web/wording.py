"""This room writes numbers, durations and times the one way in which all pages write them."""

import re
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime, timedelta
from itertools import dropwhile

from muster.kernel.instants import spelled

THIN_SPACE = "\u202f"
_TURNS_AROUND = re.compile("[\u202a-\u202e\u2066-\u2069]")
"""Letters without a shape by which the rest of a line is read from the other side."""


def count(number: int | None) -> str:
    """`27 458` with narrow no-break spaces; `N/A` for what is not known: unknown is never zero."""
    return "N/A" if number is None else f"{number:,}".replace(",", THIN_SPACE)


def size(number: int | float | None) -> str:
    """Bytes in decimal units, three digits: `38.1 GB`, `512 B`; `N/A` if nobody said."""
    if number is None:
        return "N/A"
    value = float(number)
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if value < 999.5 or unit == "TB":
            break
        value /= 1000
    shown = f"{value:.0f}" if unit == "B" or value >= 99.95 else f"{value:.1f}"
    return f"{shown}\u202f{unit}"


def mean(value: float) -> str:
    """`7.8`; from a hundred on what stands behind the point decides nothing."""
    return f"{value:.1f}" if value < 100 else count(round(value))


def length(milliseconds: float) -> str:
    """How long something took: `0.42s` below ten seconds, then as an age."""
    return f"{milliseconds / 1000:.2f}s" if milliseconds < 10_000 else spelled(milliseconds / 1000)


def age(moment: datetime, now: datetime) -> str:
    """How long ago `moment` was; a clock that runs ahead of ours counts as now."""
    return spelled(max(0.0, (now - moment).total_seconds()))


def clock(moment: datetime, now: datetime) -> str:
    """Today `03:04:18`, within a week `Fri 16:18`, older `22 Oct 16:18`; both in the zone of `now`."""
    local = moment.astimezone(now.tzinfo)
    if local.date() == now.date():
        return local.strftime("%H:%M:%S")
    if timedelta(0) <= now - local < timedelta(days=6):
        return local.strftime("%a %H:%M")
    return f"{local.day} {local.strftime('%b %H:%M')}"


def _without_its_base(text: str) -> str:
    """Marks whose letter was cut off are left out too: they would be drawn onto what stands before."""
    return "".join(dropwhile(_joins_what_stands_before, text))


def _joins_what_stands_before(letter: str) -> bool:
    return unicodedata.category(letter).startswith("M") or letter == "\u200d"


def seam(text: str, place: int) -> int:
    """The place, or the next one before it, where a letter begins with all that is drawn onto it."""
    while 0 < place < len(text) and (_joins_what_stands_before(text[place]) or text[place - 1] == "\u200d"):
        place -= 1
    return place


def straight(text: str) -> str:
    """What would turn the words behind it around is seen where it stands, as a letter that has no shape."""
    return text if text.isascii() else _TURNS_AROUND.sub("\ufffd", text)


_is_for_programs: ContextVar[bool] = ContextVar("words for programs", default=False)


@contextmanager
def in_full() -> Iterator[None]:
    """Within it names stand as they are: a program that is told them looks them up."""
    before = _is_for_programs.set(True)
    try:
        yield
    finally:
        _is_for_programs.reset(before)


def middle_cut(identifier: str, longest: int = 40) -> str:
    """A long id with its middle left out: the end often tells more than the beginning."""
    if _is_for_programs.get():
        return identifier
    identifier = straight(identifier)
    if len(identifier) <= longest:
        return identifier
    head = (longest - 1) * 2 // 3
    tail = identifier[-(longest - 1 - head) :]
    return f"{identifier[:head]}…{_without_its_base(tail)}"


def some_of(names: list[str], number: int, shown: Callable[[str], str]) -> str:
    """The first of so many names, each as `shown` writes it, and how many more there are."""
    named = [shown(name) for name in names]
    more = number - len(named)
    return f"{', '.join(named)} and {count(more)} more" if more > 0 else listed(named)


def listed(words: list[str], most: int = 4) -> str:
    """`ann, ben and cleo`; of a long list the first few and how many more."""
    if len(words) > most:
        return f"{', '.join(words[:most])} and {count(len(words) - most)} more"
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}" if words else ""
