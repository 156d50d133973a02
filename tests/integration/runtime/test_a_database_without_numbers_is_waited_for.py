"""A PostgreSQL that gives out no numbers of transactions (wraparound) is as one that only reads."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from runtime.ports import ConnectionLost, is_unable, lost_where_nothing_is_done
from runtime.postgres import LaneConnection, open_connection
from standalone.children import launch_command
from standalone.postgres import Postgres, _binaries

LAST_BUT_SOME = 3 + 2**31 - 2_500_000
"""Behind the first number by as many as PostgreSQL allows before it refuses."""

PER_FILE = 1 << 20
"""Transactions whose outcome one file of `pg_xact` holds, in 256 KiB."""


@pytest.fixture
def without_numbers(tmp_path: Path) -> Iterator[LaneConnection]:
    server = Postgres(tmp_path, throw_away=True)
    server.start()
    server.stop()
    outcomes = server.data / "pg_xact" / f"{LAST_BUT_SOME // PER_FILE:04X}"
    set_on = f"mkdir -p {outcomes.parent} && head -c 262144 /dev/zero > {outcomes}"
    numbers = [
        str(_binaries(server.user) / "bin" / "pg_resetwal"),
        "-x",
        str(LAST_BUT_SOME),
        "-D",
        str(server.data),
    ]
    for command in (["/bin/sh", "-c", set_on], numbers):
        subprocess.run(
            launch_command(command, folder=server.data, user=server.user),
            check=True,
            capture_output=True,
            env=server.environment(),
        )
    # What would mend it, as it soon does by itself, is kept from beginning.
    server.data.joinpath("postgresql.auto.conf").write_text(
        "autovacuum = off\nautovacuum_naptime = 2147483\n"
    )
    server.start()
    with open_connection(server.superuser_url(), "muster-test") as connection:
        yield connection
    server.stop()


def test_nobody_is_blamed_and_it_is_asked_again(without_numbers: LaneConnection) -> None:
    with pytest.raises(psycopg.Error) as refused:
        without_numbers.execute("SELECT pg_current_xact_id()")
    assert is_unable(refused.value)
    with pytest.raises(ConnectionLost), lost_where_nothing_is_done():
        without_numbers.execute("SELECT pg_current_xact_id()")


def test_a_key_that_is_too_long_is_its_writers_mistake(fresh_database: str) -> None:
    """The same class of error."""
    with open_connection(fresh_database, "muster-test") as connection:
        connection.execute("CREATE TEMPORARY TABLE things (name text PRIMARY KEY)")
        with pytest.raises(psycopg.errors.ProgramLimitExceeded) as refused:
            connection.execute(
                "INSERT INTO things SELECT string_agg(md5(n::text), '') FROM generate_series(1, 9999) n"
            )
    assert not is_unable(refused.value)
