"""Who migrates keeps others from it for as long as that takes, whatever an administrator set, and waits for
no transaction of its own.
"""

from typing import Any

import psycopg
import pytest
from django.core.management import call_command
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models.signals import pre_migrate

from config.management.commands import migrate
from tests.integration.coordinator.control_plane import eventually
from tests.integration.house.test_migrations_stand_aside_for_a_running_cluster import WITHOUT_AN_INDEX

HOLDS_FOR_LONG = """
SELECT now() - xact_start > interval '1 s' FROM pg_locks JOIN pg_stat_activity USING (pid)
WHERE locktype = 'advisory'
"""


def set_by_an_administrator(database: str, setting: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        name = connection.info.dbname
        connection.execute(f'ALTER DATABASE "{name}" SET {setting}'.encode())
    connections.close_all()


def test_an_index_that_is_made_beside_writers_waits_not_for_the_lock(
    fresh_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migrate, "PATIENCE_S", 3.0)
    set_by_an_administrator(fresh_database, r"default_transaction_isolation = 'repeatable read'")
    with psycopg.connect(fresh_database) as connection:
        connection.execute(WITHOUT_AN_INDEX)
    call_command("migrate", verbosity=0)


def test_no_limit_of_transactions_takes_the_lock_away(fresh_database: str) -> None:
    set_by_an_administrator(fresh_database, "transaction_timeout = '500ms'")
    seen: list[bool | None] = []

    def is_over_or_long() -> bool:
        with psycopg.connect(fresh_database) as other:
            row = other.execute(HOLDS_FOR_LONG).fetchone()
        seen.append(row[0] if row else None)
        return seen[-1] is not False

    def look(**_: Any) -> None:
        eventually(is_over_or_long, "the lock is as old as no transaction may be, or gone")

    pre_migrate.connect(look)
    try:
        call_command("migrate", verbosity=0)
    finally:
        pre_migrate.disconnect(look)
    assert seen[-1], "it is gone"


def test_who_only_looks_waits_for_nobody(fresh_database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def asks(_: Any) -> bool:
        raise AssertionError("it asks for the lock")

    monkeypatch.setattr(migrate, "_has_it_alone", asks)
    call_command("migrate", check_unapplied=True, verbosity=0)
    call_command("migrate", plan=True, verbosity=0)
    with pytest.raises(AssertionError, match="asks for the lock"):
        call_command("migrate", verbosity=0)


def test_a_machine_that_vanishes_gives_it_up_soon(
    fresh_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    has_it_alone, told = migrate._has_it_alone, []

    def noted(beside: BaseDatabaseWrapper) -> bool:
        is_ours = has_it_alone(beside)
        with beside.cursor() as cursor:
            for name in ("idle", "interval", "count"):
                cursor.execute(f"SHOW tcp_keepalives_{name}")
                told.append(int(cursor.fetchone()[0]))
        return is_ours

    monkeypatch.setattr(migrate, "_has_it_alone", noted)
    call_command("migrate", verbosity=0)
    idle_s, interval_s, probes = told
    assert idle_s + interval_s * probes <= 30
