"""This room walks the demo's road on 5,000 flights, with its kills and two outages, by `make`.

While the year passes PostgreSQL is gone for ten seconds, and later Redis, which covers the expiry of the
killed consumer: nothing that was acknowledged may be lost, and everything must go on by itself.
"""

import os
import shutil
import signal
import subprocess
import threading
from pathlib import Path

import psutil
import pytest

from standalone.folder import remove
from standalone.supervision import Supervision

ROOT = Path(__file__).resolve().parents[2]
PROMISES = 10
LIMIT_SECONDS = 420
OUTAGE_SECONDS = 10.0
OUTAGES = {"Feb": "postgres", "Aug": "redis"}

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(LIMIT_SECONDS + 60)]


def processes_of(home: Path) -> list[str]:
    """Command lines of everything that still runs for this folder."""
    left = []
    for process in psutil.process_iter(["cmdline", "environ"]):
        environment = process.info["environ"] or {}
        if environment.get("MUSTER_HOME", "").startswith(str(home)):
            left.append(" ".join(process.info["cmdline"] or []))
    return left


class Demo:
    """`make demo` in a process of its own; what it says is kept, and answered with outages."""

    def __init__(self, home: Path) -> None:
        self.home = home
        wishes = {"MUSTER_HOME": str(home), "EXIT": "1", "SPEED": "8", "FLIGHTS": "5000"}
        self.lines: list[str] = []
        self.outages: list[threading.Thread] = []
        self.process = subprocess.Popen(
            [os.environ.get("MAKE", "make"), "demo"],
            cwd=ROOT,
            env={**os.environ, **wishes},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def watch(self) -> None:
        """Read until it ends; begin an outage when the calendar reaches its month."""
        assert self.process.stdout is not None
        with self.process.stdout as output:
            for line in output:
                self.lines.append(line)
                for month, server in OUTAGES.items():
                    if f" {month} " in line and line.rstrip().endswith("flights sent"):
                        outage = threading.Thread(target=self._outage, args=(server,))
                        outage.start()
                        self.outages.append(outage)

    def _outage(self, server: str) -> None:
        supervision = Supervision(self.home / "demo")
        supervision.stop(server)
        self.lines.append(f"   {server} is gone\n")
        # The outage itself: for so long nobody answers.
        threading.Event().wait(OUTAGE_SECONDS)
        supervision.start(server)
        self.lines.append(f"   {server} is back\n")

    @property
    def told(self) -> str:
        return "".join(self.lines)


def test_the_demo_keeps_its_promises_through_outages_and_leaves_nothing_behind(tmp_path: Path) -> None:
    demo = Demo(tmp_path / "muster")
    reader = threading.Thread(target=demo.watch)
    reader.start()
    reader.join(LIMIT_SECONDS)
    if reader.is_alive():
        os.killpg(demo.process.pid, signal.SIGTERM)
        reader.join(30)
        pytest.fail(f"the demo did not end within {LIMIT_SECONDS} s:\n{demo.told[-4000:]}")
    for outage in demo.outages:
        outage.join()
    assert demo.process.wait(30) == 0, demo.told[-8000:]
    for server in OUTAGES.values():
        assert f"{server} is gone" in demo.told and f"{server} is back" in demo.told
    assert demo.told.count("\n  kept ") >= PROMISES, demo.told[-6000:]
    assert "BROKEN" not in demo.told
    with_spark = shutil.which("java") is not None and shutil.which("mvn") is not None
    assert ("\n  skipped " in demo.told) is not with_spark, demo.told[-6000:]
    assert processes_of(tmp_path) == []
    assert remove(demo.home) == [] and not demo.home.exists()
