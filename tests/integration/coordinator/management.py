"""This room runs management commands in one process: a Django of its own costs each of them a second.

`python -m tests.integration.coordinator.management` reads the words of a command from each line, as JSON, and
answers with a line: its exit status, and what it printed.
"""

import contextlib
import io
import json
import os
import subprocess
import sys
import traceback
from collections.abc import Mapping

from tests.tidy.sources import ROOT
from tests.warm import SERVING, warm


class Management:
    """The process: it starts with the first command, and ends when it is closed or who started it is gone."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = dict(environment)
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, *words: str) -> str:
        """What `manage.py` printed; AssertionError: it failed."""
        if self._process is None:
            self._process = warm(SERVING).start(
                [sys.executable, "-m", __name__],
                environment=self._environment,
                folder=ROOT,
                fed=True,
            )
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps(words).encode() + b"\n")
        status, said = json.loads(self._process.stdout.readline())
        assert status == 0, said
        return str(said)

    def close(self) -> None:
        """Let it end."""
        if self._process is not None:
            self._process.communicate()
            self._process = None


def main() -> None:
    """Run what comes in until nothing more can come."""
    # Settings look at both, and are read once.
    sys.argv = ["manage.py", "check"]
    os.environ["DJANGO_SETTINGS_MODULE"] = "config.settings"
    from django.core.management import ManagementUtility
    from django.db import connections

    answers = sys.stdout
    for line in sys.stdin:
        said, status = io.StringIO(), 0
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            try:
                ManagementUtility(["manage.py", *json.loads(line)]).execute()
            except SystemExit as ended:
                status = 1 if ended.code else 0
            except Exception:
                traceback.print_exc()
                status = 1
            connections.close_all()
        answers.write(json.dumps([status, said.getvalue()]) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
