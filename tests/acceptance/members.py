"""This room runs members of groups: each a program of its own, by one client, which tells what it does.

A line is `assigned 0 1 2`, what it has from now on, or `PARTITION OFFSET KEY VALUE`; Kafka's own
VerifiableConsumer says the same in JSON.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from standalone.processes import ROOT

PROGRAMS: Final = Path(__file__).with_name("clients")
BUILT: Final = ROOT / "build" / "clients"
PATIENCE_S: Final = 120.0


class Seat(NamedTuple):
    """Where a member belongs; `stack` is what stack.json says."""

    stack: Mapping[str, Any]
    group: str
    topic: str
    name: str
    session_ms: int

    @property
    def bootstrap(self) -> str:
        """A list with commas, as `make up` prints it for whoever has several brokers."""
        return ",".join([self.stack["bootstrap"]] * 2)


Command = Callable[[Seat], list[str]]


def _places(seat: Seat) -> list[str]:
    return [seat.group, seat.topic, str(seat.session_ms)]


def _librdkafka(seat: Seat, strategy: str = "range,roundrobin", static: bool = False) -> list[str]:
    settings = {
        "session.timeout.ms": seat.session_ms,
        "heartbeat.interval.ms": 500,
        "partition.assignment.strategy": strategy,
    }
    if static:
        # She takes the place of the one who left.
        settings["group.instance.id"] = {"dora": "cleo"}.get(seat.name, seat.name)
    words = [f"{key}={value}" for key, value in settings.items()]
    program = PROGRAMS / "python" / "consumer.py"
    return [sys.executable, str(program), seat.bootstrap, seat.group, seat.topic, *words]


def _python(program: str, seat: Seat) -> list[str]:
    return [sys.executable, str(PROGRAMS / "python" / program), seat.bootstrap, *_places(seat)]


def _websocket(program: str, seat: Seat) -> list[str]:
    nodes = ",".join(seat.stack["nodes"])
    return [sys.executable, str(PROGRAMS / "python" / program), nodes, *_places(seat)]


def java() -> list[str]:
    """The command that runs a class of Kafka's, or of ours."""
    classpath = (BUILT / "java" / "classpath").read_text(encoding="utf-8").strip()
    jvm = ["java", "-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto"]
    return [*jvm, "-cp", f"{BUILT / 'java'}:{classpath}"]


def _java(seat: Seat) -> list[str]:
    """Kafka's own VerifiableConsumer, and beside it programs as people write them."""
    if seat.name == "ann":
        return _verifiable(seat)
    settings = {"session.timeout.ms": seat.session_ms, "heartbeat.interval.ms": 500}
    words = [f"{key}={value}" for key, value in settings.items()]
    return [*java(), "KafkaReader", seat.bootstrap, seat.group, seat.topic, *words]


def _verifiable(seat: Seat) -> list[str]:
    options = {
        "bootstrap-server": seat.bootstrap,
        "group-id": seat.group,
        "topic": seat.topic,
        "session-timeout": seat.session_ms,
        "reset-policy": "earliest",
    }
    words = [word for key, value in options.items() for word in (f"--{key}", str(value))]
    return [*java(), "org.apache.kafka.tools.VerifiableConsumer", *words, "--verbose"]


def _go(program: str, seat: Seat) -> list[str]:
    return [str(BUILT / "go" / program), seat.bootstrap, *_places(seat)]


def _node(seat: Seat) -> list[str]:
    return ["node", str(BUILT / "node" / "consumer.mjs"), seat.bootstrap, *_places(seat)]


def _spark(seat: Seat) -> list[str]:
    program = PROGRAMS / "python" / "by_spark.py"
    return [sys.executable, str(program), seat.bootstrap, seat.group, seat.topic, f"checkpoints-{seat.name}"]


CLIENTS: Final[dict[str, Command]] = {
    "librdkafka-range": partial(_librdkafka, strategy="range"),
    "librdkafka-roundrobin": partial(_librdkafka, strategy="roundrobin"),
    "librdkafka-cooperative": partial(_librdkafka, strategy="cooperative-sticky"),
    "librdkafka-static": partial(_librdkafka, static=True),
    "kafka-python": partial(_python, "by_kafka_python.py"),
    "aiokafka": partial(_python, "by_aiokafka.py"),
    "sdk": partial(_websocket, "by_sdk.py"),
    "document": partial(_websocket, "by_document.py"),
    "java": _java,
    "franz": partial(_go, "franz"),
    "sarama": partial(_go, "sarama"),
    "kafkajs": _node,
    "spark": _spark,
}
ALONE: Final = {"spark"}
"""They assign partitions by themselves, and commit nothing."""

ELSEWHERE: Final = {"librdkafka-range", "librdkafka-roundrobin", "sdk", "document", "spark"}
"""They take long, or cheaper tests hold them to most of it: only the whole form runs them."""

COME_BACK: Final = {"sarama", "kafkajs"}
"""They join again by themselves when their coordinator is away for longer than they wait for it."""

_BUILT_IN: Final = {"java": "java", "franz": "go", "sarama": "go", "kafkajs": "node"}


