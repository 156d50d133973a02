"""Migrations run beside nodes: who reads a table for long, as a backup does, keeps nobody else waiting."""

import io
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connections
from django.db.models.signals import pre_migrate

from config.management.commands import migrate
from runtime.postgres import open_connection
from tests.integration.coordinator.control_plane import eventually

UNDONE = """
DROP TABLE lag_note;
ALTER TABLE partition DROP COLUMN unproven;
ALTER TABLE broker_condition DROP COLUMN version;
DELETE FROM django_migrations WHERE app = 'controller' AND name >= '0016_partitions_that_are_unproven'
"""
WITHOUT_AN_INDEX = """
ALTER TABLE node_session DROP COLUMN came, DROP COLUMN made_way_for, DROP COLUMN made_way_at;
DROP INDEX work_item_controller_requests, work_item_taken;
ALTER TABLE work_item DROP COLUMN wanted_until;
DELETE FROM django_migrations WHERE app = 'runtime' AND name >= '0012_requests_newest_first'
"""
RECORDED = "SELECT count(*) FROM django_migrations WHERE name = '0012_requests_newest_first'"
USABLE = "SELECT indisvalid FROM pg_index WHERE indexrelid = 'work_item_controller_requests'::regclass"
ASKED = """
INSERT INTO work_item (id, kind, lane, key, principal, reason, payload, state, claim_epoch, claimed_by, error)
VALUES (gen_random_uuid(), 'controller.request', 'controller', 'cluster', 'olga', '', '{}', 'due', 0, '', '')
"""
A_YEAR = """
INSERT INTO work_item (id, kind, lane, key, principal, reason, payload, state, claim_epoch, claimed_by, error)
SELECT gen_random_uuid(), 'controller.request', 'controller', 'cluster', '', '', '{}', 'adopted', 0, '', ''
FROM generate_series(1, 100000)
"""
BUILDS = (
    "SELECT FROM pg_stat_activity WHERE query LIKE 'CREATE INDEX CONCURRENTLY%' AND wait_event_type = 'Lock'"
)
WAITS = "SELECT FROM pg_stat_activity WHERE query LIKE 'ALTER%' AND wait_event_type = 'Lock'"


