"""This room makes values fit for a terminal: what strangers named cannot steer it."""

import unicodedata
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from muster.kernel.runs import runs_of

NOTHING: Final = "-"
_UNITS: Final = ("bytes", "kB", "MB", "GB", "TB", "PB")
_UNSEEN: Final = frozenset({"Cc", "Cf", "Cs", "Cn", "Co", "Zl", "Zp"})
"""Categories of characters that steer a terminal, hide, or turn the direction of writing."""


def plain(value: object) -> str:
    """The text of a value on one line; characters that steer a terminal are spelled out."""
    text = str(value)
    if text.isascii() and text.isprintable():
        return text
    return "".join(_spelled(one) if unicodedata.category(one) in _UNSEEN else one for one in text)


def _spelled(one: str) -> str:
    number = ord(one)
    return (
        f"\\x{number:02x}"
        if number < 0x100
        else f"\\u{number:04x}"
        if number < 0x10000
        else f"\\U{number:08x}"
    )


def shown(value: Any) -> str:
    """Any value of REST as a cell of a table."""
    if value is None or value == "" or value == [] or value == {}:
        return NOTHING
    if value is True:
        return "yes"
    if value is False:
        return "no"
    if isinstance(value, Mapping):
        return " ".join(f"{plain(name)}={shown(one)}" for name, one in value.items())
    if isinstance(value, list):
        return ",".join(shown(one) for one in value)
    return plain(value)


def at(instant: Any) -> str:
    """A time of REST in UTC, to the second."""
    if not instant:
        return NOTHING
    try:
        read = datetime.fromisoformat(str(instant))
    except ValueError:
        return plain(instant)
    return f"{read.astimezone(UTC):%Y-%m-%d %H:%M:%SZ}"


def size(count: Any) -> str:
    """Bytes in the unit that fits."""
    if not isinstance(count, int | float):
        return NOTHING
    value, unit = float(count), 0
    while abs(value) >= 1000 and unit < len(_UNITS) - 1:
        value, unit = value / 1000, unit + 1
    if count == 1:
        return "1 byte"
    return f"{count} bytes" if unit == 0 else f"{value:.1f} {_UNITS[unit]}"


def name_of_partition(topic: str | None) -> str | Callable[[dict[str, Any]], str]:
    """How `-o name` calls a partition's row: by its number among those of one topic, else as the pages do."""
    return "partition" if topic else lambda row: f"{row['topic']}-{row['partition']}"


def partitions(numbers: Iterable[int]) -> str:
    """`0-3,7`: numbers in order, runs joined."""
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in runs_of(numbers)) or NOTHING
