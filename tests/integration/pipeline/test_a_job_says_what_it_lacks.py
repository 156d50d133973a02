"""A job that cannot begin says in a line what is missing, before it has read anything."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
STORED = {"DATABASE_URL": "postgresql://ann@127.0.0.1:1/counts"}


def refused(folder: Path, *words: str, **environment: str) -> str:
    """The last line of a job that ended as one that was not understood."""
    left_out = ("DATABASE_URL", "JAVA_HOME")
    kept = {name: value for name, value in os.environ.items() if name not in left_out}
    done = subprocess.run(
        [sys.executable, "-m", "pipeline.jobs.departures", "--bootstrap", "127.0.0.1:1", *words],
        env={**kept, "PYTHONPATH": str(ROOT), **environment},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    "url", ["", "mysql://ann@db/counts", "postgresql:///counts", "postgresql://db:x/counts"]
)
def test_an_address_that_is_no_database(tmp_path: Path, url: str) -> None:
    assert "error: DATABASE_URL: " in refused(tmp_path, DATABASE_URL=url)


def test_java_is_not_where_it_is_said_to_be(tmp_path: Path) -> None:
    said = refused(tmp_path, **STORED, JAVA_HOME=str(tmp_path))
    assert said.endswith(f"JAVA_HOME is {tmp_path}, which has no bin/java: install Java 17")


def test_there_is_no_java(tmp_path: Path) -> None:
    assert "no command `java` is on the PATH" in refused(tmp_path, **STORED, PATH=str(tmp_path))


def test_who_it_is_stands_in_no_file(tmp_path: Path) -> None:
    said = refused(tmp_path, "--command-config", str(tmp_path / "none"), **STORED)
    assert "--command-config" in said and "No such file" in said
    (tmp_path / "bytes").write_bytes(b"\xff")
    assert "can't decode" in refused(tmp_path, "--command-config", str(tmp_path / "bytes"), **STORED)
