"""This room forgets old journal entries, and never the last one of a lane (leases.md section 8, 9)."""

from runtime.ports import Connection

RETENTION_DAYS = 30
BATCH_ROWS = 10_000

_FORGET = """
DELETE FROM journal WHERE id IN (
    SELECT j.id FROM journal j
    WHERE j.at < now() - make_interval(days => %s)
      AND EXISTS (SELECT FROM journal later WHERE later.lane = j.lane AND later.seq > j.seq)
    ORDER BY j.at LIMIT %s)
"""


def forget(connection: Connection, days: int = RETENTION_DAYS, rows: int = BATCH_ROWS) -> int:
    """Delete one batch of entries older than `days` and return how many; fewer than `rows`: none is left.

    The last entry of each lane stays, however old: the next number is counted from it.
    """
    return int(connection.execute(_FORGET, (days, rows)).rowcount)


def forget_adopted_work(connection: Connection, days: int = 7, rows: int = BATCH_ROWS) -> int:
    """Delete one batch of work items that were adopted more than `days` ago and return how many."""
    statement = (
        "DELETE FROM work_item WHERE id IN (SELECT id FROM work_item WHERE state = 'adopted'"
        " AND adopted_at < now() - make_interval(days => %s) LIMIT %s)"
    )
    return int(connection.execute(statement, (days, rows)).rowcount)


def forget_ended_runs(connection: Connection, days: int = 7) -> int:
    """Delete the sessions of runs that ended long ago and hold no lease; a missing one counts as ended."""
    statement = (
        "DELETE FROM node_session s WHERE s.ended AND s.started_at < now() - make_interval(days => %s)"
        " AND NOT EXISTS (SELECT FROM lease l WHERE l.run = s.run)"
    )
    return int(connection.execute(statement, (days,)).rowcount)
