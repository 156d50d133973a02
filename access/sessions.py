"""This room says how long a session lives: half an hour after its last use, and twelve hours in all.

Whoever asks tells the database's time: two hosts of pages may be hours apart.
"""

from collections.abc import MutableMapping
from typing import Any

from django.contrib.sessions.backends.base import SessionBase, UpdateError
from django.db import DatabaseError

from runtime.ports import is_unable_behind

IDLE_MS = 1_800_000
LONGEST_MS = 43_200_000
"""Counted from the first use after signing in; no use makes it longer."""

WAKE_NAME = "sessions"
"""The person in the key of this wake-up signed out, or may do something else than before."""

_WRITE_EVERY_MS = 60_000
_BEGUN, _SEEN = "begun_ms", "seen_ms"

Session = SessionBase | MutableMapping[str, Any]


def is_over(session: Session, now_ms: int) -> bool:
    """True if the session was not used for IDLE_MS, or began LONGEST_MS ago.

    One of the future is over, too, where it is further ahead than IDLE_MS: somebody set the clock back, and
    until it had caught up no session would end.
    """
    idle_ms = now_ms - int(session.get(_SEEN, now_ms))
    age_ms = now_ms - int(session.get(_BEGUN, now_ms))
    return abs(idle_ms) > IDLE_MS or age_ms > LONGEST_MS


def note_use(session: Session, now_ms: int) -> bool:
    """Write down that the session is being used, at most once a minute; True if it has to be saved."""
    if _SEEN in session and _BEGUN in session and now_ms - int(session[_SEEN]) <= _WRITE_EVERY_MS:
        return False
    session[_SEEN] = now_ms
    session.setdefault(_BEGUN, now_ms)
    return True


def keep_use(session: SessionBase) -> bool:
    """Save what `note_use` wrote down; False if the session is gone by now.

    A database that has no room, or only reads, keeps nobody from looking at pages: it is noted later.
    """
    try:
        session.save()
    except UpdateError as error:
        # Django says so of a session that is gone, and of whatever the database made of the statement.
        refused = error.__context__
        cause = getattr(refused, "__cause__", None)
        if not isinstance(cause, Exception):
            # Signed out in this moment: it is not brought back.
            return False
        if isinstance(refused, DatabaseError) and not is_unable_behind(refused):
            raise refused from cause
    session.modified = False
    return True
