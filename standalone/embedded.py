"""This room is what both embedded servers are: a home, a log, a process of ours, an answer to wait for."""

import os
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path

from standalone.children import StartError, log_tail

LOOK_AGAIN_S = 0.03


class Embedded(ABC):
    """One server: `prepare`, then either `start` and `stop`, or `command` for whoever supervises it."""

    title: str
    start_limit_s: float

    def __init__(self, home: Path) -> None:
        self.home = home.absolute()
        self.log = self.home / "log" / f"{self.title.lower()}.log"
        self.port = 0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """The server's process id, when it is our child."""
        return None if self._process is None else self._process.pid

    @abstractmethod
    def prepare(self) -> None:
        """Make everything that the server needs to start, and choose where it listens."""

    @abstractmethod
    def command(self, parent: int = 0) -> list[str]:
        """The command line of the server, to be started by the process ``parent`` (0: whoever starts it)."""

    @abstractmethod
    def stop(self) -> None:
        """End the server, if it is our child."""

    def environment(self) -> dict[str, str]:
        """What the server sees of ours."""
        return {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "LC_ALL": "C"}

    def start(self) -> None:
        """Prepare, run as our child, wait until it answers. Raises StartError with the end of the log."""
        self.prepare()
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                self.command(os.getpid()),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=self.environment(),
            )
        self.wait_ready(lambda: self._process is not None and self._process.poll() is None)

    def wait_ready(self, runs: Callable[[], bool]) -> None:
        """Wait, while it ``runs``, until the server can be used. Raises StartError with the log's end."""
        give_up_at = time.monotonic() + self.start_limit_s
        while (refusal := self._refusal()) is not None:
            if not runs() or time.monotonic() > give_up_at:
                text = f"{self.title} did not start ({refusal}); the end of {self.log}:\n{log_tail(self.log)}"
                raise StartError(text) from refusal
            time.sleep(LOOK_AGAIN_S)

    @abstractmethod
    def _refusal(self) -> Exception | None:
        """Why the server cannot be used yet; None when it can."""
