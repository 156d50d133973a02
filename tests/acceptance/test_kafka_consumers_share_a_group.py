"""Unmodified Kafka consumers share a topic in a group; members come and go, nodes die, nothing is lost."""

import gc
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.request
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from standalone.processes import ROOT
from tests.acceptance.kafka_members import CLIENTS, KafkaMember

pytestmark = [
    pytest.mark.acceptance,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore:read_text is deprecated:DeprecationWarning"),
    pytest.mark.filterwarnings(
        "ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning"
    ),
]
TOPIC, PARTITIONS, RECORDS = "orders", 6, 10_000
START_LIMIT_S = 240.0
PATIENCE_S = 90.0


def until(condition: Callable[[], object], what: str, members: Iterable[KafkaMember] = ()) -> None:
    """Wait for `condition`; a member that failed is told at once."""
    give_up_at = time.monotonic() + PATIENCE_S
    while not condition():
        for member in members:
            assert member.failure is None, f"{member.name} failed: {member.failure!r}"
        assert time.monotonic() < give_up_at, f"not within {PATIENCE_S} s: {what}"
        time.sleep(0.05)


@pytest.fixture(scope="module", autouse=True)
def sockets_that_clients_left() -> Iterator[None]:
    """Clients in Python forget sockets with which they could not connect to a node that was killed."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """What stack.json says of a stack of two nodes and one broker, with 10,000 keyed records in `orders`."""
    home: Path = tmp_path_factory.mktemp("stack") / "home"
    output = home.parent / "up.out"
    environment = {**os.environ, "NODES": "2", "BROKERS": "1", "WORKERS": "1", "MUSTER_HOME": str(home)}
    environment["MUSTER_GROUP_INITIAL_REBALANCE_DELAY_MS"] = "100"
    environment.pop("MAKELEVEL", None)
    with output.open("ab") as out:
        process = subprocess.Popen(
            [sys.executable, str(ROOT / "manage.py"), "up"], env=environment, cwd=ROOT, stdout=out, stderr=out
        )
    try:
        give_up_at = time.monotonic() + START_LIMIT_S
        while "ready bootstrap=" not in output.read_text(encoding="utf-8"):
            assert process.poll() is None and time.monotonic() < give_up_at, output.read_text("utf-8")
            time.sleep(0.1)
        info = json.loads((home / "stack.json").read_text(encoding="utf-8"))
        _fill(info["bootstrap"])
        yield {**info, "home": str(home)}
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def _create(bootstrap: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result()
    for door in admin.list_topics(timeout=PATIENCE_S).brokers.values():
        # A member may ask any of them first, and is told of a topic that is not there yet.
        until(partial(_is_told, f"{door.host}:{door.port}", topic), f"{door.id} tells of {topic}", [])


def _is_told(address: str, topic: str) -> bool:
    return topic in AdminClient({"bootstrap.servers": address}).list_topics(timeout=PATIENCE_S).topics


def _fill(bootstrap: str) -> None:
    """10,000 records whose values count up by key."""
    _create(bootstrap, TOPIC)
    failures: list[Any] = []
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
    for number in range(RECORDS):
        producer.produce(
            TOPIC,
            key=b"customer-%d" % (number % 97),
            value=b"%d" % number,
            on_delivery=lambda error, _: failures.append(error) if error else None,
        )
        producer.poll(0)
    assert producer.flush(PATIENCE_S) == 0
    assert failures == []


def committed(bootstrap: str, group: str, topic: str = TOPIC) -> int:
    """The sum of what the group has committed."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    try:
        asked = [TopicPartition(topic, number) for number in range(PARTITIONS)]
        return sum(max(one.offset, 0) for one in consumer.committed(asked, timeout=PATIENCE_S))
    finally:
        consumer.close()


def check(members: list[KafkaMember], count: int = RECORDS) -> None:
    """Every record at least once, each partition in order; a member goes back only after a rebalance."""
    assert {int(one.value) for member in members for one in member.read} == set(range(count))
    for member in members:
        at: dict[int, int] = {}
        back: dict[int, int] = defaultdict(int)
        for one in member.read:
            back[one.partition] += one.offset <= at.get(one.partition, -1)
            at[one.partition] = one.offset
        assert all(times <= member.rebalances for times in back.values()), member.name


