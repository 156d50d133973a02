"""This room says which processes a stack consists of: commands, settings, ports, logs; it starts none."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from standalone.ports import Ports

ROOT = Path(__file__).resolve().parent.parent
# Who depends on somebody stops before him; those of one wave do not know each other.
STOP_ORDER = (("client",), ("broker",), ("worker", "node", "web"), ("redis", "postgres"))
STOP_LIMIT_S = {"client": 2, "broker": 3, "worker": 2, "node": 3, "web": 2, "redis": 1, "postgres": 3}


@dataclass(frozen=True, slots=True)
class Child:
    """One process of the stack; ``ready_url`` answers 200 once it can serve."""

    role: str
    number: int | None
    command: tuple[str, ...]
    log: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    stop_signal: str = "TERM"
    ready_url: str = ""
    launched: bool = False
    title: str = ""

    @property
    def name(self) -> str:
        """What people call it: broker-2, web, or the title it was given."""
        return self.title or (self.role if self.number is None else f"{self.role}-{self.number}")


def secret_files(home: Path) -> dict[str, str]:
    """The variables by which every process finds its secrets; the values are files that only we can read."""
    names = ("DATABASE_URL", "REDIS_URL", "SECRET_KEY")
    return {f"{name}_FILE": str(home / "secrets" / name.lower()) for name in names}


def children(home: Path, ports: Ports, workers: int) -> list[Child]:
    """Everything above PostgreSQL and Redis, in the order in which it starts."""
    log = home / "log"
    manage = (sys.executable, str(ROOT / "manage.py"))
    web = Child(
        role="web",
        number=None,
        command=(*manage, "run_web"),
        log=log / "web.log",
        environment={"MUSTER_WEB_LISTEN": f"127.0.0.1:{ports.web}", "MUSTER_WEB_URL": ports.web_url},
        ready_url=f"{ports.web_url}/readyz",
    )
    nodes = [
        Child(
            role="node",
            number=number,
            command=(*manage, "run_node"),
            log=log / f"node-{number}.log",
            environment={
                "MUSTER_NODE_NAME": f"node-{number}",
                "MUSTER_NODE_LISTEN": f"127.0.0.1:{port}",
                "MUSTER_NODE_ADDRESS": f"ws://127.0.0.1:{port}",
                "MUSTER_NODE_KAFKA_LISTEN": f"127.0.0.1:{groups}",
            },
            ready_url=f"http://127.0.0.1:{port}/readyz",
        )
        for number, (port, groups) in enumerate(zip(ports.nodes, ports.groups, strict=True), start=1)
    ]
    crew = [
        Child(
            role="worker",
            number=number,
            command=(*_celery_worker(), "--hostname", f"worker-{number}@muster"),
            log=log / f"worker-{number}.log",
        )
        for number in range(1, workers + 1)
    ]
    return [web, *nodes, *crew, *_brokers(home, ports)]


def _celery_worker() -> tuple[str, ...]:
    # Gossip, mingling and heartbeats are talk between workers through Redis, which decides nothing here.
    quiet = ("--without-gossip", "--without-mingle", "--without-heartbeat")
    return (
        sys.executable,
        *("-m", "celery", "-A", "config", "worker"),
        *("--loglevel", "INFO", "--concurrency", "1", *quiet),
    )


def _brokers(home: Path, ports: Ports) -> list[Child]:
    return [
        Child(
            role="broker",
            number=number,
            command=(sys.executable, "-m", "broker"),
            log=home / "log" / f"broker-{number}.log",
            environment={
                "MUSTER_BROKER_ID": str(number),
                "MUSTER_BROKER_LISTEN": f"127.0.0.1:{client}",
                "MUSTER_BROKER_REPLICATION_LISTEN": f"127.0.0.1:{replication}",
                "MUSTER_BROKER_HTTP_LISTEN": f"127.0.0.1:{probe}",
                "MUSTER_BROKER_DATA": str(home / f"broker-{number}"),
                "MUSTER_BROKER_SECRET_FILE": str(home / "secrets" / f"broker-{number}"),
                "MUSTER_NODES": ",".join(ports.node_addresses),
            },
            ready_url=f"http://127.0.0.1:{probe}/readyz",
        )
        for number, (client, replication, probe) in enumerate(ports.brokers, start=1)
    ]
