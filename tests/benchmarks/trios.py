"""This room starts three brokers to be measured: Muster's, with all that belongs to them, and Apache Kafka's.

One cluster after the other, never both: two cores hold no six brokers. Kafka's three are controllers as well,
each with half a gigabyte of heap.
"""

import contextlib
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, cast

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from muster.kafkawire.api_table import ApiKey, build, part, request_class
from standalone.children import free_ports
from tests.benchmarks.planes import cpu_seconds
from tests.benchmarks.produce_consume import START_TIMEOUT_S, ApacheKafka, kafka_libraries
from tests.benchmarks.whole_cluster import bench_cluster
from tests.integration.replication.cluster import Cluster
from tests.integration.replication.test_configs_are_changed_while_brokers_run import ask

BROKERS: Final = (1, 2, 3)
HEAP: Final = "512m"
LOOK_EVERY_S: Final = 0.1


@dataclass(frozen=True)
class Trio:
    """Three brokers that run; ports and processes by their ids. `cluster` is None if they are Kafka's."""

    name: str
    ports: Mapping[int, int]
    pids: Mapping[int, int]
    cluster: Cluster | None = None

    @property
    def bootstrap(self) -> str:
        """Where clients begin."""
        return ",".join(f"127.0.0.1:{port}" for port in self.ports.values())

    def admin(self) -> AdminClient:
        """An unmodified client."""
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    def cpu_s(self) -> dict[int, float]:
        """CPU seconds of each broker so far."""
        return {broker_id: cpu_seconds(pid) for broker_id, pid in self.pids.items()}

    def new_topic(self, name: str, assigned: tuple[int, ...], partitions: int, **configs: str) -> None:
        """All its partitions on these brokers; the first leads."""
        made = NewTopic(
            name, num_partitions=partitions, replica_assignment=[list(assigned)] * partitions, config=configs
        )
        admin = self.admin()
        admin.create_topics([made], request_timeout=60)[name].result(90)

    def everybody_in_sync(self, topic: str) -> bool:
        """As clients are told."""
        partitions = self.admin().list_topics(topic, timeout=30).topics[topic].partitions.values()
        return all(set(one.isrs) == set(one.replicas) for one in partitions)

    def move(self, topic: str, partitions: int, to: tuple[int, ...]) -> None:
        """Have all partitions moved, as Kafka's tool does. Raises AssertionError if one is refused."""
        key = ApiKey.ALTER_PARTITION_REASSIGNMENTS
        shape = request_class(key, 0)
        places = tuple(
            build(part(shape, "ReassignablePartition"), partition_index=number, replicas=to)
            for number in range(partitions)
        )
        named = build(part(shape, "ReassignableTopic"), name=topic, partitions=places)
        answer = ask(self.ports[1], key, 0, build(shape, topics=(named,), timeout=timedelta(seconds=60)))
        refused = [one for one in answer.responses[0].partitions if one.error_code]
        assert not answer.error_code, answer
        assert not refused, refused[0]

    def is_moving(self) -> bool:
        """Whether any partition moves."""
        key = ApiKey.LIST_PARTITION_REASSIGNMENTS
        body = build(request_class(key, 0), topics=None, timeout=timedelta(seconds=60))
        return bool(ask(self.ports[1], key, 0, body).topics)


def wait_until(condition: Callable[[], bool], what: str, within_s: float) -> None:
    """Look ten times a second: each look asks brokers that are measured. Raises AssertionError."""
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {within_s:.0f} s: {what}"
        time.sleep(LOOK_EVERY_S)


def trios(home: Path, name: str) -> Generator[Trio]:
    """Muster's, then Kafka's if it can be run; each is stopped and its folder removed before the next."""
    with bench_cluster(home, name, nodes=1) as cluster:
        yield Trio(
            "Muster",
            {broker_id: ports[0] for broker_id, ports in cluster.ports.items()},
            {broker_id: process.popen.pid for broker_id, process in cluster.brokers.items()},
            cluster,
        )
    libraries = kafka_libraries(home)
    if libraries is not None:
        with three_of_kafka(home, name, libraries) as trio:
            yield trio


@contextmanager
def three_of_kafka(home: Path, name: str, libraries: Path) -> Iterator[Trio]:
    """Apache Kafka 4.3.0: three brokers that are controllers, too, with Kafka's own defaults."""
    folder = Path(tempfile.mkdtemp(prefix=f"{name}-kafka-", dir=home)).resolve()
    numbers = free_ports(2 * len(BROKERS))
    ports = dict(zip(BROKERS, numbers, strict=False))
    controllers = dict(zip(BROKERS, numbers[len(BROKERS) :], strict=True))
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        pids = {
            broker_id: stack.enter_context(_one_of_kafka(folder, libraries, broker_id, ports, controllers))
            for broker_id in BROKERS
        }
        trio = Trio(ApacheKafka.name, ports, pids)
        wait_until(lambda: _all_answer(trio), "three brokers of Kafka are there", START_TIMEOUT_S)
        yield trio


def _all_answer(trio: Trio) -> bool:
    try:
        brokers = cast("dict[int, Any]", trio.admin().list_topics(timeout=2).brokers)
    except Exception:
        return False
    return len(brokers) == len(BROKERS)


@contextmanager
def _one_of_kafka(
    folder: Path, libraries: Path, broker_id: int, ports: Mapping[int, int], controllers: Mapping[int, int]
) -> Iterator[int]:
    voters = ",".join(f"{number}@127.0.0.1:{port}" for number, port in controllers.items())
    path = folder / f"{broker_id}.properties"
    path.write_text(
        f"process.roles=broker,controller\nnode.id={broker_id}\ncontroller.quorum.voters={voters}\n"
        f"listeners=PLAINTEXT://127.0.0.1:{ports[broker_id]},"
        f"CONTROLLER://127.0.0.1:{controllers[broker_id]}\n"
        f"advertised.listeners=PLAINTEXT://127.0.0.1:{ports[broker_id]}\n"
        "controller.listener.names=CONTROLLER\ninter.broker.listener.name=PLAINTEXT\n"
        f"log.dirs={folder / f'logs-{broker_id}'}\n",
        encoding="utf-8",
    )
    java = ["java", f"-Xms{HEAP}", f"-Xmx{HEAP}", "-cp", f"{libraries}/*"]
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    format_command = [*java, "kafka.tools.StorageTool", "format", "-t", "4L6g3nShT-eMCtK--X86sw"]
    subprocess.run([*format_command, "-c", str(path)], check=True, **quiet)
    process = subprocess.Popen([*java, "kafka.Kafka", str(path)], **quiet)
    try:
        yield process.pid
    finally:
        # A broker of Kafka that is told to stop waits for its controllers, which are stopped as well.
        process.kill()
        process.wait()
