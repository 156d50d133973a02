"""This room starts, watches and ends a whole stack on one machine, by commands and doors only."""

import contextlib
import fcntl
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from standalone import readiness
from standalone.children import StartError, free_ports, log_tail
from standalone.postgres import Postgres
from standalone.processes import ROOT, Child, Ports, children, secret_files
from standalone.redis import Redis
from standalone.supervision import NotRunning, State, Supervisor

INFO_FILE = "stack.json"
LOCK_FILE = "stack.lock"
STOP_LIMIT_S = 8.0
COMMAND_LIMIT_S = 180.0
Progress = Callable[[str], None]


class AlreadyRunning(StartError):
    """A live stack holds this folder; the text names its process."""


class Stack:
    """One stack in one folder: PostgreSQL, Redis, web, nodes, workers, brokers.

    `start` and `stop` belong into one thread, the main one: the kernel ends the processes when it dies.
    ``environment`` goes to every process on top of ours; an address given for PostgreSQL or Redis replaces
    the embedded server.
    """

    def __init__(
        self,
        home: Path,
        nodes: int = 1,
        brokers: int = 3,
        workers: int = 1,
        *,
        environment: Mapping[str, str] | None = None,
        database_url: str = "",
        redis_url: str = "",
    ) -> None:
        self.home = home.absolute()
        self.ports = Ports.of(free_ports(Ports.count(nodes, brokers)), nodes, brokers)
        self.workers = workers
        self.extra = dict(environment or {})
        self.database_url = database_url
        self.redis_url = redis_url
        self.supervisor = Supervisor(self.home)
        self._postgres = None if database_url else Postgres(self.home)
        self._redis = None if redis_url else Redis(self.home)
        self._children: dict[str, Child] = {}
        self._tokens: dict[str, str] = {}
        self._lock: int | None = None

    # --- life -----------------------------------------------------------------------------------------------

    def start(self, progress: Progress = lambda line: None) -> None:
        """Bring everything up, wait until it is ready, tell each step. Raises StartError, all ended again."""
        self._take_the_folder()
        try:
            self._start_servers(progress)
            with _told(progress, "schema, shards, brokers' secrets, tokens"):
                self._prepare_cluster()
            for child in self._children.values():
                if child.role not in ("postgres", "redis"):
                    self.supervisor.start(child.name)
            self._write_info()
            self.wait_ready(progress)
            self._write_info()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End everything, clients first and PostgreSQL last, within 10 s. May be called twice."""
        with contextlib.suppress(NotRunning, StartError):
            roles = {name: child.role for name, child in self._children.items()}
            self.supervisor.stop_in_order(roles, STOP_LIMIT_S)
        self.supervisor.end()
        (self.home / INFO_FILE).unlink(missing_ok=True)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def wait_ready(self, progress: Progress = lambda line: None) -> None:
        """Wait until every door says ready and one work item went through a worker. Raises StartError."""
        for role in ("web", "node", "broker"):
            for child in [child for child in self._children.values() if child.role == role]:
                with _told(progress, child.name):
                    readiness.wait_for_door(child, lambda: self.states())
        if self.workers:
            with _told(progress, "one work item through a worker"):
                logs = [child.log for child in self._children.values() if child.role == "worker"]
                readiness.wait_for_a_worker(self._manage, logs)

    # --- one process ----------------------------------------------------------------------------------------

    def states(self) -> dict[str, State]:
        """Every process by name, as it is now."""
        return self.supervisor.states()

    def kill(self, name: str, number: signal.Signals = signal.SIGKILL) -> None:
        """Send a signal, kill -9 unless told otherwise, to one process."""
        self.supervisor.send(name, number)

    def stop_process(self, name: str) -> None:
        """Stop one process properly."""
        self.supervisor.stop(name)
        self._write_info()

    def start_process(self, name: str, *, wait: bool = False) -> None:
        """Start one process again; with ``wait``, return when its door says ready."""
        self.supervisor.start(name)
        self._write_info()
        child = self._children[name]
        if wait and child.ready_url:
            readiness.wait_for_door(child, self.states)

    def run_client(
        self, name: str, command: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> Path:
        """Run a program beside the stack, stopped before everything else; returns its log file."""
        log = self.home / "log" / f"{name}.log"
        client = Child("client", None, tuple(command), log, dict(environment or {}), title=name)
        self._children[name] = client
        self.supervisor.run_client(client)
        self._write_info()
        return log

    # --- what others need to know ---------------------------------------------------------------------------

    @property
    def info(self) -> dict[str, Any]:
        """What stack.json says: addresses, tokens, processes."""
        return {
            "bootstrap": self.ports.bootstrap,
            "web": self.ports.web_url,
            "websocket": [f"{address}/ws/consumer/" for address in self.ports.node_addresses],
            "nodes": self.ports.node_addresses,
            "rest": f"{self.ports.web_url}/api/v1/",
            "token": self._tokens.get("operator", ""),
            "consumer_token": self._tokens.get("consumer", ""),
            "database_url": self.database_url,
            "redis_url": self.redis_url,
            "pid": os.getpid(),
            "processes": described(self._children.values(), self.states()),
        }

    def login_url(self) -> str:
        """The dashboard's address with a login that works once."""
        return self.ports.web_url + self._manage("login_link").strip().splitlines()[-1]

    def refresh_info(self) -> list[str]:
        """Write stack.json anew if a process came or went; returns what ended since, in words."""
        path = self.home / INFO_FILE
        before = {row["name"]: row for row in read_info(self.home).get("processes", [])}
        after = {row["name"]: row for row in described(self._children.values(), self.states())}
        if before != after or not path.exists():
            self._write_info()
        gone = [name for name, row in before.items() if row["pid"] and not after[name]["pid"]]
        return [f"{name} {after[name]['state']}; start it again: make start WHAT={name}" for name in gone]

    # --- inside ---------------------------------------------------------------------------------------------

    def _take_the_folder(self) -> None:
        for folder in (self.home, self.home / "log", self.home / "secrets", self.home / "run"):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = os.open(self.home / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.read(lock, 20).decode() or "unknown"
            os.close(lock)
            raise AlreadyRunning(
                f"A stack already runs in {self.home} (process {holder}). "
                "Stop it, or name another folder with MUSTER_HOME=dir."
            ) from error
        os.ftruncate(lock, 0)
        os.write(lock, str(os.getpid()).encode())
        self._lock = lock

    def _start_servers(self, progress: Progress) -> None:
        """Run supervisor, and under it PostgreSQL and Redis unless real ones were named."""
        servers: list[Child] = []
        if self._postgres is not None:
            with _told(progress, "PostgreSQL's data folder"):
                self._postgres.prepare()
            command = tuple(self._postgres.command())
            servers.append(
                Child("postgres", None, command, self._postgres.log, stop_signal="INT", launched=True)
            )
        if self._redis is not None:
            self._redis.prepare()
            self.redis_url = self._redis.url
            servers.append(Child("redis", None, tuple(self._redis.command()), self._redis.log, launched=True))
        others = children(self.home, self.ports, self.workers)
        self._children = {child.name: child for child in (*servers, *others)}
        self._write_secret("secret_key", secrets.token_urlsafe(50), keep=True)
        self.supervisor.run(list(self._children.values()), self._environment())
        for server in servers:
            self.supervisor.start(server.name)
        if self._postgres is not None:
            with _told(progress, f"PostgreSQL on 127.0.0.1:{self._postgres.port}"):
                self._postgres.wait_ready()
            self.database_url = self._postgres.url()
        if self._redis is not None:
            with _told(progress, f"Redis on 127.0.0.1:{self._redis.port}"):
                self._redis.wait_ready()
        self._write_secret("database_url", self.database_url)
        self._write_secret("redis_url", self.redis_url)

    def _prepare_cluster(self) -> None:
        """One command migrates, initialises, enrols and makes tokens; it answers by its standard output."""
        brokers = [str(number) for number in range(1, len(self.ports.brokers) + 1)]
        answer = json.loads(self._manage("prepare_cluster", *brokers).strip().splitlines()[-1])
        for number, secret in answer["brokers"].items():
            self._write_secret(f"broker-{number}", secret)
        self._tokens = answer["tokens"]

    def _environment(self) -> dict[str, str]:
        replaced = ("DATABASE_URL", "DATABASE_DIRECT_URL", "REDIS_URL", "SECRET_KEY")
        kept = {
            name: value for name, value in os.environ.items() if name.removesuffix("_FILE") not in replaced
        }
        own = {"MUSTER_HOME": str(self.home), "PYTHONUNBUFFERED": "1", **secret_files(self.home)}
        return kept | own | self.extra

    def _manage(self, *arguments: str) -> str:
        """Run a management command to its end and return what it printed. Raises StartError with its log."""
        log = self.home / "log" / "setup.log"
        with log.open("ab") as errors:
            done = subprocess.run(
                [sys.executable, str(ROOT / "manage.py"), *arguments],
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                timeout=COMMAND_LIMIT_S,
                check=False,
            )
        if done.returncode:
            raise StartError(f"`manage.py {arguments[0]}` failed; the end of {log}:\n{log_tail(log)}")
        return done.stdout.decode()

    def _write_secret(self, name: str, value: str, *, keep: bool = False) -> None:
        path = self.home / "secrets" / name
        if not (keep and path.exists()):
            write_private(path, value)

    def _write_info(self) -> None:
        write_private(self.home / INFO_FILE, json.dumps(self.info, indent=2) + "\n")


def described(known: Any, states: Mapping[str, State]) -> list[dict[str, Any]]:
    """The list `processes` of stack.json; pid is 0 for a process that does not run."""
    return [
        {
            "role": child.role,
            "id": child.number,
            "name": child.name,
            "pid": states[child.name].pid if child.name in states else 0,
            "log": str(child.log),
            "state": states[child.name].text if child.name in states else "not started",
        }
        for child in known
    ]


def write_private(path: Path, text: str) -> None:
    """Replace ``path`` at once by a file that only we can read."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.unlink(missing_ok=True)
    with os.fdopen(
        os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8"
    ) as file:
        file.write(text)
    draft.replace(path)


def read_info(home: Path) -> dict[str, Any]:
    """What stack.json says; empty when no stack wrote one."""
    try:
        found: dict[str, Any] = json.loads((home / INFO_FILE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    return found


def update_info(home: Path, states: Mapping[str, State]) -> dict[str, Any]:
    """Bring the list of processes in stack.json up to date, for whoever changed one from outside."""
    info = read_info(home)
    for row in info.get("processes", []):
        state = states.get(row["name"])
        row["pid"], row["state"] = (state.pid, state.text) if state else (0, "not started")
    write_private(home / INFO_FILE, json.dumps(info, indent=2) + "\n")
    return info


def remove(home: Path) -> None:
    """Delete a stack that does not run, its data included. Raises AlreadyRunning."""
    if not home.exists():
        return
    stack = Stack(home, nodes=0, brokers=0, workers=0)
    stack._take_the_folder()
    try:
        Postgres(home).remove()
        shutil.rmtree(home, ignore_errors=True)
    finally:
        stack.stop()


@contextlib.contextmanager
def _told(progress: Progress, step: str) -> Any:
    """Tell that ``step`` is done, and how long it took."""
    started = time.monotonic()
    yield
    progress(f"{step}  ({time.monotonic() - started:.1f} s)")
