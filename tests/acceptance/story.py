"""This room tells what the members of all clients go through at once, while a topic is being written.

Three of each share it; one leaves, one is killed with -9, one joins; the node that coordinates them is killed
with -9, comes back, and then the other one is drained.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from websockets.sync.client import connect

from standalone.processes import ROOT
from tests.acceptance.members import ALONE, CLIENTS, PATIENCE_S, Member, Seat, until

TOPIC: Final = "orders"
PARTITIONS: Final = 6
START_LIMIT_S: Final = 240.0
SESSION_MS: Final = 45_000
"""What Kafka's clients ask for unless told otherwise: nobody is expelled for a machine that is slow."""
SHORT_SESSION_MS: Final = 6_000
"""Of the one who is killed."""
Stack = dict[str, Any]
"""What stack.json says, and where it lies."""


@contextmanager
def running_stack(home: Path, brokers: int = 1) -> Iterator[Stack]:
    """Two nodes, and so many brokers."""
    output = home.parent / "up.out"
    environment = {**os.environ, "NODES": "2", "WORKERS": "1", "MUSTER_HOME": str(home)}
    environment["BROKERS"] = str(brokers)
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
        yield {**json.loads((home / "stack.json").read_text(encoding="utf-8")), "home": str(home)}
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE_S)


def doors(stack: Stack) -> dict[str, str]:
    """One Kafka door of each kind, as clients are told of it: broker and node."""
    told = AdminClient({"bootstrap.servers": stack["bootstrap"]}).list_topics(timeout=PATIENCE_S).brokers
    # The numbers of nodes begin behind those of brokers.
    found = {number: f"{door.host}:{door.port}" for number, door in told.items()}
    return {"broker": found[min(found)], "node": found[max(found)]}


def create(bootstrap: str, topic: str, partitions: int = PARTITIONS) -> None:
    """Create it, and let every door know it."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result()
    until_told(bootstrap, topic)


def until_told(bootstrap: str, topic: str) -> None:
    """Every door tells of the topic."""
    for door in (
        AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=PATIENCE_S).brokers.values()
    ):
        # A member may ask any of them first, and is told of a topic that is not there yet.
        until(partial(_is_told, f"{door.host}:{door.port}", topic), f"{door.id} tells of {topic}")


def _is_told(address: str, topic: str) -> bool:
    return topic in AdminClient({"bootstrap.servers": address}).list_topics(timeout=PATIENCE_S).topics


def committed(bootstrap: str, group: str) -> int:
    """The sum of what the group has committed."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    try:
        asked = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
        return sum(max(one.offset, 0) for one in consumer.committed(asked, timeout=PATIENCE_S))
    finally:
        consumer.close()


