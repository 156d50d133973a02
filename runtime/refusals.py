"""This room keeps what turns refused by a mistake of ours, so that pages tell of it, not logs alone."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

import structlog

from runtime.ports import Connection, ConnectionLost

SHOWN_HOURS: Final = 12
"""For so long after the last one of a kind people are told of it: a night, and the morning after."""

KEPT_DAYS: Final = 30
KINDS_MAX: Final = 100
"""Different ones that wait to be written; more are in the log and the metric alone."""

_EVENTS_LENGTH: Final = 200
_ERROR_LENGTH: Final = 100
_TEXT_LENGTH: Final = 300

_OF_THE_DATABASE: Final = frozenset(
    {"GaveUp"}
    | {"ConfigurationLimitExceeded", "DiskFull", "InsufficientResources", "OutOfMemory", "TooManyConnections"}
    | {"DuplicateFile", "FileNameTooLong", "IoError", "SystemError", "UndefinedFile"}
    | {"ReadOnlySqlTransaction"}
)
"""Errors of turns that the database did not take: it ended them (`runtime.turn.GaveUp`), or cannot write."""

_IS_OLD: Final = f"known.last_at < now() - interval '{SHOWN_HOURS} hours'"
_NOTE: Final = f"""
INSERT INTO refusal AS known (node, lane, events, error, key, text, number, first_at, last_at)
VALUES (%s, %s, %s, %s, %s, %s, %s, clock_timestamp(), clock_timestamp())
ON CONFLICT (node, lane, events, error) DO UPDATE SET
    key = EXCLUDED.key, text = EXCLUDED.text, last_at = EXCLUDED.last_at,
    number = EXCLUDED.number + CASE WHEN {_IS_OLD} THEN 0 ELSE known.number END,
    first_at = CASE WHEN {_IS_OLD} THEN EXCLUDED.first_at ELSE known.first_at END
"""


@dataclass(frozen=True, slots=True)
class Refused:
    """What one turn refused: the kinds of events, none where it is what a turn goes on with by itself."""

    lane: str
    key: str
    events: tuple[str, ...]
    error: Exception


def is_of_the_database(error: str) -> bool:
    """Whether a turn that failed so was nobody's mistake here: `error` is the name of its class."""
    return error in _OF_THE_DATABASE


OnRefused = Callable[[Refused], None]


def kind_of(event: object) -> str:
    """What somebody said says more than that it was heard."""
    for held in ("frame", "message"):
        said = getattr(event, held, None)
        if said is not None:
            return type(said).__name__
    return type(event).__name__


def tell_nobody(_refused: Refused) -> None:
    """Where nobody keeps what was refused."""


_Kind = tuple[str, str, str]
"""Lane, events, error."""

log = structlog.get_logger(__name__)


@dataclass(slots=True, order=True)
class _Note:
    number: int
    key: str
    text: str


class RefusalNotes:
    """What was refused since the last write, alike taken together."""

    def __init__(self, node: str) -> None:
        self._node = node
        self._noted: dict[_Kind, _Note] = {}
        self._in_flight = False

    def add(self, refused: Refused) -> None:
        """Something was refused."""
        events = ", ".join(sorted(set(refused.events)))[:_EVENTS_LENGTH]
        error = _name_of(refused.error)[:_ERROR_LENGTH]
        note = _Note(max(len(refused.events), 1), refused.key, _first_line(refused.error))
        self._put((refused.lane, events, error), note)

    @property
    def is_due(self) -> bool:
        """Whether there is something to write, and nothing is being written."""
        return bool(self._noted) and not self._in_flight

    async def write(self, query: Callable[[Callable[[Connection], None]], Awaitable[None]]) -> None:
        """Write it in a transaction beside all turns, which might be refused, too; raises what no later
        write would mend: then it stands in the log and the metric alone.
        """
        noted, self._noted = self._noted, {}
        self._in_flight = True
        try:
            await query(partial(_write, self._node, noted))
        except ConnectionLost as error:
            log.info("what was refused could not be written yet", error=str(error))
            newer, self._noted = self._noted, noted
            for kind, note in newer.items():
                self._put(kind, note)
        finally:
            self._in_flight = False

    def _put(self, kind: _Kind, note: _Note) -> None:
        known = self._noted.get(kind)
        if known is not None:
            note.number += known.number
            self._noted[kind] = note
        elif len(self._noted) < KINDS_MAX:
            self._noted[kind] = note


def _write(node: str, noted: Mapping[_Kind, _Note], connection: Connection) -> None:
    for kind, note in sorted(noted.items()):
        connection.execute(_NOTE, (node, *kind, note.key, note.text, note.number))


def forget(connection: Connection) -> int:
    """Delete what is shown to nobody any more and return how many."""
    statement = "DELETE FROM refusal WHERE last_at < now() - make_interval(days => %s)"
    return int(connection.execute(statement, (KEPT_DAYS,)).rowcount)


def _name_of(error: Exception) -> str:
    """Python's own SystemError is not PostgreSQL's, and only names are kept."""
    kind = type(error)
    is_pythons = kind.__module__ == "builtins" and is_of_the_database(kind.__name__)
    return f"builtins.{kind.__name__}" if is_pythons else kind.__name__


def _first_line(error: Exception) -> str:
    lines = str(error).replace("\0", "").strip().splitlines()
    return lines[0][:_TEXT_LENGTH] if lines else ""