@pytest.mark.parametrize("client", CLIENTS)
def test_three_members_share_a_topic_while_one_leaves_and_one_joins(
    stack: dict[str, Any], client: str
) -> None:
    bootstrap, group = stack["bootstrap"], f"readers-{client}"
    made = CLIENTS[client]
    ann, ben, cleo = (made(bootstrap, group, TOPIC, name).start() for name in ("ann", "ben", "cleo"))
    first = [ann, ben, cleo]
    until(lambda: all(member.assigned for member in first), "all three have partitions", first)
    until(
        lambda: sorted(number for member in first for number in member.assigned) == list(range(PARTITIONS)),
        "every partition has one reader",
        first,
    )
    cleo.close()
    dora = made(bootstrap, group, TOPIC, "dora").start()
    members = [*first, dora]
    staying = [ann, ben, dora]
    until(
        lambda: (
            sorted(number for member in staying for number in member.assigned) == list(range(PARTITIONS))
            and all(member.assigned for member in staying)
        ),
        "the others share what she read",
        staying,
    )
    until(
        lambda: len({one.value for member in members for one in member.read}) == RECORDS,
        "everything is read",
        staying,
    )
    for member in staying:
        member.close()
    check(members)
    assert committed(bootstrap, group) == RECORDS


class Writer:
    """Writes numbered records, a few hundred a second, until it is told to end."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.written = 0
        self._topic = topic
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "linger.ms": 5, "enable.idempotence": True}
        )
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._thread.start()

    def _write(self) -> None:
        while not self._ending.wait(0.02):
            for _ in range(10):
                self._producer.produce(
                    self._topic, key=b"customer-%d" % (self.written % 97), value=b"%d" % self.written
                )
                self.written += 1
            self._producer.poll(0)

    def end(self) -> None:
        """Return when everything is acknowledged."""
        self._ending.set()
        self._thread.join()
        assert self._producer.flush(PATIENCE_S) == 0


def _process(stack: dict[str, Any], name: str) -> int:
    """The pid of one of the stack's processes, as it is now."""
    told = json.loads((Path(stack["home"]) / "stack.json").read_text(encoding="utf-8"))
    return int(next(row["pid"] for row in told["processes"] if row["name"] == name))


def _manage(stack: dict[str, Any], *words: str) -> None:
    environment = {**os.environ, "MUSTER_HOME": stack["home"]}
    command = [sys.executable, str(ROOT / "manage.py"), *words]
    subprocess.run(command, check=True, env=environment, cwd=ROOT, capture_output=True, timeout=120)


