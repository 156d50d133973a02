"""The session's PostgreSQL hands each test a migrated database, and takes it back."""

import os

import psycopg
import pytest
from django.conf import settings
from django.contrib.auth import get_user_model

from standalone.postgres import Postgres
from tests.kept_databases import KeptDatabases, drop_database


@pytest.mark.parametrize("turn", ["first", "second"])
def test_rows_of_one_test_are_not_seen_by_the_next(fresh_database: str, turn: str) -> None:
    with psycopg.connect(fresh_database) as connection:
        rows = connection.execute("SELECT count(*) FROM django_content_type WHERE model = 'orders'")
        before = rows.fetchone()
        connection.execute("INSERT INTO django_content_type (app_label, model) VALUES ('clicks', 'orders')")
    assert before == (0,)


def test_what_a_test_did_to_its_database_is_not_seen_by_the_next(
    postgres_server: Postgres, migrated_template: str
) -> None:
    kept = KeptDatabases(postgres_server, migrated_template)
    name = kept.lend()
    with psycopg.connect(postgres_server.superuser_url(name), autocommit=True) as connection:
        first = connection.execute("SELECT nextval('node_identity_node_id_seq')").fetchone()
        connection.execute("INSERT INTO auth_group (name) VALUES ('pilots')")
        connection.execute("CREATE TABLE invoices (id int)")
        # Whoever was left behind does not hold it back.
        kept.take_back(name)
    assert kept.lend() == name
    with psycopg.connect(postgres_server.superuser_url(name), autocommit=True) as connection:
        assert connection.execute("SELECT nextval('node_identity_node_id_seq')").fetchone() == first
        assert connection.execute("SELECT count(*) FROM auth_group").fetchone() == (0,)
        assert connection.execute("SELECT to_regclass('invoices')").fetchone() == (None,)


@pytest.mark.parametrize(
    "harm",
    [
        "ALTER TABLE auth_group ADD COLUMN colour text",
        "ALTER TABLE auth_group DROP CONSTRAINT auth_group_name_key",
        "CREATE SCHEMA shop",
        "DELETE FROM django_migrations WHERE id = 1",
        "UPDATE django_content_type SET model = 'orders' WHERE id = 1",
    ],
)
def test_a_database_that_cannot_be_made_as_new_is_not_lent_again(
    postgres_server: Postgres, migrated_template: str, harm: str
) -> None:
    kept = KeptDatabases(postgres_server, migrated_template)
    name = kept.lend()
    with psycopg.connect(postgres_server.superuser_url(name), autocommit=True) as connection:
        connection.execute(harm)
    kept.take_back(name)
    again = kept.lend()
    assert again != name
    drop_database(postgres_server, again)


def test_django_and_child_processes_use_the_same_database(fresh_database: str) -> None:
    get_user_model().objects.create(username="ann")
    with psycopg.connect(fresh_database) as connection:
        assert connection.execute("SELECT username FROM auth_user").fetchall() == [("ann",)]
    assert settings.DATABASE_URL == fresh_database == os.environ["DATABASE_URL"]


@pytest.mark.django_db
def test_the_orm_fixture_works_on_a_copy_of_the_template() -> None:
    get_user_model().objects.create(username="ben")
    assert get_user_model().objects.count() == 1


def test_the_superuser_can_end_a_backend(fresh_database: str, postgres_server: Postgres) -> None:
    with psycopg.connect(fresh_database) as victim:
        pid = victim.info.backend_pid
        with psycopg.connect(postgres_server.superuser_url(), autocommit=True) as superuser:
            assert superuser.execute("SELECT pg_terminate_backend(%s, 5000)", [pid]).fetchone() == (True,)
        with pytest.raises(psycopg.OperationalError):
            victim.execute("SELECT 1")


def test_nobody_gets_in_without_the_password(postgres_server: Postgres) -> None:
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(postgres_server.url().replace(postgres_server.password, "guess"))
