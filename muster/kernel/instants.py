"""This room holds time as an argument: cores are told the time, they never ask for it."""

from typing import TYPE_CHECKING, NewType

if TYPE_CHECKING:
    Instant = NewType("Instant", int)
    """Milliseconds of one process's own monotonic clock; only differences mean anything."""
else:
    # The clock is read for each word that is said: to call a NewType costs as much as to read it.
    Instant = int


def after(start: Instant, duration_ms: int) -> Instant:
    """The instant `duration_ms` later than `start`."""
    return Instant(start + duration_ms)


def elapsed_ms(start: Instant, end: Instant) -> int:
    """Milliseconds from `start` to `end`; negative if `end` came first."""
    return end - start
