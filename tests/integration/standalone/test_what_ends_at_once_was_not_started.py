"""`make start` of what cannot go on, as a PostgreSQL whose disk is full, says so and where to look."""

import os
import sys
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from standalone.processes import Child
from standalone.supervision import Supervisor


def test_who_starts_it_is_told_that_it_ended_and_which_log_says_why(
    tmp_path: Path, settings: object, capsys: pytest.CaptureFixture[str]
) -> None:
    settings.MUSTER_HOME = str(tmp_path)  # type: ignore[attr-defined]

    def child(name: str, program: str) -> Child:
        return Child(name, None, (sys.executable, "-c", program), tmp_path / "log" / f"{name}.log")

    supervisor = Supervisor(tmp_path)
    programs = child("postgres", "raise SystemExit('no room')"), child("web", "input()")
    supervisor.run(programs, os.environ)
    try:
        with pytest.raises(CommandError, match=r"ended with status 1 at once; .*postgres\.log says why"):
            call_command("start_process", "postgres")
        assert "no room" in (tmp_path / "log" / "postgres.log").read_text()
        call_command("start_process", "web")
        assert "web running (pid" in capsys.readouterr().out
    finally:
        supervisor.end()
