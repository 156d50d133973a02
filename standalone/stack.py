"""This room starts, watches and ends a whole stack on one machine, by commands and doors only."""

import contextlib
import json
import os
import shlex
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from standalone import cluster, folder, readiness
from standalone.belongings import DEMO, Belongings, remember
from standalone.children import StartError
from standalone.ports import Ports, as_before, asked_for
from standalone.postgres import Postgres
from standalone.private import forget_socket_folder, kept_secret, write_private
from standalone.processes import ROOT, Child, children, secret_files
from standalone.redis import Redis
from standalone.supervision import NotRunning, State, Supervisor
from standalone.surroundings import what_reaches_a_stack

STOP_LIMIT_S = 8.0
Progress = Callable[[str], None]


class Stack:
    """One stack in one folder: PostgreSQL, Redis, web, nodes, workers, brokers.

    `start` and `stop` belong into one thread, the main one: the kernel ends the processes when it dies.
    ``environment`` goes to every process on top of ours; an address given for PostgreSQL or Redis replaces
    the embedded server. The ports are those of the home's last start, or follow from ``port``.
    """

    ports: Ports

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
        port: int = 0,
    ) -> None:
        self.home = home.absolute()
        self.nodes = nodes
        self.brokers = brokers
        self.port = port
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
        self._seen: dict[str, int] = {}

    # --- life -----------------------------------------------------------------------------------------------

    def start(self, progress: Progress = lambda line: None) -> None:
        """Bring everything up, wait until it is ready, tell each step.

        Raises StartError, and OSError for a folder that cannot be used or filled; all is ended again then.
        """
        self._lock, belongings = folder.take(self.home, self.brokers)
        try:
            self._choose_ports(belongings, progress)
            self._start(progress)
            self._write_info()
            self.wait_ready(progress)
            self._write_info()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End everything, clients first and PostgreSQL last, within 10 s. May be called twice, or in vain."""
        if self._lock is None:
            # What runs in the folder is somebody else's.
            return
        with contextlib.suppress(NotRunning, StartError):
            roles = {name: child.role for name, child in self._children.items()}
            self.supervisor.stop_in_order(roles, STOP_LIMIT_S)
        self.supervisor.end()
        if self._postgres is not None:
            forget_socket_folder(self._postgres.socket_folder)
        (self.home / folder.INFO_FILE).unlink(missing_ok=True)
        os.close(self._lock)
        self._lock = None

    def wait_ready(self, progress: Progress = lambda line: None) -> None:
        """Wait until every door says ready and one work item went through a worker. Raises StartError."""
        started = time.monotonic()
        readiness.wait_for_doors(
            self._children.values(),
            self.states,
            lambda name: progress(f"{name}  ({time.monotonic() - started:.1f} s)"),
            lambda answers: progress(readiness.waits(answers)),
        )
        if self.workers:
            with _told(progress, "one work item through a worker"):
                workers = [child for child in self._children.values() if child.role == "worker"]
                readiness.wait_for_a_worker(self.database_url, workers, self.states)

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
        if wait:
            readiness.wait_for_doors([self._children[name]], self.states)

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
    def is_there(self) -> bool:
        """True from the moment when its folder is its own until everything is stopped."""
        return self._lock is not None

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
        """An address at which somebody can sign in to the pages, once."""
        return self._command("login_link")

    @property
    def where(self) -> str:
        """What to add to a verb of the Makefile, so that it finds this stack."""
        if self.home in (ROOT / ".muster", ROOT / ".muster" / DEMO):
            return ""
        return f" MUSTER_HOME={shlex.quote(str(self.home))}"

    def refresh_info(self, tell: Progress) -> None:
        """Tell once what ended since; write stack.json anew if a process came or went. Raises OSError."""
        path = self.home / folder.INFO_FILE
        before = {row["name"]: row for row in folder.read_info(self.home).get("processes", [])}
        after = {row["name"]: row for row in described(self._children.values(), self.states())}
        # Where it cannot be written it is what it was, each time; who was stopped in order is written down.
        seen, self._seen = self._seen, {name: row["pid"] for name, row in after.items()}
        for name, row in before.items():
            if row["pid"] and seen.get(name, row["pid"]) and not after[name]["pid"]:
                tell(f"{name} {after[name]['state']}; start it again: make start WHAT={name}{self.where}")
        if before != after or not path.exists():
            self._write_info()

    # --- inside ---------------------------------------------------------------------------------------------

    def _choose_ports(self, belongings: Belongings, progress: Progress) -> None:
        """Those asked for, or those of the last start; the home remembers them. Raises StartError."""
        if self.port:
            found = asked_for(self.port, self.nodes, self.brokers)
        else:
            found, moved = as_before(belongings.ports, self.nodes, self.brokers)
            for line in moved:
                progress(line)
        remember(self.home, Belongings(belongings.names, {**belongings.ports, **found}))
        self.ports = Ports.of(found, self.nodes, self.brokers)
        if self._postgres is not None:
            self._postgres.port = self.ports.postgres
        if self._redis is not None:
            self._redis.port = self.ports.redis

    def _start(self, progress: Progress) -> None:
        """Start each process as soon as it can begin: while one waits for a disk, another is imported."""
        servers = self._know_the_servers()
        others = children(self.home, self.ports, self.workers)
        self._children = {child.name: child for child in (*servers, *others)}
        self._write_secrets()
        self.supervisor.run(list(self._children.values()), self._environment())
        # Workers only wait for Redis, which is there at once.
        self._start_role("redis", "worker")
        if self._postgres is not None:
            with _told(progress, "PostgreSQL's data folder"):
                self._postgres.prepare()
            self._start_role("postgres")
            with _told(progress, f"PostgreSQL on 127.0.0.1:{self._postgres.port}"):
                self._postgres.wait_ready(lambda: self._runs("postgres"))
        if self._redis is not None:
            with _told(progress, f"Redis on 127.0.0.1:{self._redis.port}"):
                self._redis.wait_ready(lambda: self._runs("redis"))
        self._start_role("web")
        with _told(progress, "schema, shards, brokers' secrets, tokens"):
            self._prepare_cluster()
        self._start_role("node", "broker")

    def _know_the_servers(self) -> list[Child]:
        """Choose where the embedded servers listen, unless real ones were named."""
        servers: list[Child] = []
        if self._postgres is not None:
            self._postgres.settle()
            self.database_url = self._postgres.url()
            command = tuple(self._postgres.command())
            servers.append(
                Child("postgres", None, command, self._postgres.log, stop_signal="INT", launched=True)
            )
        if self._redis is not None:
            self._redis.prepare()
            self.redis_url = self._redis.url
            servers.append(Child("redis", None, tuple(self._redis.command()), self._redis.log, launched=True))
        return servers

    def _start_role(self, *roles: str) -> None:
        for child in self._children.values():
            if child.role in roles:
                self.supervisor.start(child.name)

    def _runs(self, name: str) -> bool:
        return self.states()[name].running

    def _write_secrets(self) -> None:
        folder_of_secrets = self.home / "secrets"
        kept_secret(folder_of_secrets / "secret_key")
        write_private(folder_of_secrets / "database_url", self.database_url)
        write_private(folder_of_secrets / "redis_url", self.redis_url)

    def _prepare_cluster(self) -> None:
        """One command migrates, initialises, enrols and makes tokens; it answers by its standard output."""
        cluster.point_at(self.database_url, self.redis_url, self.ports.web_url)
        answer = json.loads(self._command("prepare_cluster", *range(1, self.brokers + 1)))
        for number, secret in answer["brokers"].items():
            write_private(self.home / "secrets" / f"broker-{number}", secret)
        self._tokens = answer["tokens"]

    def _command(self, name: str, *arguments: Any) -> str:
        return cluster.command(self.home / "log" / "setup.log", name, *arguments)

    def _environment(self) -> dict[str, str]:
        own = {
            **{"MUSTER_HOME": str(self.home), "TMPDIR": str(self.home / folder.SCRATCH)},
            **{"PYTHONUNBUFFERED": "1", **secret_files(self.home)},
        }
        return what_reaches_a_stack(os.environ) | own | self.extra

    def _write_info(self) -> None:
        folder.write_info(self.home, self.info)


def described(known: Any, states: Mapping[str, State]) -> list[dict[str, Any]]:
    """The list `processes` of stack.json; pid is 0 for a process that does not run."""
    return [
        {
            "role": child.role,
            "id": child.number,
            "name": child.name,
            "pid": states[child.name].pid if child.name in states else 0,
            "log": str(child.log),
            "ready_url": child.ready_url,
            "state": states[child.name].text if child.name in states else "not started",
        }
        for child in known
    ]


@contextlib.contextmanager
def _told(progress: Progress, step: str) -> Any:
    """Tell that ``step`` is done, and how long it took."""
    started = time.monotonic()
    yield
    progress(f"{step}  ({time.monotonic() - started:.1f} s)")
