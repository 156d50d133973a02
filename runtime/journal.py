"""This room writes journal entries, forgets old ones, and never the last of a lane (leases.md 8, 9)."""

from collections.abc import Sequence
from typing import Any

import msgspec

from runtime.database import JournalRow
from runtime.ports import Connection

RETENTION_DAYS = 30
BATCH_ROWS = 10_000
CAUSE_LENGTH = 200

_ADD = """
INSERT INTO journal (lane, seq, turn_id, node, key, cause, summary, records, at)
VALUES (%s, %s, %s, %s, %s, %s, %s::jsonb, %s::jsonb, clock_timestamp())
"""
_FORGET = """
DELETE FROM journal WHERE id IN (
    SELECT j.id FROM journal j
    WHERE j.at < now() - make_interval(days => %s)
      AND EXISTS (SELECT FROM journal later WHERE later.lane = j.lane AND later.seq > j.seq)
    ORDER BY j.at LIMIT %s)
"""
_encode = msgspec.json.Encoder().encode


def add(connection: Connection, rows: Sequence[JournalRow]) -> None:
    """Write the entries of one transaction; of several turns in one round trip."""
    if len(rows) == 1:
        connection.execute(_ADD, _columns(rows[0]))
        return
    with connection.cursor() as cursor:
        cursor.executemany(_ADD, list(map(_columns, rows)))


def _columns(row: JournalRow) -> tuple[Any, ...]:
    told = (row.lane, row.seq, row.turn_id, row.node, row.key, row.cause[:CAUSE_LENGTH])
    return (*told, _encode(row.summary).decode(), _encode(row.records).decode())


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
