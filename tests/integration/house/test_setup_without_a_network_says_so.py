"""A fresh clone without a network ends with one line that says what is missing."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.tidy.sources import ROOT


def test_one_line_says_that_packages_cannot_be_fetched(tmp_path: Path) -> None:
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "setup", tmp_path / ".ci" / "setup")
    (tmp_path / "requirements.txt").write_text("a-package-that-is-not-here==1\n", encoding="utf-8")
    # A venv that is made already: what is asked is how fetching fails.
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n', encoding="utf-8")
    python.chmod(0o755)
    # Port 1 of this machine: nobody listens there, as nobody answers without a network.
    environment = {
        **{"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "PIP_INDEX_URL": "http://127.0.0.1:1/simple/"},
        **{"PIP_RETRIES": "0", "PIP_CONFIG_FILE": os.devnull},
    }
    done = subprocess.run(
        ["sh", ".ci/setup", "runtime"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert "requirements.txt could not be fetched: this needs a network" in line
    assert (tmp_path / ".venv" / "install.log").read_text(encoding="utf-8")
