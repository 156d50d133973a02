"""This room reads what an address asks of a list; each filter is named once, for REST and pages."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import MAXYEAR, MINYEAR, datetime
from typing import Any

from django.utils import timezone
from django.utils.dateparse import parse_datetime

LONGEST_TEXT = 249
"""Longest text of a filter, in characters: Kafka's bound for names."""


class DoesNotFit(ValueError):
    """A parameter has a value that it cannot have; the text is a sentence for people."""


@dataclass(frozen=True, slots=True)
class Filter:
    """One parameter of a list: its name, what it means, its schema, and what makes a value of its text."""

    name: str
    description: str
    schema: Mapping[str, Any]
    read: Callable[[str], Any]


def text_filter(name: str, description: str, longest: int = LONGEST_TEXT) -> Filter:
    """A filter by text of at most `longest` characters."""

    def read(text: str) -> str:
        if len(text) > longest:
            raise DoesNotFit(f"{name} is longer than {longest} characters.")
        if "\x00" in text:
            raise DoesNotFit(f"{name} holds a zero byte.")
        return text

    return Filter(name, description, {"type": "string", "maxLength": longest}, read)


def word_filter(name: str, words: Iterable[str], description: str) -> Filter:
    """A filter by one of some words."""
    known = list(words)

    def read(text: str) -> str:
        if text not in known:
            raise DoesNotFit(f"{name} must be one of {', '.join(known)}.")
        return text

    return Filter(name, description, {"type": "string", "enum": known}, read)


def number_filter(name: str, description: str, bits: int = 31) -> Filter:
    """A filter by a whole number from 0, of at most `bits` bits."""
    largest = 2**bits - 1

    def read(text: str) -> int:
        fits = text.isascii() and text.isdigit() and len(text) <= len(str(largest))
        if not fits or int(text) > largest:
            raise DoesNotFit(f"{name} must be a whole number from 0 to {largest}.")
        return int(text)

    kind = "int32" if bits <= 31 else "int64"
    schema = {"type": "integer", "format": kind, "minimum": 0, "maximum": largest}
    return Filter(name, description, schema, read)


def moment_filter(name: str, description: str) -> Filter:
    """A filter by a time, in the zone of the pages if it names none."""

    def read(text: str) -> datetime:
        try:
            moment = parse_datetime(text)
        except ValueError:
            moment = None
        # In other zones the first and the last year begin or end beyond what a time can say.
        if moment is None or not MINYEAR < moment.year < MAXYEAR:
            raise DoesNotFit(f"{name} must be a time like 2026-11-21T03:04:27.")
        return timezone.make_aware(moment) if timezone.is_naive(moment) else moment

    return Filter(name, description, {"type": "string", "format": "date-time"}, read)


def read_filters(values: Mapping[str, str], filters: Iterable[Filter]) -> dict[str, Any]:
    """What was asked, by the names of the filters; what is not there is left out. Raises DoesNotFit."""
    return {known.name: known.read(values[known.name]) for known in filters if known.name in values}
