"""This room is the one door to the schema: Django's `migrate`, but in our database and forwards only."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any, Final, Self

from django.conf import settings
from django.core.management.base import CommandError
from django.core.management.commands import migrate
from django.db import OperationalError, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.postgresql.schema import DatabaseSchemaEditor
from django.db.migrations.exceptions import AmbiguityError, NodeNotFoundError
from django.db.migrations.executor import MigrationExecutor
from psycopg.errors import DeadlockDetected, LockNotAvailable, QueryCanceled

from runtime.schema import why_unknown

# It makes the table of the cluster, and depends on nothing: a database that has it is ours from then on.
OURS = ("runtime", "0001_cluster_leases_journal_work")
_FOREIGN = """
SELECT n.nspname || '.' || c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'f', 'v', 'm') AND n.nspname NOT IN ('pg_catalog', 'information_schema')
  AND n.nspname NOT LIKE 'pg\\_%%' AND c.relname <> 'django_migrations'
  AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = c.oid AND d.deptype = 'e')
ORDER BY 1
"""
WAIT_FOR_A_TABLE_MS: Final = 1_000
"""Who comes to a table behind us waits as long as we do, and a node's transaction is ended after 2 s."""
PAUSE_S: Final = 0.5
"""Those who waited have their turn."""
PATIENCE_S = 60.0
LOOK_S = 0.5
"""How often it is looked whether what is made beside writers waits for others."""
_ALONE: Final = "SELECT pg_try_advisory_xact_lock(7226839175820531)"
_WITHOUT_A_SNAPSHOT: Final = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED"
"""An administrator may have set a stricter one, which keeps a snapshot: what makes an index beside writers
would wait for that, and so for ourselves.
"""
_FOR_AS_LONG_AS_IT_TAKES: Final = """
SELECT set_config(name, '0', true) FROM pg_settings
WHERE name IN ('idle_in_transaction_session_timeout', 'transaction_timeout')
"""
_WHILE_WE_LIVE: Final = """
SELECT set_config('tcp_keepalives_idle', '10', true), set_config('tcp_keepalives_interval', '5', true),
    set_config('tcp_keepalives_count', '3', true)
"""
"""A machine that vanished says nothing: PostgreSQL would keep its lock for two hours."""
_WAITS: Final = """
SELECT FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
    AND query LIKE '%CONCURRENTLY%' AND wait_event_type = 'Lock'
"""
_IN_THE_WAY: Final = """
SELECT DISTINCT pid, coalesce(nullif(application_name, ''), usename::text),
    coalesce(extract(epoch FROM now() - xact_start)::int || ' s', 'unknown time')
FROM pg_locks JOIN pg_stat_activity USING (pid)
WHERE datname = current_database() AND locktype = 'relation' AND relation >= 16384 AND granted
    AND pid <> pg_backend_pid() AND (xact_start IS NULL OR xact_start < now() - interval '1 s')
"""
"""Of other people's sessions PostgreSQL hides since when they are open; tables of its own are below 16384."""


class Command(migrate.Command):
    """Asked for by its name (MUSTER_SHARED_DATABASE), also a database with other people's tables is taken."""

    def handle(self, *args: Any, **options: Any) -> None:
        connection = connections[options["database"]]
        if options["plan"] or options["check_unapplied"]:
            # Who only looks, as what starts nodes does again and again, waits for nobody.
            self._migrate_alone(connection, *args, **options)
            return
        say = self.stdout.write if options["verbosity"] else lambda _: None
        with _alone(connection, say):
            self._migrate_alone(connection, *args, **options)

    def _migrate_alone(self, connection: BaseDatabaseWrapper, *args: Any, **options: Any) -> None:
        if unknown := why_unknown(connection):
            raise CommandError(unknown)
        executor = MigrationExecutor(connection)
        if OURS not in executor.loader.applied_migrations:
            _refuse_a_foreign_one(connection)
            # First of all: who is killed in the middle of the rest finds his database again.
            executor.migrate([OURS])
        _refuse_the_way_back(executor, options["app_label"], options["migration_name"])
        connection.SchemaEditorClass = _SoonAside
        try:
            self._migrate_between_others(connection, *args, **options)
        finally:
            del connection.SchemaEditorClass

    def _migrate_between_others(self, connection: BaseDatabaseWrapper, *args: Any, **options: Any) -> None:
        """Each migration is whole or not there: the one that found a table kept by others begins again.

        Raises CommandError when they kept it for PATIENCE_S.
        """
        give_up_at = time.monotonic() + PATIENCE_S
        while True:
            try:
                super().handle(*args, **options)
                return
            except OperationalError as error:
                if not isinstance(error.__cause__, LockNotAvailable | DeadlockDetected):
                    raise
                if time.monotonic() > give_up_at:
                    raise CommandError(_who_is_in_the_way(connection)) from error
            if options["verbosity"]:
                self.stdout.write(" somebody keeps a table: once more")
            time.sleep(PAUSE_S)


