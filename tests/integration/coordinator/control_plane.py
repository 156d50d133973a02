"""This room starts nodes and workers for tests: real processes on a database of their own."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from uuid import UUID, uuid4
from zlib import crc32

import psycopg

from standalone.children import end, free_ports, launch, log_tail
from standalone.redis import Redis
from tests.integration.coordinator.management import Management
from tests.tidy.sources import ROOT
from tests.warm import SERVING, warm

READY_WITHIN_S = 60.0
STOPS_WITHIN_S = 5.0
PATIENCE_S = 90.0
"""Costs nothing where things go well: a machine may be slow, but not for so long."""


def eventually(condition: Callable[[], object], what: str, within_s: float = PATIENCE_S) -> object:
    """The first true value of `condition`; fails with `what` when it stays false."""
    until = time.monotonic() + within_s
    while not (value := condition()):
        if time.monotonic() > until:
            raise AssertionError(f"not within {within_s} s: {what}")
        time.sleep(0.02)
    return value


async def eventually_async(
    condition: Callable[[], object], what: str, within_s: float = PATIENCE_S
) -> object:
    """`eventually` for tests whose members live on this event loop."""
    until = time.monotonic() + within_s
    while not (value := await asyncio.to_thread(condition)):
        if time.monotonic() > until:
            raise AssertionError(f"not within {within_s} s: {what}")
        await asyncio.sleep(0.02)
    return value


class Process:
    """One process of the control plane, and its log."""

    def __init__(self, name: str, popen: "subprocess.Popen[bytes]", log: Path) -> None:
        self.name = name
        self.popen = popen
        self.log = log

    @property
    def ended(self) -> bool:
        """True if the process is gone."""
        return self.popen.poll() is not None

    def kill(self) -> None:
        """kill -9."""
        self.popen.kill()
        self.popen.wait()

    def pause(self) -> None:
        """SIGSTOP."""
        self.popen.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        self.popen.send_signal(signal.SIGCONT)

    def tail(self) -> str:
        """The end of its log."""
        return log_tail(self.log, 40)


class ControlPlane:
    """Nodes and workers of one cluster; `settings` are environment variables for all of them."""

    starts_warm = True
    """False: as a user's, with what `make compiled` compiled, for whoever measures them."""

    def __init__(self, home: Path, database_url: str, redis: Redis, **settings: str) -> None:
        self.home = home
        self.database_url = database_url
        self.redis = redis
        self.nodes: dict[str, Process] = {}
        self.workers: list[Process] = []
        self.addresses: dict[str, str] = {}
        self._tokens: dict[str, str] = {}
        self.environment = {
            **os.environ,
            "DATABASE_URL": database_url,
            "DATABASE_DIRECT_URL": database_url,
            "REDIS_URL": redis.url,
            "SECRET_KEY": "tests-only-" + "x" * 50,
            "MUSTER_HOME": str(home),
            "MUSTER_TEST": "1",
            "PYTHONWARNINGS": "ignore",
            **settings,
        }
        self._management = Management(self.environment)
        self._querying = threading.Lock()
        self._connection: psycopg.Connection[tuple[object, ...]] | None = None
        self.manage("initialise_cluster")

    def manage(self, *arguments: str) -> str:
        """Run a management command and return what it printed."""
        return self._management.run(*arguments)

    def token(self, name: str = "consumers", role: str = "consumer") -> str:
        """The token of a principal, made when it is first asked for."""
        if name not in self._tokens:
            printed = self.manage("create_token", name, "--role", role, "--replace")
            self._tokens[name] = printed.split()[-1]
        return self._tokens[name]

    def start_node(self, name: str = "node-1", **settings: str) -> Process:
        """Start a node and wait until it is ready."""
        (port,) = free_ports(1)
        self.addresses[name] = f"ws://127.0.0.1:{port}"
        environment = {
            "MUSTER_NODE_NAME": name,
            "MUSTER_NODE_LISTEN": f"127.0.0.1:{port}",
            "MUSTER_NODE_ADDRESS": self.addresses[name],
            **settings,
        }
        node = self._start(name, [sys.executable, "manage.py", "run_node"], environment)
        self.nodes[name] = node
        return node

    def start_worker(self) -> Process:
        """Start a Celery worker."""
        command = [sys.executable, "-m", "celery", "-A", "config", "worker", "-c", "1", "-l", "warning"]
        worker = self._start(f"worker-{len(self.workers) + 1}", command, {})
        self.workers.append(worker)
        return worker

    def _start(self, name: str, command: list[str], environment: dict[str, str]) -> Process:
        self.home.mkdir(parents=True, exist_ok=True)
        log = self.home / f"{name}.log"
        if not self.starts_warm:
            popen = launch(command, folder=ROOT, log=log, environment={**self.environment, **environment})
            return Process(name, popen, log)
        with log.open("ab") as output:
            popen = warm(SERVING).start(
                command,
                environment={**self.environment, **environment},
                folder=ROOT,
                stdout=output,
                stderr=output,
                session=True,
            )
        return Process(name, popen, log)

    def query(self, text: str, *values: object) -> list[tuple[object, ...]]:
        """Rows of one statement; waits for a server that starts again.

        On one connection for all of them: whoever waits for a row asks fifty times a second, and a connection
        costs both sides more than the row.
        """
        until = time.monotonic() + READY_WITHIN_S
        while True:
            try:
                with self._querying:
                    if self._connection is None or self._connection.closed:
                        self._connection = psycopg.connect(
                            self.database_url, autocommit=True, prepare_threshold=None
                        )
                    return self._connection.execute(text.encode(), values).fetchall()
            except psycopg.OperationalError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.05)

    def execute(self, text: str, *values: object) -> None:
        """One statement without rows."""
        with psycopg.connect(self.database_url, autocommit=True) as connection:
            connection.execute(text.encode(), values)

    def wait_until_serving(self) -> None:
        """Every node that runs says that it is ready: each shard is accepted by its owner."""
        running = [name for name, node in self.nodes.items() if not node.ended]
        try:
            eventually(lambda: all(self._is_ready(name) for name in running), "nodes ready", READY_WITHIN_S)
        except AssertionError as problem:
            tails = "\n".join(f"{name}:\n{self.nodes[name].tail()}" for name in running)
            raise AssertionError(f"{problem}\n{tails}") from None

    def _is_ready(self, name: str) -> bool:
        address = self.addresses[name].replace("ws://", "http://")
        try:
            with urllib.request.urlopen(f"{address}/readyz", timeout=2) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def add_broker(self, broker_id: int, address: str) -> None:
        """A broker that members are told of, though no controller ever heard its hello."""
        self.execute(
            "INSERT INTO broker (broker_id, secret_hash, endpoints, rack, broker_epoch, incarnation, fenced,"
            " metadata_version) VALUES (%s, sha256('x'), jsonb_build_object('client', %s::text), '', 1,"
            " gen_random_uuid(), false, 0)"
            " ON CONFLICT (broker_id) DO UPDATE SET endpoints = EXCLUDED.endpoints, fenced = false",
            broker_id,
            address,
        )
        self.execute("SELECT pg_notify('muster', 'brokers ')")

    def add_topic(self, name: str, partitions: int, topic_id: UUID | None = None) -> UUID:
        """A topic without brokers: the coordinator knows it by its row."""
        topic_id = topic_id or uuid4()
        with psycopg.connect(self.database_url) as connection:
            connection.execute(
                "INSERT INTO topic (topic_id, name, partition_count, replication_factor, configs,"
                " metadata_version) VALUES (%s, %s, %s, 1, '{}', 0)",
                (topic_id, name, partitions),
            )
            connection.execute(
                "INSERT INTO partition (topic_id, partition, assigned, adding, removing, leader,"
                " leader_epoch, isr, version) SELECT %s, n, '{1}', '{}', '{}', -1, 0, '{}', 0"
                " FROM generate_series(0, %s - 1) AS n",
                (topic_id, partitions),
            )
            connection.execute("SELECT pg_notify('muster', 'topics ')")
        return topic_id

    def shard(self, group: str) -> int:
        """The shard of a group."""
        return crc32(group.encode()) % 64

    def phase(self, group: str) -> str:
        """The phase of a group; empty if there is no such group."""
        rows = self.query("SELECT phase FROM consumer_group WHERE name = %s", group)
        return str(rows[0][0]) if rows else ""

    def generation(self, group: str) -> int:
        """The generation of a group; 0 if there is no such group."""
        rows = self.query("SELECT generation FROM consumer_group WHERE name = %s", group)
        return int(str(rows[0][0])) if rows else 0

    def owners(self, group: str) -> dict[int, str]:
        """Owner by partition number, of a group that reads one topic; only what is `running`."""
        rows = self.query(
            "SELECT partition, owner FROM partition_ownership WHERE group_name = %s AND state = 'running'",
            group,
        )
        return {int(str(partition)): str(owner) for partition, owner in rows}

    def committed(self, group: str) -> dict[int, int]:
        """Committed offset by partition number, of a group that reads one topic."""
        rows = self.query(
            "SELECT partition, committed_offset FROM committed_offset WHERE group_name = %s", group
        )
        return {int(str(partition)): int(str(offset)) for partition, offset in rows}

    def stop(self) -> None:
        """End everything that was started."""
        self._management.close()
        if self._connection is not None:
            self._connection.close()
        self.end_processes()

    def end_processes(self) -> None:
        """End nodes and workers; others may be started then."""
        running = [one for one in (*self.workers, *self.nodes.values()) if one.popen.poll() is None]
        for process in running:
            process.resume()
            process.popen.terminate()
        for process in running:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.popen.wait(STOPS_WITHIN_S)
            end(process.popen)
