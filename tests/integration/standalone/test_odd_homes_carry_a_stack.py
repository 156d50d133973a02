"""MUSTER_HOME may be long, hold spaces and signs; what cannot work is refused in one line."""

import os
import sys
import time
from pathlib import Path

import pytest

from standalone import private
from standalone.children import StartError
from standalone.postgres import Postgres
from standalone.private import make_socket_folder, socket_folder
from standalone.processes import Child
from standalone.redis import Redis
from standalone.supervision import Supervision, Supervisor, socket_path

LIMIT_S = 120.0
ODD = ['two words "quoted", é', "50% [of] it, all", "long" * 40]


def _writes_its_home(name: str, role: str, home: Path) -> Child:
    program = "import os, sys, time; open(sys.argv[1], 'w').write(os.environ['HOME_OF_IT']); time.sleep(600)"
    return Child(
        role,
        None,
        (sys.executable, "-c", program, str(home / name)),
        home / "log" / f"{name}.log",
        {"HOME_OF_IT": str(home)},
        title=name,
    )


@pytest.mark.parametrize("name", ["two words, é", "[some] of it, all", "long" * 40])
def test_supervisor_runs_what_it_knew_and_what_comes_later(tmp_path: Path, name: str) -> None:
    home = tmp_path / name
    supervisor = Supervisor(home)
    supervisor.run([_writes_its_home("first", "web", home)], os.environ)
    try:
        supervisor.start("first")
        supervisor.run_client(_writes_its_home("second", "client", home))
        give_up_at = time.monotonic() + LIMIT_S
        for written in (home / "first", home / "second"):
            while not written.exists() or written.read_text(encoding="utf-8") != str(home):
                assert time.monotonic() < give_up_at, (home / "log" / "supervisor.log").read_text()
                time.sleep(0.02)
        assert {state.running for state in Supervision(home).states().values()} == {True}
        # A client's section holds its token.
        assert (home / "run" / "supervisor.conf").stat().st_mode & 0o777 == 0o600
        supervisor.stop_in_order({"first": "web", "second": "client"}, 8.0)
    finally:
        supervisor.end()
    assert not socket_folder(home / "run", "supervisor.sock.1234567").is_socket()
    assert not list(private.SHORT_ROOM.glob(f"muster-*/{supervisor.socket.name}"))


@pytest.mark.parametrize("name", ['a "quoted" one', "50%", "a comment ;here", "another #here", "two\nlines"])
def test_a_home_that_supervisor_cannot_be_told_is_refused(tmp_path: Path, name: str) -> None:
    home = tmp_path / ("long" * 40) / name
    with pytest.raises(StartError, match="choose another MUSTER_HOME"):
        Supervisor(home).run([_writes_its_home("first", "web", home)], os.environ)
    assert not socket_path(home).parent.exists()


@pytest.mark.parametrize("name", ODD)
def test_redis_and_postgres_run_there(tmp_path: Path, name: str) -> None:
    home = tmp_path / name
    server, cache = Postgres(home, throw_away=True), Redis(home)
    try:
        cache.start()
        server.start()
        assert (server.socket_folder / f".s.PGSQL.{server.port}").is_socket()
    finally:
        cache.stop()
        server.remove()
    assert not server.socket_folder.exists()


def test_a_short_folder_that_somebody_else_made_first_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if os.geteuid():
        pytest.skip("only root can make somebody else's folder")
    monkeypatch.setattr(private, "SHORT_ROOM", tmp_path)
    folder = socket_folder(tmp_path / ("long" * 40), "supervisor.sock")
    folder.mkdir()
    os.chown(folder, 65534, 65534)
    with pytest.raises(StartError, match="belongs to somebody else"):
        make_socket_folder(folder)


def test_a_short_folder_of_ours_is_closed_to_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(private, "SHORT_ROOM", tmp_path)
    folder = socket_folder(tmp_path / ("long" * 40), "supervisor.sock")
    folder.mkdir(mode=0o777)
    folder.chmod(0o777)
    make_socket_folder(folder)
    assert folder.stat().st_mode & 0o777 == 0o700
