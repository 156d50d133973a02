"""Where the disk of MUSTER_HOME is full the processes of a stack go on, and log again when it has room."""

import contextlib
import errno
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from django.core.management import call_command

from standalone import supervision
from standalone.folder import lack_of_room, read_info, write_info
from standalone.processes import Child
from standalone.supervision import Supervisor
from tests.acceptance.small_disk import MIB, SmallDisk

LIMIT_S = 120.0
TALKER = """
import sys, time
for number in range(1_000_000):
    print(f"line {number} " + "x" * 1_000, flush=True)
    with open(sys.argv[1], "a") as said:
        said.write("x")
    time.sleep(0.002)
"""
"""Beside what it says it notes how often it did, on another disk."""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    """Two megabytes."""
    small = SmallDisk(tmp_path / "home", 2)
    if small.missing:
        pytest.skip(small.missing)
    yield small
    small.unmount()


def until(condition: Callable[[], object]) -> None:
    give_up_at = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < give_up_at
        time.sleep(0.02)


@pytest.mark.parametrize("log_limit", ["50MB", "100KB"])
def test_nobody_ends_and_everybody_logs_again(
    tmp_path: Path, disk: SmallDisk, monkeypatch: pytest.MonkeyPatch, log_limit: str
) -> None:
    """Also where a log is full meanwhile, and there is no room for another one."""
    monkeypatch.setattr(supervision, "LOG_LIMIT", log_limit)
    program, said, log = tmp_path / "talker.py", tmp_path / "said", disk.folder / "log" / "web.log"
    program.write_text(TALKER)
    supervisor = Supervisor(disk.folder)
    talker = Child("web", None, (sys.executable, str(program), str(said)), log)
    passing = Child("node", 1, (sys.executable, "-c", "pass"), disk.folder / "log" / "node-1.log")
    supervisor.run((talker, passing), {**os.environ, "PYTHONUNBUFFERED": "1"})

    def says(more: int) -> None:
        """Wait until it has said so many lines more."""
        before = said.stat().st_size
        until(lambda: said.stat().st_size >= before + more)

    try:
        supervisor.start("web")
        until(said.exists)
        pid = supervisor.states()["web"].pid
        with contextlib.suppress(OSError):  # the talker may have taken the rest
            disk.fill(0)
        says(300)
        # That somebody comes and goes is a line of supervisor's own log.
        for _ in range(60):
            supervisor.start("node-1")
            until(lambda: not supervisor.states()["node-1"].running)
        says(300)
        disk.empty()
        newest = said.stat().st_size + 5
        says(10)
        until(lambda: f"line {newest} " in log.read_text())
        assert supervisor.states()["web"].pid == pid
    finally:
        supervisor.end()


def test_whoever_looks_or_starts_a_process_is_told_and_it_is_done(
    disk: SmallDisk, settings: object, capsys: pytest.CaptureFixture[str]
) -> None:
    settings.MUSTER_HOME = str(disk.folder)  # type: ignore[attr-defined]
    supervisor = Supervisor(disk.folder)
    web = Child("web", None, (sys.executable, "-c", "input()"), disk.folder / "log" / "web.log")
    supervisor.run([web], os.environ)
    try:
        row = {"name": "web", "pid": 0, "state": "not started", "log": str(web.log)}
        write_info(disk.folder, {"processes": [row]})
        call_command("status")
        assert "is full" not in capsys.readouterr().out
        disk.fill(0)
        call_command("start_process", "web")
        told = capsys.readouterr().out
        assert "web running (pid" in told and f"the disk of {disk.folder} is full" in told
        call_command("status")
        told = capsys.readouterr().out
        assert f"the disk of {disk.folder} is full" in told and " running " in told
        disk.empty()
        call_command("stop_process", "web")
        assert read_info(disk.folder)["processes"][0]["state"] == "stopped"
    finally:
        supervisor.end()


def test_a_quota_that_is_used_up_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk had room, and whoever ran the stack had none on it."""
    assert lack_of_room(tmp_path) == "" and list(tmp_path.iterdir()) == []

    def refuse(file: int, start: int, length: int) -> None:
        raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    assert f"quota of this user is used up in {tmp_path}" in lack_of_room(tmp_path)


def test_a_disk_that_takes_no_more_files_is_told(tmp_path: Path) -> None:
    """There was room, by bytes, while nothing could be made there."""
    disk = SmallDisk(tmp_path / "home", 2, files=20)
    if disk.missing:
        pytest.skip(disk.missing)
    try:
        assert lack_of_room(disk.folder) == ""
        with pytest.raises(OSError, match="No space left"):
            for number in range(20):
                (disk.folder / str(number)).touch()
        assert disk.free_bytes > MIB and "takes no more files" in lack_of_room(disk.folder)
        (disk.folder / "0").unlink()
        assert lack_of_room(disk.folder) == ""
    finally:
        disk.unmount()
