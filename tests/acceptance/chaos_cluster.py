"""This room starts what chaos is let loose on: two nodes and four brokers, each behind doors that can be cut.

PostgreSQL can be restarted, brokers and nodes come back on the same ports. Two topics have three replicas,
and two must hold what is acknowledged: one process may be away at any moment, and nothing is lost.
"""

import asyncio
import signal
import urllib.request
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any, Final

from muster.kafkawire.api_table import ApiKey
from standalone.children import free_ports
from standalone.postgres import Postgres
from standalone.redis import Redis
from tests.acceptance.cut_links import Proxies
from tests.acceptance.small_disk import MIB, SmallDisk
from tests.integration.coordinator.control_plane import Process
from tests.integration.replication.cluster import Cluster
from tests.unit.broker_data_plane.planes import client

NODES: Final = ("node-1", "node-2")
FOUR: Final = (1, 2, 3, 4)
TOPICS: Final = ("orders", "clicks")
PARTITIONS: Final = 3
CONFIGS: Final = {"min.insync.replicas": "2", "follower.replication.throttled.replicas": "*"}
PATIENCE_S: Final = 90.0
ON_SMALL_DISK: Final = 4
"""This broker's data lies on a file system of its own, where one may be mounted."""

DISK_MIB: Final = 512
RESERVE_BYTES: Final = 8 * MIB

SETTINGS: Final = {
    # Nobody who only stands in the queue for two processors is missed.
    "MUSTER_BROKER_SESSION_TIMEOUT_MS": "3000",
    "MUSTER_REPLICA_SOCKET_TIMEOUT_MS": "2000",
    "MUSTER_FILE_DELETE_DELAY_MS": "1000",
    # Segments end while chaos goes on.
    "MUSTER_LOG_SEGMENT_BYTES": "131072",
    "MUSTER_GROUP_INITIAL_REBALANCE_DELAY_MS": "100",
    "MUSTER_LOG_RESERVE_BYTES": str(RESERVE_BYTES),
}

MISTAKES: Final = ('"level": "error"', '"level": "critical"', "Traceback")
NO_MISTAKE: Final = "No space left on device"
"""A disk that was filled is one."""


