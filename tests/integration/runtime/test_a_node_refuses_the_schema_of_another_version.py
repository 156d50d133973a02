"""A node runs on the schema that it knows: where migrations are missing, or later ones were run, it ends."""

import os
import subprocess
import sys
import uuid

import psycopg
import pytest

from runtime import cluster
from runtime.postgres import open_connection
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
    with open_connection(fresh_database, "muster-test") as connection:
        cluster.initialise(connection, uuid.uuid4(), LANES)
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
    with psycopg.connect(database) as connection:
        # What apps that are not ours have applied is theirs.
        connection.execute(OF_NOBODY)
        connection.execute(change)
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
