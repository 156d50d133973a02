"""librdkafka and Java, which state client.rack, read at the follower there, and go on when it is killed."""

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from tests.acceptance.members import PROGRAMS, java, missing
from tests.integration.replication.cluster import BROKERS, PATIENCE_S, Cluster, Producing

TOPIC: Final = "orders"
RACKS: Final = {1: "north", 2: "south", 3: "west"}
SOME: Final = 300
"""Records that show that somebody goes on."""


class Reader:
    """A consumer's process, and the offset and value of each record that it has printed."""

    def __init__(self, command: list[str], cluster: Cluster, group: str, rack: str, folder: Path) -> None:
        self.name = group
        self._told = folder / f"{group}.out"
        self._grumble = folder / f"{group}.err"
        settings = [f"client.rack={rack}", "metadata.max.age.ms=300000"]
        # What a client logs would stand in the middle of a line.
        with self._told.open("wb") as told, self._grumble.open("wb") as grumble:
            self.process = subprocess.Popen(
                [*command, cluster.bootstrap, group, TOPIC, *settings],
                stdin=subprocess.DEVNULL,
                stdout=told,
                stderr=grumble,
                env={"PYTHONUNBUFFERED": "1"},
            )

    @property
    def read(self) -> list[tuple[int, int]]:
        """Offsets and values, in the order in which they came. A line may not be whole yet."""
        lines = self._told.read_text(encoding="utf-8", errors="replace").split("\n")[:-1]
        records = [line.split() for line in lines if re.match(r"0 \d+ ", line)]
        return [(int(words[1]), int(words[-1])) for words in records]

    def has_read(self, count: int) -> bool:
        assert self.process.poll() is None, f"{self.name} ended: {self._grumble.read_text()[-2000:]}"
        return len(self.read) >= count

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture
def racks(cluster: Cluster) -> Cluster:
    """A node that coordinates Kafka's groups, and three brokers on racks of their own."""
    cluster.start_node("node-1", MUSTER_NODE_KAFKA_LISTEN="127.0.0.1:0")
    for broker_id in BROKERS:
        start(cluster, broker_id)
    cluster.wait_until_ready()
    cluster.create_topic(TOPIC, 1)
    return cluster


def start(cluster: Cluster, broker_id: int) -> None:
    cluster.start_broker(broker_id, MUSTER_BROKER_RACK=RACKS[broker_id])


@pytest.fixture
def reader(racks: Cluster, tmp_path: Path) -> Iterator[Callable[[str, str], Reader]]:
    """Starts a consumer on a rack, by one client or another."""
    commands = {
        "librdkafka": [sys.executable, str(PROGRAMS / "python" / "consumer.py")],
        "java": [*java(), "KafkaReader"] if not missing("java") else [],
    }
    started: list[Reader] = []

    def begin(client: str, rack: str) -> Reader:
        started.append(Reader(commands[client], racks, client, rack, tmp_path))
        return started[-1]

    yield begin
    for one in started:
        one.end()


def metric(cluster: Cluster, broker_id: int, name: str) -> int:
    """What a broker counted since it started; 0 if it is away."""
    found = re.search(rf"^{name} (\S+)$", cluster.probe(broker_id, "metrics")[1], re.MULTILINE)
    return int(float(found.group(1))) if found else 0


def read_there(cluster: Cluster, broker_id: int) -> int:
    """Bytes of records that consumers got from this broker as a follower."""
    return metric(cluster, broker_id, "muster_broker_client_fetched_from_followers_bytes_total")


@pytest.fixture
def producing(racks: Cluster) -> Iterator[Producing]:
    begun = Producing(racks, TOPIC, 1)
    yield begun
    begun.finish()


@pytest.mark.parametrize(
    "client",
    [
        "librdkafka",
        pytest.param("java", marks=pytest.mark.skipif(bool(missing("java")), reason=missing("java"))),
    ],
)
def test_a_consumer_reads_where_it_stands_and_elsewhere_when_that_dies(
    racks: Cluster, reader: Callable[[str, str], Reader], producing: Producing, client: str
) -> None:
    leader = racks.leader_of(TOPIC)
    near, far = (b for b in BROKERS if b != leader)
    ann = reader(client, RACKS[near])

    def goes_on(what: str) -> None:
        racks.await_true(partial(ann.has_read, len(ann.read) + SOME), what)

    racks.await_true(lambda: read_there(racks, near), f"{client} reads at the follower on its rack")
    before = read_there(racks, near)
    racks.await_true(lambda: read_there(racks, near) > before, "it reads on there")
    assert metric(racks, leader, "muster_broker_consumers_sent_to_followers_total") >= 1
    racks.brokers[near].kill()
    racks.await_true(lambda: near not in racks.live_brokers(), "its follower is missed")
    goes_on("it reads at the leader")
    start(racks, near)
    racks.await_true(lambda: racks.everybody_in_sync(TOPIC), "the follower is in sync again")
    racks.await_true(lambda: read_there(racks, near), "it is sent there again")
    racks.brokers[leader].kill()
    racks.await_true(lambda: racks.leader_of(TOPIC) in (near, far), "another one leads")
    goes_on("it reads on")
    producing.finish()
    assert producing.refused == []
    racks.await_true(partial(ann.has_read, producing.sent), "it has read everything", PATIENCE_S)
    assert ann.read == list(enumerate(producing.acknowledged[0]))
