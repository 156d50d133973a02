"""What an operator's tool refuses is one line that says what to do, no traceback."""

import os
import subprocess
import sys

import psycopg
import pytest

from tests.tidy.sources import ROOT


def end_of(database: str, *command: str, piped: str = "") -> subprocess.CompletedProcess[str]:
    """How `manage.py` ends with these arguments, on this database."""
    return subprocess.run(
        [sys.executable, "manage.py", *command],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "DATABASE_URL": database},
        input=piped,
        capture_output=True,
        text=True,
        timeout=60,
        # Without a terminal to ask at.
        start_new_session=True,
    )


def test_a_copy_on_another_server_is_named_with_the_way_out(fresh_database: str) -> None:
    assert end_of(fresh_database, "initialise_cluster").returncode == 0
    with psycopg.connect(fresh_database, autocommit=True) as connection:
        connection.execute("UPDATE cluster SET system_identifier = system_identifier + 1")
    ended = end_of(fresh_database, "initialise_cluster")
    assert ended.returncode == 1
    [line] = ended.stderr.splitlines()
    assert line.startswith("CommandError: This cluster was made in PostgreSQL") and "adopt_restore" in line


@pytest.mark.parametrize("command", ["run_node", "initialise_cluster", "adopt_restore"])
def test_the_schema_of_the_version_before_is_named_with_the_way_out(
    fresh_database: str, command: str
) -> None:
    """All of them read the cluster's row first, also before they look which migrations were applied."""
    assert end_of(fresh_database, "initialise_cluster").returncode == 0
    with psycopg.connect(fresh_database, autocommit=True) as connection:
        connection.execute("ALTER TABLE cluster DROP COLUMN location")
    ended = end_of(fresh_database, command)
    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1] == (
        "CommandError: Migrations are missing in this database: run `manage.py migrate`."
    )
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("days", ["0", "36501", "999999999"])
def test_a_token_ends_on_a_day_that_calendars_have(fresh_database: str, days: str) -> None:
    ended = end_of(fresh_database, "create_token", "ann", "--role", "viewer", "--expires-days", days)
    assert ended.returncode == 1
    [line] = ended.stderr.splitlines()
    assert line.startswith("CommandError: --expires-days must be from 1 to 36500")


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("create_user", "ann", "--role", "viewer"), "nothing was typed, and nothing was done."),
        (("create_token", "a" * 151, "--role", "viewer"), "is no name: it has 1 to 150 characters"),
        (("create_token", "", "--role", "viewer"), "is no name: it has 1 to 150 characters"),
        (("login_link", "--user", "a" * 151), "is no name: it has 1 to 150 characters"),
        (("login_link", "--user", " "), "is no name: it has 1 to 150 characters"),
        (("revoke_token", "a" * 151), "No living token is named"),
    ],
)
def test_what_was_not_typed_or_too_long_is_a_line(
    fresh_database: str, command: tuple[str, ...], said: str
) -> None:
    ended = end_of(fresh_database, *command)
    assert ended.returncode == 1
    assert said in ended.stderr.splitlines()[-1], ended.stderr
    assert "Traceback" not in ended.stderr and "Warning" not in ended.stderr


def test_no_command_empties_the_tables_of_a_cluster(fresh_database: str) -> None:
    """Django brings one that did, without a word: nodes ended, and every token was unknown."""
    assert end_of(fresh_database, "create_token", "ann", "--role", "viewer").returncode == 0
    ended = end_of(fresh_database, "flush", "--no-input")
    assert ended.returncode == 1 and "all that the cluster knows would be lost" in ended.stderr
    assert end_of(fresh_database, "revoke_token", "ann").returncode == 0


@pytest.mark.parametrize(
    "failure",
    ["raise EOFError", "from access.models import Principal; Principal.objects.create(name='a' * 151)"],
)
def test_what_no_person_typed_wrong_keeps_its_traceback(fresh_database: str, failure: str) -> None:
    """A node whose pipe ended said that nothing was typed, and nothing was done."""
    ended = end_of(fresh_database, "shell", "-c", failure)
    assert ended.returncode == 1
    assert "Traceback" in ended.stderr and "nothing was done" not in ended.stderr


def test_a_password_from_a_pipe_is_asked_for_once(fresh_database: str) -> None:
    ended = end_of(fresh_database, "create_user", "ann", "--role", "viewer", piped="too-short\n")
    assert ended.returncode == 1
    assert "CommandError: This password is too short." in ended.stderr
