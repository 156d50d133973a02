"""This room forgets old lines of the audit of access, and tokens that ended: both grew for ever."""

from runtime.journal import BATCH_ROWS
from runtime.ports import Connection

RETENTION_DAYS = 366
"""Auditors ask for a year."""

_FORGET = """
DELETE FROM access_accessevent WHERE id IN (
    SELECT id FROM access_accessevent WHERE at < now() - make_interval(days => %s) ORDER BY at LIMIT %s)
"""

_FORGET_TOKENS = """
DELETE FROM access_apitoken WHERE id IN (
    SELECT id FROM access_apitoken
    WHERE least(revoked_at, expires_at) < now() - make_interval(days => %s) LIMIT %s)
"""


def forget_events(connection: Connection, days: int = RETENTION_DAYS, rows: int = BATCH_ROWS) -> int:
    """Delete one batch of lines older than `days` and return how many; fewer than `rows`: none is left."""
    return int(connection.execute(_FORGET, (days, rows)).rowcount)


def forget_tokens(connection: Connection, days: int = RETENTION_DAYS, rows: int = BATCH_ROWS) -> int:
    """Delete one batch of tokens that ended, or were revoked, more than `days` ago, and return how many.

    A stack revokes those of its last start with each start.
    """
    return int(connection.execute(_FORGET_TOKENS, (days, rows)).rowcount)