class ChaosCluster(Cluster):
    """The cluster; `proxies` holds `node-1`, `client-1`, `peers-1`, and so on: its doors."""

    def __init__(
        self, home: Path, database_url: str, redis: Redis, postgres: Postgres, **settings: str
    ) -> None:
        super().__init__(home, database_url, redis, **{**SETTINGS, **settings})
        self.postgres = postgres
        self.proxies = Proxies()
        self.doors: dict[str, int] = {}
        """Where the node's own Kafka listeners are."""
        self._fixed: dict[str, dict[str, str]] = {}
        self.disk = SmallDisk(self.data(ON_SMALL_DISK), DISK_MIB)

    # ------------------------------------------------------------------------------ processes

    def start_node(self, name: str = "node-1", **settings: str) -> Process:
        """Start a node, anew or again, on its ports."""
        if name not in self._fixed:
            port, kafka = free_ports(2)
            self._fixed[name] = {
                "MUSTER_NODE_LISTEN": f"127.0.0.1:{port}",
                "MUSTER_NODE_ADDRESS": f"ws://127.0.0.1:{self.proxies.open(name, port)}",
                "MUSTER_NODE_KAFKA_LISTEN": f"127.0.0.1:{kafka}",
            }
            self.doors[name] = kafka
        process = super().start_node(name, **self._fixed[name], **settings)
        self.addresses[name] = self._fixed[name]["MUSTER_NODE_ADDRESS"]
        return process

    def start_broker(self, broker_id: int, **settings: str) -> Process:
        """Start a broker, anew or again, on its ports and its data; does not wait."""
        name = f"broker-{broker_id}"
        if name not in self._fixed:
            inner, replication, probe = free_ports(3)
            self.ports[broker_id] = (inner, probe)
            outer = self.proxies.open(f"client-{broker_id}", inner)
            peers = self.proxies.open(f"peers-{broker_id}", replication)
            self._fixed[name] = {
                "MUSTER_BROKER_ADDRESS": f"127.0.0.1:{outer}",
                "MUSTER_BROKER_REPLICATION_LISTEN": f"127.0.0.1:{replication}",
                "MUSTER_BROKER_REPLICATION_ADDRESS": f"127.0.0.1:{peers}",
                **settings,
            }
        return super().start_broker(broker_id, **self._fixed[name])

    def start(self, brokers: Iterable[int] = FOUR, nodes: int = len(NODES)) -> None:
        super().start(brokers, nodes)

    def process(self, name: str) -> Process:
        """node-1, or broker-1."""
        return self.nodes[name] if name in self.nodes else self.brokers[int(name.removeprefix("broker-"))]

    def again(self, name: str) -> None:
        """Start it again if it does not run, wake it if it sleeps."""
        process = self.process(name)
        if not process.ended:
            process.resume()
        elif name in self.nodes:
            self.start_node(name)
        else:
            self.start_broker(int(name.removeprefix("broker-")))

    def _is_ready(self, name: str) -> bool:
        """By its own port: who looks does not pass the proxy."""
        return answers(f"http://{self._fixed[name]['MUSTER_NODE_LISTEN']}/readyz")

    def end_in_order(self, name: str) -> None:
        """SIGTERM; returns when it has ended as it should."""
        popen = self.process(name).popen
        popen.send_signal(signal.SIGTERM)
        status = popen.wait(30)
        assert status == 0, f"{name} ended with {status}: {self.process(name).tail()}"

    # ------------------------------------------------------------------------------ conditions

    def create_topics(self) -> None:
        for topic in TOPICS:
            self.create_topic(topic, PARTITIONS, configs=CONFIGS)

    def wait_whole(self, what: str) -> None:
        """Everybody is there and every partition has all its replicas in sync; nothing moves."""
        self.await_true(self.everybody_serves, f"everybody serves {what}", PATIENCE_S)
        for topic in TOPICS:
            self.await_true(partial(self.everybody_in_sync, topic), f"all are in sync {what}", PATIENCE_S)

    def everybody_serves(self) -> bool:
        return (
            not any(process.ended for process in (*self.nodes.values(), *self.brokers.values()))
            and self.controller() != ""
            and self.live_brokers() == set(self.brokers)
            and all(map(self.is_ready, self.brokers))
            and all(map(self._is_ready, self.nodes))
        )

    def leader(self, topic: str, number: int) -> str:
        return f"broker-{self.leaders(topic)[number]}"

    def follower(self, topic: str, number: int) -> str:
        """The last of the replicas that does not lead."""
        row = self.partitions(topic)[number]
        return f"broker-{next(b for b in reversed(row['assigned']) if b != row['leader'])}"

    def wait_led(self, topic: str, number: int) -> str:
        """Who leads the partition, once somebody does."""
        return f"broker-{self.leader_of(topic, number)}"

    def wait_led_by_another(self, name: str) -> None:
        """No partition is led by this broker any more."""
        gone = int(name.removeprefix("broker-"))
        self.await_true(
            lambda: all(gone not in self.leaders(topic).values() for topic in TOPICS),
            f"others lead what {name} led",
        )

    # ------------------------------------------------------------------------------ asking

    async def ask(self, port: int, key: ApiKey, version: int, body: Any) -> Any:
        """One question at one Kafka door."""
        async with client(port) as tool:
            return await tool.ask(key, version, body)

    def ask_at(self, port: int, key: ApiKey, version: int, body: Any) -> Any:
        return asyncio.run(self.ask(port, key, version, body))

    def ports_of_doors(self, *without: str) -> list[int]:
        """Kafka doors of everybody but these processes."""
        brokers = {f"broker-{number}": port for number, (port, _) in self.ports.items()}
        return [port for name, port in {**self.doors, **brokers}.items() if name not in without]

    def grumbles(self) -> list[str]:
        """Lines of the logs that tell of a mistake of ours."""
        found = []
        for process in (*self.nodes.values(), *self.brokers.values()):
            for line in process.log.read_text(encoding="utf-8", errors="replace").splitlines():
                if any(word in line for word in MISTAKES) and NO_MISTAKE not in line:
                    found.append(f"{process.name}: {line}")
        return found


def answers(url: str) -> bool:
    """Whether this probe says 200."""
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
