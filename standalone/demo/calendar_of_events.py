"""This room is the plan of the year: what is done to the stack on which day of the calendar."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happens when the calendar reaches `day`; `act` returns what was done, in words."""

    day: datetime
    act: Callable[[], str]


def day(month: int, number: int = 1) -> datetime:
    """A day of 2013, at midnight UTC."""
    return datetime(2013, month, number, tzinfo=UTC)


class Plan:
    """Events in the order of their days, each told once."""

    def __init__(self, *events: Event) -> None:
        self._waiting = sorted(events, key=lambda event: event.day)

    def due(self, now: datetime) -> list[Event]:
        """The events whose day has come, oldest first; they are not given again."""
        come = [event for event in self._waiting if event.day <= now]
        self._waiting = self._waiting[len(come) :]
        return come
