"""This room tells an older program that the database has the schema of a newer one.

What such a schema says in other words this program cannot know: it does not begin on it. A process that runs
while `manage.py migrate` brings it goes on: an upgrade migrates first, then restarts one after the other.
"""

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from pkgutil import iter_modules
from typing import TypeAlias

from django.apps import apps
from django.db import DatabaseError
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations.recorder import MigrationRecorder

NAMED_AT_MOST = 3

Migration: TypeAlias = tuple[str, str]
"""Its app's label, and its name."""


def why_unknown(connection: BaseDatabaseWrapper) -> str:
    """Which migrations this database has that this program has not; empty: none.

    What apps that are not installed here have applied is theirs. No migration is imported that replaces
    none: a worker keeps what it imports. Raises DatabaseError.
    """
    applied = MigrationRecorder(connection).applied_migrations()
    ours = {config.label: _migrations_of(config.label, config.name) for config in apps.get_app_configs()}
    known = frozenset[Migration]().union(*ours.values())
    unknown = sorted(f"{app}.{name}" for app, name in applied.keys() - known if app in ours)
    if not unknown:
        return ""
    more = f" and {len(unknown) - NAMED_AT_MOST} more" if len(unknown) > NAMED_AT_MOST else ""
    return (
        "This program is older than the schema of its database, which has"
        f" {', '.join(unknown[:NAMED_AT_MOST])}{more}: start the version that ran `manage.py migrate` last."
    )


def why_not_to_begin(connection: BaseDatabaseWrapper) -> str:
    """The same for a process that begins also where the database does not answer; nothing stays connected."""
    try:
        return why_unknown(connection)
    except DatabaseError:
        return ""
    finally:
        connection.close()


@cache
def _migrations_of(label: str, app: str) -> frozenset[Migration]:
    """Its migrations, and those that one of them replaces, as they lay on disk when somebody looked first:
    files may be exchanged.
    """
    spec = find_spec(f"{app}.migrations")
    places = spec.submodule_search_locations if spec else None
    names = [one.name for one in iter_modules(places)] if places else []
    files = [Path(place, f"{name}.py") for place in places or () for name in names]
    replaced = (pair for file in files if file.is_file() for pair in _replaced_by(app, file))
    return frozenset([*((label, name) for name in names), *replaced])


def _replaced_by(app: str, migration: Path) -> list[Migration]:
    """What a squashed migration stands for, also when the files of that are gone.

    Imported only where it may say so: it may have computed it.
    """
    if "replaces" not in migration.read_text(encoding="utf-8"):
        return []
    module = import_module(f"{app}.migrations.{migration.stem}")
    return list(getattr(getattr(module, "Migration", None), "replaces", ()))
