"""This room remembers since when the database has answered nobody, as far as this process has seen."""

from datetime import datetime
from typing import Any

from access.rest.problems import SILENT_DATABASE, why_unanswered
from runtime import database_clock

_since: datetime | None = None


def noticed() -> None:
    """Somebody had no answer; the first one counts."""
    global _since
    if _since is None:
        _since = database_clock.now()


def noticed_by(error: BaseException) -> None:
    """The same, if that is what the error means."""
    if why_unanswered(error) == SILENT_DATABASE:
        noticed()


def over(**_: Any) -> None:
    """It answered: a new connection was made (`connection_created`), or the pulse was felt."""
    global _since
    _since = None


def since(means: str) -> datetime | None:
    """Since when, for the page that says what `means` says; None if that is something else."""
    return _since if means == SILENT_DATABASE else None
