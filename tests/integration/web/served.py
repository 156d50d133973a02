"""This room runs the real web process beside a test and asks it over real sockets."""

import os
import selectors
import subprocess
import sys
import time
from pathlib import Path

READY_WITHIN_S = 120


class WebProcess:
    """`manage.py run_web` on a free port, in the environment of the test."""

    def __init__(self, log: Path, **environment: str) -> None:
        self._log = log.open("wb")
        self.process = subprocess.Popen(
            [sys.executable, "manage.py", "run_web"],
            env={**os.environ, "MUSTER_WEB_LISTEN": "127.0.0.1:0", "PYTHONUNBUFFERED": "1", **environment},
            stdout=subprocess.PIPE,
            stderr=self._log,
        )
        self.url = self._ready()

    def _ready(self) -> str:
        assert self.process.stdout is not None
        selector = selectors.DefaultSelector()
        selector.register(self.process.stdout, selectors.EVENT_READ)
        end = time.monotonic() + READY_WITHIN_S
        while selector.select(max(0.0, end - time.monotonic())):
            line = self.process.stdout.readline().decode()
            if line.startswith("web ready "):
                return line.split()[-1]
            if not line:
                break
        self.stop()
        raise AssertionError(f"the web process did not become ready: see {self._log.name}")

    def stop(self) -> int:
        """SIGTERM, and the exit code."""
        self.process.terminate()
        code = self.process.wait(20)
        if self.process.stdout is not None:
            self.process.stdout.close()
        self._log.close()
        return code