class Writer:
    """Writes keyed records whose values count up: half at once, others by and by, the rest at the end."""

    def __init__(self, bootstrap: str, records: int) -> None:
        self.written = 0
        self._records = records
        self._failures: list[str] = []
        settings = {"bootstrap.servers": bootstrap, "linger.ms": 5, "enable.idempotence": True}
        # Of the broker nothing is told: it hears of nodes that are killed as well.
        self._producer = Producer({**settings, "log_level": 0})
        self._ending = threading.Event()
        self._write(records // 2)
        self._thread = threading.Thread(target=self._trickle, daemon=True)
        self._thread.start()

    def _trickle(self) -> None:
        while not self._ending.wait(0.2):
            self._write(10)

    def _write(self, count: int) -> None:
        for number in range(self.written, self.written + count):
            key, value = b"customer-%d" % (number % 97), b"%d" % number
            self._producer.produce(TOPIC, key=key, value=value, on_delivery=self._told)
            self._producer.poll(0)
        self.written += count

    def _told(self, error: Any, _message: Any) -> None:
        if error:
            self._failures.append(str(error))

    def end(self) -> None:
        """Write what is missing; return when everything is acknowledged."""
        self._ending.set()
        self._thread.join()
        self._write(max(0, self._records - self.written))
        assert self._producer.flush(PATIENCE_S) == 0
        assert self._failures == []


@contextmanager
def told_of_nodes(stack: Stack) -> Iterator[None]:
    """What fails inside comes with what the nodes have logged beside their turns and leases."""
    try:
        yield
    except Exception as problem:
        for log in sorted((Path(stack["home"]) / "log").glob("node-*.log")):
            lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
            told = [one for one in lines if '"event": "turn"' not in one and '"event": "lease ' not in one]
            problem.add_note("\n".join([log.name, *told[-40:]]))
        raise


def process_of(stack: Stack, name: str) -> int:
    """The pid of one of the stack's processes, as it is now."""
    told = json.loads((Path(stack["home"]) / "stack.json").read_text(encoding="utf-8"))
    return int(next(row["pid"] for row in told["processes"] if row["name"] == name))


def start_again(stack: Stack, name: str) -> None:
    environment = {**os.environ, "MUSTER_HOME": stack["home"]}
    command = [sys.executable, str(ROOT / "manage.py"), "start_process", name]
    subprocess.run(command, check=True, env=environment, cwd=ROOT, capture_output=True, timeout=120)


def _is_ready(node: str) -> bool:
    """Whether the node at this websocket address says so."""
    try:
        with urllib.request.urlopen(node.replace("ws://", "http://") + "/readyz", timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


class Party:
    """The group of one client: its members, and what of it must not change."""

    def __init__(self, stack: Stack, client: str, folder: Path) -> None:
        self.client = client
        self.alone = client in ALONE
        self.group = self._of_the_first_node(stack)
        self.staying: list[Member] = []
        self.left: list[Member] = []
        self.generations: list[int] = []
        self.turns: list[list[int]] = []
        self._stack = stack
        self._folder = folder

    def _of_the_first_node(self, stack: Stack) -> str:
        """A name for which that node is the coordinator."""
        address = stack["nodes"][0]
        headers = {"Authorization": f"Bearer {stack['consumer_token']}"}
        with connect(f"{address}/ws/consumer/", additional_headers=headers) as socket:
            for number in range(100):
                name = f"{self.client}-{number}"
                question = {"type": "ClusterMetadata", "correlation_id": number, "group_id": name}
                socket.send(json.dumps(question))
                if json.loads(socket.recv(timeout=PATIENCE_S)).get("coordinator_address") == address:
                    return name
        raise AssertionError(f"{address} coordinates nothing")

    def start(self, *names: str) -> None:
        """These join."""
        for name in names:
            session_ms = SHORT_SESSION_MS if name == "ben" else SESSION_MS
            seat = Seat(self._stack, self.group, TOPIC, name, session_ms)
            self.staying.append(Member(CLIENTS[self.client](seat), self._folder, seat))

    def lose(self) -> None:
        """One leaves, one is killed with -9, one joins."""
        ann, ben, cleo = self.staying
        cleo.ask_to_leave()
        ben.kill()
        self.staying, self.left = [ann], [ben, cleo]
        self.start("dora")

    @property
    def shares(self) -> bool:
        """Whether every partition has one reader among those who stay, and each of them some."""
        owned = sorted(number for member in self.staying for number in member.assigned)
        return self.alone or (owned == list(range(PARTITIONS)) and all(one.assigned for one in self.staying))

    def look(self) -> None:
        """Remember the group's generation, and how often each who stays was told what it has."""
        self.turns.append([member.turns for member in self.staying])
        if not self.alone:
            address = f"{self._stack['rest']}groups/{self.group}"
            headers = {"Authorization": f"Bearer {self._stack['token']}"}
            request = urllib.request.Request(address, headers=headers)
            with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
                self.generations.append(json.load(answer)["generation"])

    @property
    def came_back(self) -> bool:
        """Whether one of them says that it gave its place up, and joined again."""
        return any("unable to join group session" in one.grumble() for one in self.staying)

    @property
    def values(self) -> set[int]:
        """Everything that its members have read."""
        return {one.value for member in (*self.staying, *self.left) for one in member.read}


class Story:
    """What happens to all parties together; each chapter returns when everybody is there."""

    def __init__(self, stack: Stack, parties: Sequence[Party], records: int) -> None:
        self._stack = stack
        self._parties = parties
        self._groups = [party for party in parties if not party.alone]
        self._writer = Writer(stack["bootstrap"], records)

    def members_come_and_go(self) -> None:
        """Three join; one leaves, one is killed, one joins."""
        for party in self._parties:
            party.start(*(("ann",) if party.alone else ("ann", "ben", "cleo")))
        self._await(lambda: all(party.shares for party in self._parties), "all share the partitions")
        for party in self._groups:
            party.lose()
        self._await(lambda: all(party.shares for party in self._parties), "two share what the others had")
        for party in self._groups:
            party.left[1].wait_gone()

    def nodes_die_and_drain(self) -> None:
        """The coordinator is killed and comes back, and the other node is drained: nobody is expelled."""
        self._all_read_on("before the kill")
        for party in self._parties:
            party.look()
        os.kill(process_of(self._stack, "node-1"), signal.SIGKILL)
        self._all_read_on("after the kill")
        start_again(self._stack, "node-1")
        self._await(lambda: _is_ready(self._stack["nodes"][0]), "node-1 is back")
        os.kill(process_of(self._stack, "node-2"), signal.SIGTERM)
        self._all_read_on("after the drain")
        for party in self._parties:
            party.look()

    def everything_is_read(self) -> int:
        """The last records; all leave. Returns how many there were."""
        self._writer.end()
        count = self._writer.written
        self._await(lambda: all(len(party.values) == count for party in self._parties), "everything is read")
        for member in self._staying:
            member.ask_to_leave()
        for member in self._staying:
            member.wait_gone()
        start_again(self._stack, "node-2")
        return count

    @property
    def _staying(self) -> list[Member]:
        return [member for party in self._parties for member in party.staying]

    def _await(self, condition: Any, what: str) -> None:
        until(condition, what, self._staying)

    def _all_read_on(self, when: str) -> None:
        """Everybody has got something that was written from now on."""
        mark = self._writer.written
        self._await(lambda: all(one.newest >= mark for one in self._staying), f"everybody reads {when}")
