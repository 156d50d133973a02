"""This room hands tests databases as good as new: to empty one costs a tenth of a copy."""

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from psycopg import Connection, connect, sql

from standalone.postgres import OWNER, Postgres

ENDS_WITHIN_MS = 10_000
LIMITS = ("statement", "lock", "transaction", "idle_in_transaction_session", "idle_session")
UNBOUNDED = " ".join(f"-c {limit}_timeout=0" for limit in LIMITS)
"""A test may have bounded whatever is done in its database: to take that back takes as long as it takes."""
PRISTINE, EMPTY = "template0", "muster_empty"
"""Nobody can look into PostgreSQL's own template, and few want a database without tables."""

SHAPE = """
    SELECT md5(string_agg(what, ',' ORDER BY what)) FROM (
        SELECT format('relation %s %s %s %s %s', oid, relname, relkind, relnatts, relhastriggers)
          FROM pg_class WHERE relnamespace = 'public'::regnamespace
         UNION ALL
        SELECT format('column %s %s %s %s %s', attrelid, attname, atttypid, attnotnull, atthasdef)
          FROM pg_attribute JOIN pg_class ON attrelid = pg_class.oid
         WHERE relnamespace = 'public'::regnamespace
         UNION ALL
        SELECT format('constraint %s %s %s', oid, conname, convalidated) FROM pg_constraint
         UNION ALL
        SELECT format('function %s %s', oid, prosrc) FROM pg_proc WHERE pronamespace = 'public'::regnamespace
         UNION ALL
        SELECT format('schema %s', nspname) FROM pg_namespace WHERE nspname !~ '^pg_'
         UNION ALL
        SELECT format('setting %s', setconfig) FROM pg_db_role_setting JOIN pg_database ON oid = setdatabase
         WHERE datname = current_database()
    ) AS said (what)
"""
"""Two copies of one template agree in it, down to the numbers of relations, until somebody changes one."""


_servers = itertools.count(1)


class KeptDatabases:
    """The databases of one server: copies of its template, lent to one test at a time."""

    def __init__(self, server: Postgres, template: str) -> None:
        self._server = server
        self._template = template
        self._free: list[str] = []
        self._name = f"muster_{next(_servers)}"
        self._made = 0
        with self._superuser(template) as connection:
            self._shape = _text(connection, SHAPE)
            found = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
            tables = [name for (name,) in found]
            self._tables = frozenset(tables)
            seeded = [name for name in tables if connection.execute(_first_row(name)).fetchone()]
            self._kept = sql.SQL(" || ").join(map(_contents, sorted(seeded)))
            self._rows = _text(connection, sql.SQL("SELECT {}").format(self._kept))
            found = connection.execute("SELECT sequencename FROM pg_sequences WHERE schemaname = 'public'")
            self._numbers = sql.SQL("; ").join(_as_it_is(connection, name) for (name,) in found.fetchall())
            self._emptied = sorted(self._tables.difference(seeded))

    def lend(self) -> str:
        """The name of a database with the whole schema and no rows."""
        if self._free:
            return self._free.pop()
        self._made += 1
        name = f"{self._name}_{self._made}"
        copy_database(self._server, name, template=self._template)
        return name

    def take_back(self, name: str) -> None:
        """End whoever is still connected and empty it; one whose tables were changed is not lent again."""
        with self._superuser() as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid, %s) FROM pg_stat_activity WHERE datname = %s",
                [ENDS_WITHIN_MS, name],
            )
        with self._superuser(name) as connection:
            found = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
            for (added,) in found.fetchall():
                if added not in self._tables:
                    connection.execute(sql.SQL("DROP TABLE {} CASCADE").format(sql.Identifier(added)))
            good = _text(connection, SHAPE) == self._shape
            if good:
                self._truncate(connection)
                connection.execute(self._numbers)
                good = _text(connection, sql.SQL("SELECT {}").format(self._kept)) == self._rows
        if good:
            self._free.append(name)
            return
        drop_database(self._server, name)

    def _truncate(self, connection: Connection[tuple[str]]) -> None:
        """Begin anew what holds pages: the planner believes of it then what it believes of a new table."""
        used = connection.execute(
            "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relname = ANY (%s)"
            " AND pg_relation_size(oid) > 0",
            [self._emptied],
        ).fetchall()
        if used:
            names = sql.SQL(", ").join(sql.Identifier(name) for (name,) in used)
            connection.execute(sql.SQL("TRUNCATE {} CASCADE").format(names))

    def _superuser(self, database: str = "postgres") -> Connection[tuple[str]]:
        return connect(self._server.superuser_url(database), autocommit=True, options=UNBOUNDED)


def copy_database(server: Postgres, name: str, *, template: str) -> None:
    """Make a database of the product's owner."""
    statement = sql.SQL("CREATE DATABASE {} OWNER {} TEMPLATE {} STRATEGY FILE_COPY")
    with connect(server.superuser_url(), autocommit=True) as connection:
        connection.execute(
            statement.format(sql.Identifier(name), sql.Identifier(OWNER), sql.Identifier(template))
        )


def drop_database(server: Postgres, name: str) -> None:
    """End whoever is connected, and remove it."""
    with connect(server.superuser_url(), autocommit=True) as connection:
        connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


@cache
def kept_databases(server: Postgres, template: str) -> KeptDatabases:
    """Those of the session's server."""
    return KeptDatabases(server, template)


@contextmanager
def lent_database(server: Postgres, template: str) -> Iterator[str]:
    """The address of a database with the template's tables and rows, for as long as it is needed."""
    if template == PRISTINE:
        copy_database(server, EMPTY, template=PRISTINE)
        yield server.url(EMPTY)
        drop_database(server, EMPTY)
        return
    kept = kept_databases(server, template)
    name = kept.lend()
    try:
        yield server.url(name)
    finally:
        kept.take_back(name)


def _first_row(table: str) -> sql.Composed:
    return sql.SQL("SELECT 1 FROM {} LIMIT 1").format(sql.Identifier(table))


def _as_it_is(connection: Connection[tuple[str]], sequence: str) -> sql.Composed:
    """The statement that sets a sequence to where it stands: not all begin at 1."""
    asked = sql.SQL("SELECT last_value, is_called FROM {}").format(sql.Identifier(sequence))
    [(number, is_used)] = connection.execute(asked).fetchall()  # type: ignore[misc]
    return sql.SQL("SELECT setval({}::regclass, {}, {})").format(sequence, number, is_used)


def _contents(table: str) -> sql.Composed:
    return sql.SQL(
        "(SELECT md5(coalesce(string_agg(t::text, ',' ORDER BY t::text), '')) FROM {} AS t)"
    ).format(sql.Identifier(table))


def _text(connection: Connection[tuple[str]], asked: str | sql.Composed) -> str:
    row = connection.execute(asked).fetchone()
    assert row is not None
    return row[0]
