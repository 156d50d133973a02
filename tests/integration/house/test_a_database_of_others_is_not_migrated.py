"""The schema goes into an empty database or into ours; another one only when asked for by name."""

from collections.abc import Iterator

import psycopg
import pytest
from django.conf import LazySettings
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connections
from pytest_django import DjangoDbBlocker

from standalone.postgres import Postgres
from tests.conftest import database_of_its_own


@pytest.fixture
def empty(
    postgres_server: Postgres, django_db_blocker: DjangoDbBlocker, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """A database without any table, at which Django points."""
    with database_of_its_own(postgres_server, "template0", django_db_blocker, monkeypatch) as url:
        yield url


def _tables(url: str) -> set[str]:
    with psycopg.connect(url) as connection:
        rows = connection.execute(
            "SELECT relname FROM pg_class WHERE relkind = 'r' AND relname !~ '^(pg|sql)_'"
        )
        return {row[0] for row in rows}


def _execute(url: str, statement: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement)


def _name(url: str) -> str:
    return url.rpartition("/")[2]


def test_an_empty_one_becomes_ours_and_may_then_hold_anything(empty: str) -> None:
    call_command("migrate", verbosity=0)
    assert {"cluster", "lease", "consumer_group"} <= _tables(empty)
    _execute(empty, "CREATE TABLE invoices (id int)")
    call_command("migrate", verbosity=0)


@pytest.mark.parametrize(
    "theirs",
    [
        "CREATE TABLE invoices (id int)",
        "CREATE SCHEMA shop CREATE TABLE cluster (id int)",
        "CREATE VIEW sales AS SELECT 1 AS one",
    ],
)
def test_one_that_holds_something_else_stays_as_it_is(empty: str, theirs: str) -> None:
    _execute(empty, theirs)
    before = _tables(empty)
    with pytest.raises(CommandError, match=r"holds 1 tables that are not Muster's .*MUSTER_SHARED_DATABASE="):
        call_command("migrate", verbosity=0)
    assert _tables(empty) == before


def test_that_of_another_django_program_stays_as_it_is(empty: str) -> None:
    _execute(
        empty,
        "CREATE TABLE django_migrations (id serial PRIMARY KEY, app text, name text, applied timestamptz);"
        " INSERT INTO django_migrations (app, name, applied) VALUES ('auth', '0001_initial', now());"
        " CREATE TABLE auth_user (id int)",
    )
    with pytest.raises(CommandError, match="auth_user"):
        call_command("migrate", verbosity=0)
    assert _tables(empty) == {"django_migrations", "auth_user"}


def test_asked_for_by_name_it_is_taken(empty: str, settings: LazySettings) -> None:
    _execute(empty, "CREATE TABLE invoices (id int)")
    settings.MUSTER_SHARED_DATABASE = "another_name"
    with pytest.raises(CommandError):
        call_command("migrate", verbosity=0)
    settings.MUSTER_SHARED_DATABASE = _name(empty)
    call_command("migrate", verbosity=0)
    assert {"cluster", "invoices"} <= _tables(empty)


def test_a_migration_that_was_killed_goes_on(empty: str) -> None:
    """From the first step that is kept, the database is ours."""
    from django.db.migrations.executor import MigrationExecutor

    from config.management.commands.migrate import OURS

    MigrationExecutor(connections["default"]).migrate([OURS])
    call_command("migrate", verbosity=0)
    assert "consumer_group" in _tables(empty)


def test_the_stack_asks_by_the_same_door(empty: str) -> None:
    _execute(empty, "CREATE TABLE invoices (id int)")
    with pytest.raises(CommandError, match="invoices"):
        call_command("prepare_cluster", 1)
    assert _tables(empty) == {"invoices"}
