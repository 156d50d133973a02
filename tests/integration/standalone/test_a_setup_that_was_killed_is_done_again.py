"""kill -9 in the middle of making PostgreSQL's data: the next start makes it from the beginning."""

import subprocess
import sys
import time
from pathlib import Path

import psycopg
import pytest

from standalone import postgres
from standalone.children import StartError
from standalone.postgres import Postgres
from standalone.private import kept_secret

MAKER = """
import sys
from pathlib import Path
from standalone.postgres import Postgres
Postgres(Path(sys.argv[1]), throw_away=True).prepare()
"""
LIMIT_S = 60.0


def _versions(home: Path) -> list[Path]:
    """What PostgreSQL writes first into a data directory, wherever root's lies."""
    pointer = home / "postgres.folder"
    folder = Path(pointer.read_text(encoding="utf-8")) if pointer.exists() else home / "postgres"
    return list(folder.glob("*/PG_VERSION"))


def test_data_that_initdb_left_half_made_is_made_again(tmp_path: Path) -> None:
    home = tmp_path / "home"
    maker = subprocess.Popen([sys.executable, "-c", MAKER, str(home)])
    give_up_at = time.monotonic() + LIMIT_S
    while not _versions(home):
        assert time.monotonic() < give_up_at and maker.poll() is None, "initdb was not met at work"
    maker.kill()
    maker.wait()
    server = Postgres(home, throw_away=True)
    server.start()
    try:
        with psycopg.connect(server.url()) as connection:
            assert connection.execute("SELECT current_user").fetchone() == ("muster",)
    finally:
        server.remove()


def test_a_disk_without_room_for_data_is_told_before_anything_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "DATA_NEEDS_BYTES", 1 << 60)
    server = Postgres(tmp_path / "home", throw_away=True)
    try:
        with pytest.raises(
            StartError, match=r"MiB are free on the disk of .* make room there, or name another"
        ):
            server.prepare()
        assert not _versions(tmp_path / "home")
    finally:
        server.remove()


@pytest.mark.parametrize("left", [None, ""])
def test_a_secret_whose_writing_was_broken_off_is_made_again(tmp_path: Path, left: str | None) -> None:
    path = tmp_path / "secrets" / "postgres"
    if left is not None:
        path.parent.mkdir()
        path.write_text(left, encoding="utf-8")
    made = kept_secret(path)
    assert len(made) == 32 and kept_secret(path) == made
    assert path.stat().st_mode & 0o777 == 0o600


def test_no_password_is_sent_in_the_clear_to_a_server_that_logs_statements(tmp_path: Path) -> None:
    server = Postgres(tmp_path / "home", throw_away=True)
    server.start()
    try:
        with psycopg.connect(server.superuser_url(), autocommit=True) as connection:
            connection.execute("ALTER SYSTEM SET log_statement = 'all'")
            connection.execute("SELECT pg_reload_conf()")
            connection.execute("DROP DATABASE muster")
            connection.execute("DROP ROLE muster")
        server.wait_ready(lambda: True)
        logged = server.log.read_text(encoding="utf-8")
        assert "CREATE ROLE" in logged and server.password not in logged
    finally:
        server.remove()
