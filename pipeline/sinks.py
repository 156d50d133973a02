"""This room writes: tables of PostgreSQL through JDBC."""

import re
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from typing import Final, LiteralString
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit
from uuid import uuid4

import psycopg
from psycopg import sql
from pyspark.sql import DataFrame

ROWS_IN_A_BATCH = 5_000
_MARK: Final = "_beside_"
"""Nobody names a copy of his own like that."""

_MADE: Final[LiteralString] = "CREATE TABLE IF NOT EXISTS {table} (LIKE {beside})"
_KEPT: Final[LiteralString] = "LOCK TABLE {table} IN SHARE ROW EXCLUSIVE MODE"
"""Of two jobs that end at once the second would not see, and so not delete, what the first is writing."""

_EMPTIED: Final[LiteralString] = "DELETE FROM {table}"
"""TRUNCATE would show no rows to whoever reads meanwhile."""

_FILLED: Final[LiteralString] = "INSERT INTO {table} ({columns}) SELECT {columns} FROM {beside}"
_DROPPED: Final[LiteralString] = "DROP TABLE IF EXISTS {beside}"

_COMMITTED: Final[LiteralString] = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED"
"""What a job waited for it is to see; an administrator may have set another level."""
_LIMITS: Final[tuple[LiteralString, ...]] = (
    "SET LOCAL idle_in_transaction_session_timeout = 0",
    "SET LOCAL transaction_timeout = 0",
)
"""An administrator may have set others, which would end the claim of a job that takes its time."""
_CLAIMED: Final[LiteralString] = "SELECT pg_advisory_xact_lock(hashtext(%s))"
_IS_FREE: Final[LiteralString] = "SELECT pg_try_advisory_xact_lock(hashtext(%s))"
_SOON: Final[LiteralString] = "SET LOCAL lock_timeout = '1s'"
_BESIDE: Final[LiteralString] = (
    "SELECT relname FROM pg_class WHERE relkind = 'r' AND pg_table_is_visible(oid) AND relname ~ %s"
)


def jdbc_options(database_url: str) -> dict[str, str]:
    """The JDBC address and login for `postgresql://user:password@host:port/name?…`.

    Raises ValueError if the address names no host or no database: JDBC knows no socket folders.
    """
    parts = urlsplit(database_url)
    name = parts.path.lstrip("/")
    if parts.scheme not in ("postgres", "postgresql") or not parts.hostname or not name:
        raise ValueError("the database must be given as postgresql://user:password@host:port/name")
    # What holds colons is an address of IPv6, whose brackets were taken off.
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    kept = urlencode([(key, value) for key, value in parse_qsl(parts.query) if key.startswith("ssl")])
    options = {
        "url": f"jdbc:postgresql://{host}:{parts.port or 5432}/{name}" + (f"?{kept}" if kept else ""),
        "driver": "org.postgresql.Driver",
        "user": unquote(parts.username or ""),
    }
    if parts.password is not None:
        options["password"] = unquote(parts.password)
    return options


def replace_table(frame: DataFrame, database_url: str, table: str) -> None:
    """Make `table` hold exactly `frame`; a job that runs twice leaves what it left the first time.

    Spark writes beside it, from many tasks; then it is replaced at once. Whoever reads it meets the rows of
    before or those of now, and a job that fails, or is killed, leaves it as it was. What one that was killed
    left beside it the next one drops.
    """
    _sweep(database_url, table)
    beside = f"{table}{_MARK}{uuid4().hex[:8]}"
    names = {
        "table": sql.Identifier(table),
        "beside": sql.Identifier(beside),
        "columns": sql.SQL(", ").join(map(sql.Identifier, frame.columns)),
    }
    with _claimed(database_url, beside):
        try:
            (
                frame.write.format("jdbc")
                .options(**jdbc_options(database_url))
                .option("dbtable", beside)
                .option("batchsize", str(ROWS_IN_A_BATCH))
                .mode("error")
                .save()
            )
            _run(database_url, names, _COMMITTED, _MADE, _KEPT, _EMPTIED, _FILLED, _DROPPED)
        except BaseException:
            # If the database is gone, what went wrong says more than that nothing could be cleared away.
            with suppress(psycopg.Error):
                _run(database_url, names, _DROPPED)
            raise


@contextmanager
def _claimed(database_url: str, beside: str) -> Iterator[None]:
    """While it lasts everybody sees that somebody writes there; it ends with this process at the latest.

    The lock is a transaction's, which a pooler leaves on one connection. The last of these statements has no
    snapshot, with which the claim would hold up vacuum.
    """
    with closing(psycopg.connect(database_url)) as connection:
        connection.execute(_COMMITTED)
        connection.execute(_CLAIMED, (beside,))
        for limit in _LIMITS:
            connection.execute(limit)
        yield


def _sweep(database_url: str, table: str) -> None:
    """Drop what lies beside `table` and nobody writes."""
    with psycopg.connect(database_url) as connection:
        found = connection.execute(_BESIDE, (f"^{re.escape(table + _MARK)}[0-9a-f]{{8}}$",)).fetchall()
    for (beside,) in found:
        # What somebody else's role left, reads or has a view of stays: it is no reason not to begin.
        with suppress(psycopg.Error), psycopg.connect(database_url) as connection:
            connection.execute(_SOON)
            if connection.execute(_IS_FREE, (beside,)).fetchone() == (True,):
                connection.execute(sql.SQL(_DROPPED).format(beside=sql.Identifier(beside)))


def _run(database_url: str, names: Mapping[str, sql.Composable], *statements: LiteralString) -> None:
    with psycopg.connect(database_url) as connection:
        for statement in statements:
            connection.execute(sql.SQL(statement).format(**names))
