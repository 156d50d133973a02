"""A node runs on the schema that it knows: where migrations are missing, or later ones were run, it ends."""

import os
import subprocess
import sys
import uuid
from pathlib import Path

import psycopg
import pytest
from django.conf import settings
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder
from django.test import override_settings

from runtime import cluster
from runtime.postgres import open_connection
from runtime.schema import why_unknown
from tests.conformance.databases import LANES
from tests.integration.runtime.conftest import ROOT

ANOTHER_ONE = "INSERT INTO django_migrations (app, name, applied) VALUES ('{}', '9999_of_later', now())"
LATER = ANOTHER_ONE.format("groups")
OF_NOBODY = ANOTHER_ONE.format("somebody_elses")
EARLIER = (
    "DELETE FROM django_migrations WHERE id IN"
    " (SELECT id FROM django_migrations WHERE app = 'groups' ORDER BY id DESC LIMIT 1)"
)


@pytest.fixture
def database(fresh_database: str) -> str:
    with open_connection(fresh_database, "muster-test") as direct:
        cluster.initialise(direct, uuid.uuid4(), LANES)
    return fresh_database


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (EARLIER, "1 migrations are missing: run `manage.py migrate`."),
        (
            LATER,
            "This program is older than the schema of its database, which has groups.9999_of_later: start the"
            " version that ran `manage.py migrate` last.",
        ),
    ],
)
def test_a_node_ends_and_says_what_is_wrong(database: str, change: str, why: str) -> None:
    with psycopg.connect(database) as direct:
        # What apps that are not ours have applied is theirs.
        direct.execute(OF_NOBODY)
        direct.execute(change)
    done = subprocess.run(
        [sys.executable, "manage.py", "run_node"],
        cwd=ROOT,
        env=os.environ | {"MUSTER_NODE_NAME": "node-1"},
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert (done.returncode, done.stderr.strip().splitlines()[-1]) == (1, f"CommandError: {why}")


@pytest.mark.parametrize(
    ("app", "replaces"),
    [
        ("squashed_app", "replaces = [('squashed_app', '0001_first'), ('squashed_app', '0002_second')]"),
        ("stated_app", "replaces: list = [('stated_app', '0001_first'), ('stated_app', '0002_second')]"),
        ("computed_app", "replaces = list(zip(['computed_app'] * 2, ['0001_first', '0002_second']))"),
    ],
)
def test_what_a_squashed_migration_stands_for_is_no_later_one(
    fresh_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, app: str, replaces: str
) -> None:
    """The files of what it replaces may be gone, while the database has applied these."""
    migrations = tmp_path / app / "migrations"
    migrations.mkdir(parents=True)
    for folder in (migrations.parent, migrations):
        folder.joinpath("__init__.py").touch()
    migrations.joinpath("0001_squashed_0002.py").write_text(
        f"from django.db import migrations\n\n\nclass Migration(migrations.Migration):\n    {replaces}\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with override_settings(INSTALLED_APPS=[*settings.INSTALLED_APPS, app]):
        for name in ("0001_first", "0002_second"):
            MigrationRecorder(connection).record_applied(app, name)
        assert why_unknown(connection) == ""
        MigrationRecorder(connection).record_applied(app, "0003_later")
        assert f"{app}.0003_later:" in why_unknown(connection)
