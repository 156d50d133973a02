"""This room runs workers of Kafka Connect, Kafka's own, and asks them by their REST."""

import json
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from standalone.children import free_ports
from tests.acceptance.members import PATIENCE_S, java, until

GROUP: Final = "connect-workers"
FILE_SOURCE: Final = "org.apache.kafka.connect.file.FileStreamSourceConnector"
FILE_SINK: Final = "org.apache.kafka.connect.file.FileStreamSinkConnector"


class Refused(Exception):
    """What a worker answers instead: its status and its words."""


class Worker:
    """One distributed worker; all that name the same group share its connectors and tasks."""

    def __init__(self, bootstrap: str, folder: Path, name: str) -> None:
        self.name = name
        [port] = free_ports(1)
        self.url = f"http://127.0.0.1:{port}"
        self.log = folder / f"{name}.out"
        stated = {
            "bootstrap.servers": bootstrap,
            "group.id": GROUP,
            "listeners": self.url,
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter": "org.apache.kafka.connect.storage.StringConverter",
            "plugin.discovery": "service_load",
            **{f"{kind}.storage.topic": f"connect-{kind}" for kind in ("config", "offset", "status")},
            **{f"{kind}.storage.replication.factor": "3" for kind in ("config", "offset", "status")},
            **{f"{kind}.storage.partitions": "3" for kind in ("offset", "status")},
            "offset.flush.interval.ms": "500",
            "scheduled.rebalance.max.delay.ms": "1000",
            # Whoever is killed is missed after it, and so are the consumers of its sinks.
            **{f"{who}session.timeout.ms": "6000" for who in ("", "consumer.")},
            **{f"{who}heartbeat.interval.ms": "1000" for who in ("", "consumer.")},
        }
        properties = folder / f"{name}.properties"
        properties.write_text("".join(f"{key}={value}\n" for key, value in stated.items()), "utf-8")
        with self.log.open("ab") as out:
            self.process = subprocess.Popen(
                [*java(), "org.apache.kafka.connect.cli.ConnectDistributed", str(properties)],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
            )

    def ask(self, path: str, method: str = "GET", body: Any = None) -> Any:
        """What its REST answers. Raises Refused, or OSError where it answers nothing."""
        data = None if body is None else json.dumps(body).encode()
        question = urllib.request.Request(self.url + path, data, method=method)
        question.add_header("Content-Type", "application/json")
        try:
            with urllib.request.urlopen(question, timeout=PATIENCE_S) as answer:
                return json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as refusal:
            with refusal:
                said = refusal.read().decode()
            raise Refused(f"{method} {path}: {refusal.code} {said}") from None

    def serves(self) -> bool:
        """Whether it has joined, and answers."""
        assert self.process.poll() is None, self.log.read_text("utf-8")[-4000:]
        try:
            self.ask("/connectors")
        except (OSError, Refused):
            return False
        return True

    def put(self, connector: str, **config: Any) -> None:
        """Make it, or change it; dots in names of configs are written `_`."""
        stated = {key.replace("_", "."): str(value) for key, value in config.items()}

        def taken() -> bool:
            try:
                self.ask(f"/connectors/{connector}/config", "PUT", stated)
            except Refused as refusal:
                # 409: they rebalance.
                assert ": 409 " in str(refusal), refusal
                return False
            return True

        until(taken, f"{connector} is taken")

    def runs(self, connector: str, tasks: int) -> bool:
        """Whether the connector and so many tasks run."""
        return self.states(connector) == ["RUNNING"] * (1 + tasks)

    def states(self, connector: str) -> list[str]:
        """Of the connector, and of each task."""
        try:
            told = self.ask(f"/connectors/{connector}/status")
        except Refused:
            return []
        return [told["connector"]["state"], *(task["state"] for task in told["tasks"])]

    def places(self) -> dict[str, set[str]]:
        """Each worker's tasks, as this one knows it."""
        found: dict[str, set[str]] = {}
        for name, told in self.ask("/connectors?expand=status").items():
            for task in told["status"]["tasks"]:
                found.setdefault(task["worker_id"], set()).add(f"{name}-{task['id']}")
        return found

    @property
    def worker_id(self) -> str:
        return self.url.removeprefix("http://")

    def kill(self) -> None:
        """kill -9; may be called twice."""
        self.process.kill()
        self.process.wait()


@contextmanager
def workers(bootstrap: str, folder: Path, *names: str) -> Iterator[list[Worker]]:
    """All serve; who is still there is killed at the end."""
    started: list[Worker] = []
    try:
        for name in names:
            started.append(Worker(bootstrap, folder, name))
        for worker in started:
            until(worker.serves, f"{worker.name} serves")
        yield started
    finally:
        for worker in started:
            worker.kill()


@contextmanager
def mirror_maker(
    folder: Path, clusters: Mapping[str, str], settings: Mapping[str, str]
) -> Iterator[Callable[[], bool]]:
    """MirrorMaker 2 by itself, between clusters, named with their bootstrap addresses; whether it lives.

    Topics keep their names, and groups their offsets. Killed at the end.
    """
    stated = {
        "clusters": ", ".join(clusters),
        **{f"{name}.bootstrap.servers": bootstrap for name, bootstrap in clusters.items()},
        "replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
        "sync.group.offsets.enabled": "true",
        "sync.group.offsets.interval.seconds": "1",
        "emit.checkpoints.interval.seconds": "1",
        "refresh.groups.interval.seconds": "1",
        "offset.lag.max": "0",
        "replication.factor": "1",
        "emit.heartbeats.enabled": "false",
        **{f"{kind}.storage.replication.factor": "1" for kind in ("config", "offset", "status")},
        **{f"{kind}.topic.replication.factor": "1" for kind in ("checkpoints", "heartbeats", "offset-syncs")},
        # Which offset became which is told with each flush of the cluster's worker.
        **{f"{name}.offset.flush.interval.ms": "500" for name in clusters},
        **{f"{name}.plugin.discovery": "service_load" for name in clusters},
        **settings,
    }
    properties = folder / "mirror.properties"
    properties.write_text("".join(f"{key}={value}\n" for key, value in stated.items()), "utf-8")
    log = folder / "mirror.out"
    command = [word.replace("-Xmx128m", "-Xmx512m") for word in java()]
    with log.open("wb") as out:
        process = subprocess.Popen(
            [*command, "org.apache.kafka.connect.mirror.MirrorMaker", str(properties)],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
        )

    def lives() -> bool:
        assert process.poll() is None, log.read_text("utf-8")[-4000:]
        return True

    try:
        yield lives
    finally:
        process.kill()
        process.wait()