def missing(client: str) -> str:
    """Why this client cannot be run here; empty if it can."""
    if client == "spark":
        jars = any((ROOT / "pipeline" / "jars").glob("*.jar"))
        return "" if shutil.which("java") and jars else "Spark needs Java 17, and `make jars`"
    language = _BUILT_IN.get(client)
    if language is None:
        return ""
    tool = {"java": "java", "go": "go", "node": "node"}[language]
    stamp = BUILT / language / ".built"
    if shutil.which(tool) is None or not stamp.exists():
        return f"no Kafka client in {language} was built: `make clients` needs {tool} and the network, once"
    newest = max(one.stat().st_mtime for one in (PROGRAMS / language).rglob("*"))
    return "" if newest <= stamp.stat().st_mtime else f"{language}'s clients are older: run `make clients`"


class Read(NamedTuple):
    """One record, as a member got it."""

    partition: int
    offset: int
    value: int


class Member:
    """One member's process, and what it told so far: it is listened to by `hear`."""

    def __init__(self, command: list[str], folder: Path, seat: Seat) -> None:
        self.name = f"{seat.group}-{seat.name}"
        self.read: list[Read] = []
        self.assigned: frozenset[int] = frozenset()
        self.turns = 0
        """How often it was told what it has."""
        self.disorder: list[str] = []
        self._at: dict[int, int] = {}
        self._told = folder / f"{self.name}.out"
        self._grumble = folder / f"{self.name}.err"
        self._heard = 0
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
        environment["TOKEN"] = str(seat.stack["consumer_token"])
        with self._told.open("wb") as told, self._grumble.open("wb") as grumble:
            self.process = subprocess.Popen(
                command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=told, stderr=grumble
            )

    def hear(self) -> None:
        """Learn what it told since; a member that ended by itself fails."""
        with self._told.open("rb") as told:
            told.seek(self._heard)
            whole, end, _ = told.read().rpartition(b"\n")
        self._heard += len(whole) + len(end)
        for line in whole.decode().splitlines():
            if line.startswith("{"):
                self._fact(json.loads(line))
            else:
                self._line(line)

    def _line(self, line: str) -> None:
        first, *more = line.split()
        if first == "assigned":
            self._owns(int(number) for number in more)
        else:
            self._got(Read(int(first), int(more[0]), int(more[2])))

    def _fact(self, fact: dict[str, Any]) -> None:
        """What VerifiableConsumer says."""
        match fact["name"]:
            case "partitions_assigned":
                self._owns(one["partition"] for one in fact["partitions"])
            case "partitions_revoked":
                self._owns(())
            case "record_data":
                self._got(Read(fact["partition"], fact["offset"], int(fact["value"])))
            case "offsets_committed" if not fact["success"]:
                self.disorder.append(f"a commit failed: {fact}")

    def _owns(self, numbers: Iterable[int]) -> None:
        self.assigned = frozenset(numbers)
        self.turns += 1
        # Only now it may go back, to what is committed.
        self._at.clear()

    @property
    def newest(self) -> int:
        """The largest value it has read."""
        return max((one.value for one in reversed(self.read)), default=-1)

    def _got(self, one: Read) -> None:
        if one.offset <= self._at.get(one.partition, -1):
            self.disorder.append(f"{one} came behind {self._at[one.partition]}")
        self._at[one.partition] = one.offset
        self.read.append(one)

    def check(self) -> None:
        """It goes on, and nothing was out of order."""
        assert self.disorder == [], self.name
        assert self.process.poll() is None, f"{self.name} ended: {self.grumble()[-2000:]}"

    def grumble(self) -> str:
        """What it printed as its errors."""
        return self._grumble.read_text(encoding="utf-8", errors="replace")

    def ask_to_leave(self) -> None:
        """SIGTERM: commit, leave, end."""
        self.process.send_signal(signal.SIGTERM)

    def wait_gone(self) -> None:
        """It has ended as it should. What was started last is heard, too."""
        status = self.process.wait(PATIENCE_S)
        self.hear()
        # A JVM tells the signal by which it was ended, though it ended in order.
        assert status in (0, 128 + signal.SIGTERM), f"{self.name} ended by {status}: {self.grumble()[-2000:]}"
        assert self.disorder == [], self.name

    def kill(self) -> None:
        """kill -9; may be called twice."""
        self.process.kill()
        self.process.wait()
        self.hear()


def comes_true(condition: Callable[[], object], within_s: float) -> bool:
    """Whether `condition` holds within this time, where something else is done if it does not."""
    give_up_at = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > give_up_at:
            return False
        time.sleep(0.05)
    return True


def until(condition: Callable[[], object], what: str, members: Iterable[Member] = ()) -> None:
    """Wait for `condition`; a member that failed is told at once."""
    heard = list(members)
    give_up_at = time.monotonic() + PATIENCE_S
    while True:
        for member in heard:
            member.hear()
            member.check()
        if condition():
            return
        state = [(one.name, sorted(one.assigned), len(one.read), one.turns) for one in heard]
        assert time.monotonic() < give_up_at, f"not within {PATIENCE_S} s: {what}: {state}"
        time.sleep(0.05)
