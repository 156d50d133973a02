"""This room tells the time by the database's clock, which says when whatever is stored there happened.

Beside the clock of a host that is an hour ahead all would be an hour old, and nothing would have an age
beside one that is behind.
"""

from datetime import datetime, timedelta
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper
from django.utils import timezone

from muster.kernel.instants import Instant, elapsed_ms
from runtime import clock
from runtime.ports import Connection

_heard: tuple[datetime, Instant] | None = None


def hear(*, connection: BaseDatabaseWrapper | Connection, **_: Any) -> None:
    """Ask over this connection: web over each that was just made (`connection_created`), one a minute; a node
    each ten seconds. Raises DatabaseError, or what the connection raises.
    """
    global _heard
    with connection.cursor() as cursor:
        (at,) = cursor.execute("SELECT clock_timestamp()").fetchone()
    _heard = at, clock.now()


def now() -> datetime:
    """The database's time when it was heard, and what has passed since; before that, this host's."""
    if _heard is None:
        return timezone.now()
    at, heard_at = _heard
    return at + timedelta(milliseconds=elapsed_ms(heard_at, clock.now()))