def _is_ready(node: str) -> bool:
    """Whether the node at this websocket address says so."""
    try:
        with urllib.request.urlopen(node.replace("ws://", "http://") + "/readyz", timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def test_a_node_is_killed_and_the_next_one_drained_and_no_member_is_expelled(stack: dict[str, Any]) -> None:
    bootstrap, topic = stack["bootstrap"], "clicks"
    _create(bootstrap, topic)
    writer = Writer(bootstrap, topic)
    groups = {
        client: [made(bootstrap, f"{topic}-{client}", topic, name).start() for name in ("ann", "ben")]
        for client, made in CLIENTS.items()
    }
    members = [member for group in groups.values() for member in group]

    def all_have_read(number: int) -> bool:
        return all(max((int(one.value) for one in m.read), default=0) > number for m in members)

    def nothing_is_left(number: int) -> Callable[[], bool]:
        return lambda: all_have_read(number)

    until(
        lambda: all(
            sorted(number for member in group for number in member.assigned) == list(range(PARTITIONS))
            for group in groups.values()
        ),
        "every group has shared its partitions",
        members,
    )
    until(nothing_is_left(writer.written), "everybody reads", members)
    before = [member.rebalances for member in members]
    os.kill(_process(stack, "node-1"), signal.SIGKILL)
    until(nothing_is_left(writer.written + 200), "everybody reads after the kill", members)
    _manage(stack, "start_process", "node-1")
    until(lambda: _is_ready(stack["nodes"][0]), "node-1 is back", members)
    os.kill(_process(stack, "node-2"), signal.SIGTERM)
    until(nothing_is_left(writer.written + 200), "everybody reads after the drain", members)
    writer.end()
    until(
        lambda: all(
            len({one.value for member in group for one in member.read}) == writer.written
            for group in groups.values()
        ),
        "everything is read",
        members,
    )
    assert [member.rebalances for member in members] == before
    for member in members:
        member.close()
    for client, group in groups.items():
        check(group, writer.written)
        assert committed(bootstrap, f"{topic}-{client}", topic) == writer.written
    _manage(stack, "start_process", "node-2")


TOOLS = Path.home() / ".m2/repository/org/apache/kafka/kafka-tools/4.3.0/kafka-tools-4.3.0.jar"


@pytest.fixture(scope="module")
def java(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command that runs one of Kafka's own tools."""
    if shutil.which("java") is None or shutil.which("mvn") is None or not TOOLS.exists():
        pytest.skip("needs Java, and kafka-tools 4.3.0 in Maven's repository")
    listed = tmp_path_factory.mktemp("tools") / "classpath"
    pom = Path(__file__).with_name("kafka_tools.xml")
    build = ["dependency:build-classpath", f"-Dmdep.outputFile={listed}"]
    subprocess.run(["mvn", "-o", "-q", "-B", "-f", str(pom), *build], check=True, timeout=120)
    return ["java", "-Xmx128m", "-XX:TieredStopAtLevel=1", "-cp", listed.read_text(encoding="utf-8")]


class JavaMember:
    """Kafka's VerifiableConsumer: a process that tells in JSON what it does."""

    def __init__(self, java: list[str], folder: Path, name: str, bootstrap: str, group: str) -> None:
        self._said = folder / f"{name}.json"
        tool = "org.apache.kafka.tools.VerifiableConsumer"
        options = {
            "bootstrap-server": bootstrap,
            "topic": TOPIC,
            "group-id": group,
            "session-timeout": "6000",
        }
        words = [word for key, value in options.items() for word in (f"--{key}", value)]
        with self._said.open("wb") as out:
            command = [*java, tool, *words, "--reset-policy", "earliest"]
            self.process = subprocess.Popen(command, stdout=out, stderr=subprocess.DEVNULL)

    def told(self, name: str) -> list[dict[str, Any]]:
        """What it said under this name so far."""
        whole, _, _ = self._said.read_text(encoding="utf-8").rpartition("\n")
        return [fact for line in whole.splitlines() if (fact := json.loads(line))["name"] == name]

    @property
    def assigned(self) -> int:
        """How many partitions it was given last; 0 since it lost them."""
        turns = [*self.told("partitions_assigned"), *self.told("partitions_revoked")]
        last = max(turns, key=lambda fact: fact["timestamp"], default=None)
        return len(last["partitions"]) if last and last["name"] == "partitions_assigned" else 0

    @property
    def read(self) -> int:
        return sum(fact["count"] for fact in self.told("records_consumed"))


def test_javas_consumers_go_on_when_one_of_them_is_killed(
    stack: dict[str, Any], java: list[str], tmp_path: Path
) -> None:
    bootstrap, group = stack["bootstrap"], "readers-java"
    ann, ben = members = [JavaMember(java, tmp_path, name, bootstrap, group) for name in ("ann", "ben")]
    try:
        until(lambda: ann.assigned == ben.assigned == PARTITIONS // 2, "two consumers share the partitions")
        until(lambda: ann.read + ben.read >= RECORDS, "everything is read")
        ben.process.kill()
        until(lambda: ann.assigned == PARTITIONS, "one consumer has all partitions")
        until(lambda: committed(bootstrap, group) == RECORDS, "everything is committed")
        command = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
        asked = [*java, command, "--bootstrap-server", bootstrap, "--describe", "--group", group]
        table = subprocess.run(asked, check=True, capture_output=True, text=True, timeout=60).stdout
        rows = [line.split() for line in table.splitlines() if line.startswith(group)]
        assert [(row[1], row[5]) for row in rows] == [(TOPIC, "0")] * PARTITIONS
        assert not [fact for one in members for fact in one.told("offsets_committed") if not fact["success"]]
    finally:
        for one in members:
            one.process.kill()
            one.process.wait(30)
