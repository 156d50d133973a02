"""This room writes: tables of PostgreSQL through JDBC."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Final, LiteralString
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit
from uuid import uuid4

import psycopg
from psycopg import sql
from pyspark.sql import DataFrame

ROWS_IN_A_BATCH = 5_000

_MADE: Final[LiteralString] = "CREATE TABLE IF NOT EXISTS {table} (LIKE {beside})"
_KEPT: Final[LiteralString] = "LOCK TABLE {table} IN SHARE ROW EXCLUSIVE MODE"
"""Of two jobs that end at once the second would not see, and so not delete, what the first is writing."""

_EMPTIED: Final[LiteralString] = "DELETE FROM {table}"
"""TRUNCATE would show no rows to whoever reads meanwhile."""

_FILLED: Final[LiteralString] = "INSERT INTO {table} ({columns}) SELECT {columns} FROM {beside}"
_DROPPED: Final[LiteralString] = "DROP TABLE IF EXISTS {beside}"


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
    before or those of now, and a job that fails, or is killed, leaves it as it was.
    """
    beside = f"{table}_{uuid4().hex[:8]}"
    names = {
        "table": sql.Identifier(table),
        "beside": sql.Identifier(beside),
        "columns": sql.SQL(", ").join(map(sql.Identifier, frame.columns)),
    }
    try:
        (
            frame.write.format("jdbc")
            .options(**jdbc_options(database_url))
            .option("dbtable", beside)
            .option("batchsize", str(ROWS_IN_A_BATCH))
            .mode("error")
            .save()
        )
        _run(database_url, names, _MADE, _KEPT, _EMPTIED, _FILLED, _DROPPED)
    except BaseException:
        # If the database is gone, what went wrong says more than that nothing could be cleared away.
        with suppress(psycopg.Error):
            _run(database_url, names, _DROPPED)
        raise


def _run(database_url: str, names: Mapping[str, sql.Composable], *statements: LiteralString) -> None:
    with psycopg.connect(database_url) as connection:
        for statement in statements:
            connection.execute(sql.SQL(statement).format(**names))
