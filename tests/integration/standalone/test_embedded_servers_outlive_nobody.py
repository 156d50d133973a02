"""PostgreSQL and Redis from wheels end with whoever started them, and start again on old data."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import psycopg
import pytest

from standalone import postgres
from standalone.postgres import Postgres
from standalone.redis import Redis

PATIENCE_S = 120.0
STARTER = """
import sys, time
from pathlib import Path
from standalone.postgres import Postgres
from standalone.redis import Redis
postgres, redis = Postgres(Path(sys.argv[1]), throw_away=True), Redis(Path(sys.argv[1]))
postgres.start(); redis.start()
print(postgres.folder, postgres.url(), redis.pid, flush=True)
time.sleep(600)
"""


def _until(condition: Callable[[], bool]) -> None:
    give_up_at = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < give_up_at, "it did not happen in time"
        time.sleep(0.05)


def _runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _server_of(folder: str) -> int:
    return int((Path(folder) / "data" / "postmaster.pid").read_text(encoding="utf-8").splitlines()[0])


@pytest.fixture
def starter(tmp_path: Path) -> tuple[subprocess.Popen[str], list[str]]:
    """A process that has started both servers, and what it printed."""
    command = [sys.executable, "-c", STARTER, str(tmp_path / "home")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process.stdout as output:
        return process, output.readline().split()


def test_both_end_when_their_starter_is_killed_and_the_data_is_still_good(
    starter: tuple[subprocess.Popen[str], list[str]], tmp_path: Path
) -> None:
    process, (folder, url, redis_pid) = starter
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE orders (id int)")
        connection.execute("INSERT INTO orders VALUES (1)")
    server = _server_of(folder)
    process.kill()
    process.wait()
    _until(lambda: not _runs(server) and not _runs(int(redis_pid)))
    again = Postgres(tmp_path / "home", throw_away=True)
    again.start()
    try:
        with psycopg.connect(again.url()) as connection:
            assert connection.execute("SELECT id FROM orders").fetchall() == [(1,)]
    finally:
        again.remove()
    assert not again.folder.exists()


def test_a_stale_pid_file_that_names_somebody_else_does_not_bar_the_start(tmp_path: Path) -> None:
    server = Postgres(tmp_path / "home", throw_away=True)
    server.prepare()
    # This very process: alive, and no PostgreSQL.
    (server.data / "postmaster.pid").write_text(f"{psutil.Process().pid}\n{server.data}\n", encoding="utf-8")
    server.start()
    try:
        with psycopg.connect(server.url()) as connection:
            assert connection.execute("SELECT current_user").fetchone() == ("muster",)
    finally:
        server.remove()


def test_a_server_left_running_on_the_data_is_ended_first(tmp_path: Path) -> None:
    first = Postgres(tmp_path / "home", throw_away=True)
    first.start()
    left_over = _server_of(str(first.folder))
    second = Postgres(tmp_path / "home", throw_away=True)
    second.start()
    try:
        # The first is our own child: it lies there as a zombie until it is waited for.
        assert not _runs(left_over)
    finally:
        first.stop()
        second.remove()


def test_the_data_of_a_deleted_home_is_swept_when_the_next_server_starts(tmp_path: Path) -> None:
    forgotten = Postgres(tmp_path / "forgotten", throw_away=True)
    if not forgotten.user:
        pytest.skip("only root's data lies outside of its home")
    forgotten.prepare()
    assert forgotten.data.exists()
    (tmp_path / "forgotten" / "postgres.folder").unlink()
    another = Postgres(tmp_path / "another", throw_away=True)
    another.prepare()
    assert not forgotten.data.exists() and another.data.exists()
    another.remove()


def test_root_runs_binaries_that_lie_behind_a_closed_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A checkout in root's home: nobody, as whom the server runs, cannot enter there."""
    if os.geteuid():
        pytest.skip("only root runs the server as somebody else")
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    wheel = postgres.BINARIES.parent
    for folder in (wheel, wheel.with_name(f"{wheel.name}.libs")):
        (closed / folder.name).symlink_to(folder)
    monkeypatch.setattr(postgres, "BINARIES", closed / wheel.name / postgres.BINARIES.name)
    monkeypatch.setattr(postgres, "PUBLIC_ROOM", Path(tempfile.mkdtemp(dir="/var/tmp")))
    postgres.PUBLIC_ROOM.chmod(0o755)
    server = Postgres(tmp_path / "home", throw_away=True)
    try:
        server.start()
        with psycopg.connect(server.url()) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
    finally:
        server.remove()
        shutil.rmtree(postgres.PUBLIC_ROOM)


def test_redis_asks_for_its_password_and_can_be_paused(redis_server: Redis) -> None:
    import redis

    stranger = redis.Redis(port=redis_server.port)
    with pytest.raises(redis.AuthenticationError):
        stranger.ping()
    stranger.close()
    client = redis.Redis.from_url(redis_server.url, socket_timeout=0.2, retry=None)
    assert client.ping()
    redis_server.pause()
    with pytest.raises(redis.TimeoutError):
        client.ping()
    redis_server.resume()
    _until(lambda: bool(redis.Redis.from_url(redis_server.url).ping()))
    client.close()


def test_a_paused_redis_can_be_stopped(redis_server: Redis) -> None:
    redis_server.pause()
    pid = redis_server.pid
    redis_server.stop()
    assert pid is not None and not _runs(pid)