@contextmanager
def _alone(connection: BaseDatabaseWrapper, say: Callable[[str], object]) -> Iterator[None]:
    """One at a time: two would drop each other's index. Those that waited find nothing to do.

    The lock is a transaction's, as a pooler would keep a session's, and asked for again and again: an index
    that is made beside writers would wait for whoever waits in a statement.
    """
    with closing(connection.copy()) as beside:
        beside.set_autocommit(False)
        waits = False
        while not _has_it_alone(beside):
            beside.rollback()
            if not waits:
                waits = True
                say("Another one migrates this database: this one waits until it is done.")
            time.sleep(PAUSE_S)
        yield


def _has_it_alone(beside: BaseDatabaseWrapper) -> bool:
    with beside.cursor() as cursor:
        cursor.execute(_WITHOUT_A_SNAPSHOT)
        cursor.execute(_FOR_AS_LONG_AS_IT_TAKES)
        cursor.execute(_WHILE_WE_LIVE)
        cursor.execute(_ALONE)
        return bool(cursor.fetchone()[0])


class _SoonAside(DatabaseSchemaEditor):
    """Nobody waits behind one statement of a migration for longer than WAIT_FOR_A_TABLE_MS.

    LOCAL, as DATABASE_URL may lead to a pooler, where the next one to be served would have what stays.
    """

    def __enter__(self) -> Self:
        super().__enter__()
        if self.atomic_migration:
            with self.connection.cursor() as cursor:
                cursor.execute(f"SET LOCAL lock_timeout = {WAIT_FOR_A_TABLE_MS}")
        return self

    def execute(self, sql: Any, params: Any = ()) -> None:
        """What is made beside writers waits for old transactions; only who alters the table waits for it.

        Raises CommandError after PATIENCE_S.
        """
        if "CONCURRENTLY" not in str(sql):
            super().execute(sql, params)
            return
        self.connection.ensure_connection()
        patience = _Patience(self.connection)
        patience.start()
        try:
            super().execute(sql, params)
        except OperationalError as error:
            if isinstance(error.__cause__, QueryCanceled) and patience.is_over:
                raise CommandError(_who_is_in_the_way(self.connection)) from error
            raise
        finally:
            patience.end()


class _Patience(threading.Thread):
    """Cancels what is made beside writers when it has waited for others for PATIENCE_S.

    Not for as long as it takes: who reads a large table may need longer, and would begin anew each time. From
    outside, as a limit that no transaction takes back would stay in a pooler.
    """

    def __init__(self, making: BaseDatabaseWrapper) -> None:
        super().__init__(daemon=True)
        self._making = making
        self._made = threading.Event()
        self.is_over = False

    def run(self) -> None:
        waits_since: float | None = None
        with closing(self._making.copy()) as beside:
            while not self._made.wait(LOOK_S):
                with suppress(OperationalError), beside.cursor() as cursor:
                    cursor.execute(_WAITS)
                    waits_since = (waits_since or time.monotonic()) if cursor.fetchall() else None
                if waits_since is not None and time.monotonic() - waits_since >= PATIENCE_S:
                    self.is_over = True
                    self._making.connection.cancel_safe()
                    return

    def end(self) -> None:
        """It is made, or failed."""
        self._made.set()
        self.join()


def _who_is_in_the_way(connection: BaseDatabaseWrapper) -> str:
    with connection.cursor() as cursor:
        cursor.execute(_IN_THE_WAY)
        found = [f"{name} (PID {pid}, for {age})" for pid, name, age in cursor.fetchall()]
    return (
        f"Somebody keeps a table that is to be changed: {', '.join(found) or 'nobody any more'}. What was"
        " migrated stays; wait for them, or end them, and run this again (docs/operations.md, Upgrade)."
    )


def _refuse_the_way_back(executor: MigrationExecutor, app: str | None, name: str | None) -> None:
    """Columns would go with what they hold. Without the bounds of its token a program could do everything."""
    if app is None or name is None:
        return
    if name != "zero":
        try:
            name = executor.loader.get_migration_by_prefix(app, name).name
        except (AmbiguityError, KeyError):
            return  # Django says what is wrong with the name
    executor.loader.build_graph()
    try:
        plan = executor.migration_plan([(app, None if name == "zero" else name)])
    except NodeNotFoundError:
        return
    if undone := [f"{one.app_label}.{one.name}" for one, backwards in plan if backwards]:
        raise CommandError(
            f"There is no way back: {', '.join(undone)} would be undone, and what only they have room for be"
            " lost, such as bounds of tokens, which would then be good for everything. Put the backup of"
            " before in the place of this database (docs/operations.md, Backup); to begin anew, name an empty"
            " one."
        )


def _refuse_a_foreign_one(connection: BaseDatabaseWrapper) -> None:
    name = connection.settings_dict["NAME"]
    if name == settings.MUSTER_SHARED_DATABASE:
        return
    with connection.cursor() as cursor:
        cursor.execute(_FOREIGN)
        found = [row[0] for row in cursor.fetchall()]
    if found:
        raise CommandError(
            f"The database {name!r} holds {len(found)} tables that are not Muster's"
            f" ({', '.join(found[:3])} …)."
            f" Name an empty one, or set MUSTER_SHARED_DATABASE={name} to let Muster live beside them."
        )
