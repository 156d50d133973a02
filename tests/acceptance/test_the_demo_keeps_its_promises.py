"""This room walks the demo's road on 5,000 flights, with the same kills, as a person would: by `make`."""

import os
import shutil
import signal
import subprocess
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).resolve().parents[2]
PROMISES = 6
LIMIT_SECONDS = 240


def processes_of(home: Path) -> list[str]:
    """Command lines of everything that still runs for this folder."""
    left = []
    for process in psutil.process_iter(["cmdline", "environ"]):
        environment = process.info["environ"] or {}
        if environment.get("MUSTER_HOME", "").startswith(str(home)):
            left.append(" ".join(process.info["cmdline"] or []))
    return left


@pytest.mark.timeout(LIMIT_SECONDS + 60)
def test_the_demo_keeps_its_promises_and_leaves_nothing_behind(tmp_path: Path) -> None:
    home = tmp_path / "muster"
    wishes = {"MUSTER_HOME": str(home), "EXIT": "1", "SPEED": "16", "FLIGHTS": "5000"}
    run = subprocess.Popen(
        [os.environ.get("MAKE", "make"), "demo"],
        cwd=ROOT,
        env={**os.environ, **wishes},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        told, _ = run.communicate(timeout=LIMIT_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(run.pid, signal.SIGTERM)
        told, _ = run.communicate(timeout=30)
        pytest.fail(f"the demo did not end within {LIMIT_SECONDS} s:\n{told[-4000:]}")
    assert run.returncode == 0, told[-6000:]
    assert told.count("\n  kept ") >= PROMISES, told[-6000:]
    assert "BROKEN" not in told
    with_spark = shutil.which("java") is not None and shutil.which("mvn") is not None
    assert ("\n  skipped " in told) is not with_spark, told[-6000:]
    assert processes_of(home) == []
