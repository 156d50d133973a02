"""This room is the one door to the schema: Django's `migrate`, but in our database and forwards only."""

from typing import Any

from django.conf import settings
from django.core.management.base import CommandError
from django.core.management.commands import migrate
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations.exceptions import AmbiguityError, NodeNotFoundError
from django.db.migrations.executor import MigrationExecutor

# It makes the table of the cluster, and depends on nothing: a database that has it is ours from then on.
OURS = ("runtime", "0001_cluster_leases_journal_work")
_FOREIGN = """
SELECT n.nspname || '.' || c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'f', 'v', 'm') AND n.nspname NOT IN ('pg_catalog', 'information_schema')
  AND n.nspname NOT LIKE 'pg\\_%%' AND c.relname <> 'django_migrations'
  AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = c.oid AND d.deptype = 'e')
ORDER BY 1
"""


class Command(migrate.Command):
    """Asked for by its name (MUSTER_SHARED_DATABASE), also a database with other people's tables is taken."""

    def handle(self, *args: Any, **options: Any) -> None:
        connection = connections[options["database"]]
        executor = MigrationExecutor(connection)
        if OURS not in executor.loader.applied_migrations:
            _refuse_a_foreign_one(connection)
            # First of all: who is killed in the middle of the rest finds his database again.
            executor.migrate([OURS])
        _refuse_the_way_back(executor, options["app_label"], options["migration_name"])
        super().handle(*args, **options)


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
