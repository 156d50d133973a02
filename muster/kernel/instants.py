"""This room holds time as an argument: cores are told the time, they never ask for it."""

from typing import TYPE_CHECKING, Final, NewType

_DAY_S: Final = 86_400

if TYPE_CHECKING:
    Instant = NewType("Instant", int)
    """Milliseconds of one process's own monotonic clock; only differences mean anything."""
else:
    # The clock is read for each word that is said: to call a NewType costs as much as to read it.
    Instant = int


def after(start: Instant, duration_ms: int) -> Instant:
    """The instant `duration_ms` later than `start`."""
    return Instant(start + duration_ms)


def spelled(seconds: float) -> str:
    """A duration as people read it, in two units at most: `<1s`, `26s`, `2m 43s`, `1h 12m`, `3d 4h`."""
    whole = int(seconds)
    if whole < 1:
        return "<1s"
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m {whole % 60}s"
    if whole < _DAY_S:
        return f"{whole // 3600}h {whole % 3600 // 60}m"
    return f"{whole // _DAY_S}d {whole % _DAY_S // 3600}h"


def elapsed_ms(start: Instant, end: Instant) -> int:
    """Milliseconds from `start` to `end`; negative if `end` came first."""
    return end - start
