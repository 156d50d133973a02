"""Web, workers and `migrate` of an older version refuse a newer schema in one line; web that runs goes on."""

import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from standalone.redis import Redis
from tests.integration.web.served import WebProcess
from tests.tidy.sources import ROOT

LATER = """
ALTER TABLE node_session ADD of_later text NOT NULL DEFAULT '';
INSERT INTO django_migrations (app, name, applied) VALUES ('{}', '9999_of_later', now())
"""
WHY = (
    "This program is older than the schema of its database, which has runtime.9999_of_later: start the"
    " version that ran `manage.py migrate` last."
)
COMMANDS = {
    "web": ([sys.executable, "manage.py", "run_web"], "CommandError: "),
    "worker": ([sys.executable, "-m", "celery", "-A", "config", "worker", "--concurrency", "1"], "celery: "),
    "migrate": ([sys.executable, "manage.py", "migrate"], "CommandError: "),
}


def migrate_later(database: str, app: str = "runtime") -> None:
    """What a later version's `manage.py migrate` leaves."""
    with psycopg.connect(database) as connection:
        connection.execute(LATER.format(app))


@pytest.mark.parametrize("kind", COMMANDS)
def test_whoever_begins_on_a_newer_schema_ends_and_says_so(
    fresh_database: str, redis_server: Redis, kind: str
) -> None:
    migrate_later(fresh_database)
    command, who = COMMANDS[kind]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=os.environ | {"MUSTER_WEB_LISTEN": "127.0.0.1:0"},
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert (done.returncode, done.stderr.strip().splitlines()[-1:]) == (1, [f"{who}{WHY}"])
    assert "Traceback" not in done.stderr


def test_what_apps_that_are_not_ours_have_applied_is_theirs(fresh_database: str) -> None:
    migrate_later(fresh_database, "somebody_elses")
    call_command("migrate", verbosity=0)
    with psycopg.connect(fresh_database) as connection:
        connection.execute("UPDATE django_migrations SET app = 'auth' WHERE app = 'somebody_elses'")
    with pytest.raises(CommandError, match=r"which has auth\.9999_of_later: start the version"):
        call_command("migrate", verbosity=0)


@pytest.fixture
def web(fresh_database: str, tmp_path: Path) -> Iterator[WebProcess]:
    process = WebProcess(tmp_path / "web.log")
    yield process
    process.stop()


def answer(web: WebProcess, path: str) -> tuple[int, str]:
    with urllib.request.urlopen(f"{web.url}{path}", timeout=20) as response:
        return response.status, response.read().decode()


def test_a_web_process_that_runs_goes_on_and_says_so(
    web: WebProcess, fresh_database: str, tmp_path: Path
) -> None:
    assert answer(web, "/readyz") == (200, "ready\n")
    migrate_later(fresh_database)
    assert [answer(web, "/readyz") for _ in range(2)] == [(200, f"ready. {WHY}\n")] * 2
    assert answer(web, "/login/")[0] == 200
    assert (tmp_path / "web.log").read_text().count("the schema is newer") == 1