class Migrating(threading.Thread):
    """`manage.py migrate`, and how it ended."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.refused: CommandError | None = None
        self.said = io.StringIO()

    def run(self) -> None:
        try:
            call_command("migrate", verbosity=1, stdout=self.said)
        except CommandError as problem:
            self.refused = problem
        finally:
            connections.close_all()

    def says_that_it_waits(self) -> bool:
        return "Another one migrates this database" in self.said.getvalue()


@pytest.fixture
def behind(fresh_database: str) -> str:
    """A database that lacks the last migrations of one app."""
    with psycopg.connect(fresh_database) as connection:
        connection.execute(UNDONE)
    return fresh_database


@contextmanager
def backup(database: str) -> Iterator[psycopg.Connection[Any]]:
    """What pg_dump keeps until it is done."""
    with psycopg.connect(database, application_name="pg_dump") as connection:
        connection.execute("LOCK TABLE partition IN ACCESS SHARE MODE")
        yield connection


def looking_on(database: str) -> Callable[[], bool]:
    """Whether the migration waits for the table; a node looks at the rows meanwhile, and is never ended."""

    def waits() -> bool:
        with open_connection(database, "muster:node-1") as node:
            found = node.execute(WAITS).fetchone() is not None
            node.execute("SELECT count(*) FROM partition")
        return found

    return waits


def test_nobody_waits_behind_a_migration_for_longer_than_a_node_can(behind: str) -> None:
    waits = looking_on(behind)
    migrating = Migrating()
    with backup(behind):
        migrating.start()
        for _ in range(2):
            eventually(waits, "the migration waits for the table")
            eventually(lambda: not waits(), "it stands aside")
    migrating.join(60)
    assert not migrating.is_alive() and migrating.refused is None
    with psycopg.connect(behind) as connection:
        connection.execute("SELECT unproven FROM partition")


def test_it_says_who_is_in_the_way(behind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migrate, "PATIENCE_S", 0.0)
    with backup(behind) as connection:
        migrating = Migrating()
        migrating.start()
        migrating.join(60)
        assert f"pg_dump (PID {connection.info.backend_pid}, for " in str(migrating.refused)
    call_command("migrate", verbosity=0)
    with psycopg.connect(behind) as connection:
        connection.execute("SELECT unproven FROM partition")


def test_between_its_transactions_the_connection_is_as_a_pooler_gave_it(behind: str) -> None:
    told: list[str] = []

    def look(using: str, **_: Any) -> None:
        with connections[using].cursor() as cursor:
            cursor.execute("SHOW lock_timeout")
            told.extend(cursor.fetchone())

    pre_migrate.connect(look)
    try:
        call_command("migrate", verbosity=0)
    finally:
        pre_migrate.disconnect(look)
    assert set(told) == {"0"}


@pytest.fixture
def without_an_index(fresh_database: str) -> str:
    """A database in which requests have no index yet."""
    with psycopg.connect(fresh_database) as connection:
        connection.execute(WITHOUT_AN_INDEX)
    return fresh_database


@contextmanager
def an_old_transaction(database: str) -> Iterator[psycopg.Connection[Any]]:
    """What pg_dump keeps until it is done, and a migration of indexes waits for."""
    with psycopg.connect(database, application_name="pg_dump") as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.execute("SELECT count(*) FROM work_item")
        yield connection


def builds(database: str) -> bool:
    """Whether the index waits for an old transaction."""
    with psycopg.connect(database) as connection:
        return connection.execute(BUILDS).fetchone() is not None


def test_requests_are_asked_while_their_index_is_made(without_an_index: str) -> None:
    """A week of work is millions of rows: to read them takes longer than a node's transaction may."""
    migrating = Migrating()
    with an_old_transaction(without_an_index):
        migrating.start()
        eventually(lambda: builds(without_an_index), "the index waits for the old transaction")
        with psycopg.connect(without_an_index, options="-c lock_timeout=1000") as node:
            node.execute(ASKED)
            node.execute("UPDATE work_item SET state = 'claimed'")
    migrating.join(60)
    assert not migrating.is_alive() and migrating.refused is None
    with psycopg.connect(without_an_index) as connection:
        assert connection.execute(USABLE).fetchone() == (True,)


def test_an_index_that_was_left_half_made_is_made_anew(
    without_an_index: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch, an_old_transaction(without_an_index) as dump:
        # Who has been there for a second is named.
        patch.setattr(migrate, "PATIENCE_S", 1.5)
        migrating = Migrating()
        migrating.start()
        migrating.join(60)
        assert f"pg_dump (PID {dump.info.backend_pid}, for " in str(migrating.refused)
    with psycopg.connect(without_an_index) as connection:
        assert connection.execute(USABLE).fetchone() == (False,)
    call_command("migrate", verbosity=0)
    with psycopg.connect(without_an_index) as connection:
        assert connection.execute(USABLE).fetchone() == (True,)


def test_an_index_may_take_longer_than_others_are_waited_for(
    without_an_index: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else that of a large table was begun anew by each run, and never done."""
    with psycopg.connect(without_an_index) as connection:
        connection.execute(A_YEAR)
    monkeypatch.setattr(migrate, "PATIENCE_S", 0.05)
    monkeypatch.setattr(migrate, "LOOK_S", 0.02)
    call_command("migrate", verbosity=0)
    with psycopg.connect(without_an_index) as connection:
        assert connection.execute(USABLE).fetchone() == (True,)


def test_whoever_migrates_beside_another_waits_until_that_one_is_done(without_an_index: str) -> None:
    """Who deploys three nodes at once may begin three of them."""
    first, second, third = Migrating(), Migrating(), Migrating()
    with an_old_transaction(without_an_index):
        first.start()
        eventually(lambda: builds(without_an_index), "the first one's index waits for the old transaction")
        for later in (second, third):
            later.start()
            eventually(later.says_that_it_waits, "it says that it waits")
    for one in (first, second, third):
        one.join(60)
        assert not one.is_alive() and one.refused is None
        assert ("Applying runtime.0012" in one.said.getvalue()) == (one is first)
    with psycopg.connect(without_an_index) as connection:
        assert connection.execute(USABLE).fetchone() == (True,)
        assert connection.execute(RECORDED).fetchone() == (1,)
