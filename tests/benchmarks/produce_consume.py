"""This room measures produce and consume with librdkafka: this broker beside Apache Kafka, in the same run.

One topic, one partition, one replica, 1 KiB records that do not compress. The runs of the two brokers
alternate, so that a noisy machine is noisy for both; the figures are medians.
"""

import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.benchmarks.free_ports import free_port

TOPIC = "orders"
RECORD_BYTES = 1024
POM = Path(__file__).parent / "kafka" / "pom.xml"
START_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class Sample:
    """One run of one kind of work against one broker."""

    megabytes_per_s: float
    cpu_s_per_gb: float
    resident_mb: float


class Contestant(ABC):
    """A broker process that is measured."""

    name: str

    def __init__(self, process: subprocess.Popen[str], bootstrap: str) -> None:
        self.process = psutil.Process(process.pid)
        self.bootstrap = bootstrap
        self._started = process

    @abstractmethod
    def new_topic(self, name: str, partitions: int = 1) -> None:
        """Make a topic of one replica."""

    def cpu_s(self) -> float:
        """CPU seconds that the broker has used."""
        times = self.process.cpu_times()
        return float(times.user + times.system)

    def resident_mb(self) -> float:
        """Resident memory in MB."""
        return float(self.process.memory_info().rss) / 1e6

    def line(self) -> str:
        """What the process says next on standard output."""
        assert self._started.stdout is not None
        return self._started.stdout.readline()

    def stop(self) -> None:
        """End the process."""
        self._started.terminate()
        try:
            self._started.wait(20)
        except subprocess.TimeoutExpired:
            self._started.kill()
            self._started.wait(20)
        if self._started.stdout is not None:
            self._started.stdout.close()

    def _create(self, name: str, partitions: int) -> None:
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        admin.create_topics([NewTopic(name, partitions, 1)], request_timeout=20)[name].result(30)


class Muster(Contestant):
    """This code; `runs` says whether as compiled modules."""

    name = "Muster"
    runs = ""

    def new_topic(self, name: str, partitions: int = 1) -> None:
        self._create(name, partitions)


class ApacheKafka(Contestant):
    """Apache Kafka 4.3.0, KRaft in combined mode, 1 GiB of heap, its own defaults."""

    name = "Kafka 4.3.0"

    def new_topic(self, name: str, partitions: int = 1) -> None:
        self._create(name, partitions)


@contextmanager
def muster(folder: Path) -> Iterator[Muster]:
    """A running data plane with its logs in `folder`."""
    command = [sys.executable, "-m", "tests.benchmarks.lone_broker", str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    _, port, runs = process.stdout.readline().split(maxsplit=2)
    contestant = Muster(process, f"127.0.0.1:{port}")
    contestant.runs = runs.strip()
    try:
        yield contestant
    finally:
        contestant.stop()


@contextmanager
def apache_kafka(
    folder: Path, libraries: Path, properties: Mapping[str, str] | None = None
) -> Iterator[Contestant]:
    """A running Apache Kafka with its logs in `folder`, with `properties` beside its own defaults."""
    port, controller_port = free_port(), free_port()
    path = folder / "server.properties"
    more = {"group.initial.rebalance.delay.ms": "0", **(properties or {})}
    path.write_text(
        "process.roles=broker,controller\nnode.id=1\n"
        f"controller.quorum.voters=1@127.0.0.1:{controller_port}\n"
        f"listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}\n"
        f"advertised.listeners=PLAINTEXT://127.0.0.1:{port}\n"
        "controller.listener.names=CONTROLLER\ninter.broker.listener.name=PLAINTEXT\n"
        f"log.dirs={folder / 'logs'}\n"
        "offsets.topic.replication.factor=1\n" + "".join(f"{key}={value}\n" for key, value in more.items()),
        encoding="utf-8",
    )
    java = ["java", "-Xms1g", "-Xmx1g", "-cp", f"{libraries}/*"]
    identity = ["-t", "4L6g3nShT-eMCtK--X86sw"]
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    format_command = [*java, "kafka.tools.StorageTool", "format", *identity, "-c", str(path)]
    subprocess.run(format_command, check=True, **quiet)
    process = subprocess.Popen([*java, "kafka.Kafka", str(path)], text=True, **quiet)
    contestant = ApacheKafka(process, f"127.0.0.1:{port}")
    try:
        _wait_until_it_answers(contestant)
        yield contestant
    finally:
        contestant.stop()


def _wait_until_it_answers(contestant: Contestant) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while True:
        try:
            AdminClient({"bootstrap.servers": contestant.bootstrap, "log_level": 0}).list_topics(timeout=2)
            return
        except Exception:
            if time.monotonic() > deadline:
                raise


def kafka_libraries(home: Path) -> Path | None:
    """Where Maven has put Kafka's jars; None, with a line that says why, if it could not, or should not."""
    if os.environ.get("WITHOUT_KAFKA"):
        print("Apache Kafka is left out, as WITHOUT_KAFKA asks.")
        return None
    folder = home / "benchmarks" / "kafka-4.3.0"
    if any(folder.glob("kafka_2.13-*.jar")):
        return folder
    if shutil.which("mvn") is None or shutil.which("java") is None:
        print("Apache Kafka is left out: install Java 17 and Maven to measure it beside this code.")
        return None
    copy = ["dependency:copy-dependencies", f"-DoutputDirectory={folder.resolve()}", "-DincludeScope=runtime"]
    done = subprocess.run(["mvn", "-q", "-B", "-f", str(POM), *copy], check=False)
    return folder if done.returncode == 0 else None


def produce(contestant: Contestant, topic: str, megabytes: int) -> Sample:
    """Write `megabytes` as fast as librdkafka can; every record must be acknowledged without error."""
    failures: list[str] = []

    def delivered(error: Any, _message: Any) -> None:
        if error is not None:
            failures.append(str(error))

    producer = Producer(
        {
            "bootstrap.servers": contestant.bootstrap,
            "acks": "all",
            "enable.idempotence": True,
            "linger.ms": 5,
            "batch.size": 1_000_000,
            "queue.buffering.max.messages": 200_000,
            "queue.buffering.max.kbytes": 262_144,
            "on_delivery": delivered,
        }
    )
    record, count = os.urandom(RECORD_BYTES), megabytes * 1024
    cpu, begun = contestant.cpu_s(), time.perf_counter()
    for number in range(count):
        while True:
            try:
                producer.produce(topic, record, partition=0)
                break
            except BufferError:
                producer.poll(0.01)
        if number % 1_000 == 0:
            producer.poll(0)
    left = producer.flush(120)
    took = time.perf_counter() - begun
    if failures or left:
        raise RuntimeError(f"{contestant.name}: {len(failures)} failed, {left} not answered: {failures[:1]}")
    return _sample(contestant, megabytes, took, cpu)


def consume(contestant: Contestant, topic: str, megabytes: int) -> Sample:
    """Read all that `produce` wrote, from the beginning."""
    consumer = Consumer(
        {
            "bootstrap.servers": contestant.bootstrap,
            "group.id": "benchmark",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "queued.max.messages.kbytes": 131_072,
            "queued.min.messages": 100_000,
            "check.crcs": False,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    wanted, seen = megabytes * 1024, 0
    cpu, begun = contestant.cpu_s(), time.perf_counter()
    while seen < wanted:
        messages = consumer.consume(min(10_000, wanted - seen), 30.0)
        errors = [message.error() for message in messages if message.error() is not None]
        if errors or not messages:
            raise RuntimeError(f"{contestant.name}: {seen} of {wanted} records, {errors[:1]}")
        seen += len(messages)
    took = time.perf_counter() - begun
    consumer.close()
    return _sample(contestant, megabytes, took, cpu)


def _sample(contestant: Contestant, megabytes: int, took_s: float, cpu_before_s: float) -> Sample:
    cpu = (contestant.cpu_s() - cpu_before_s) / (megabytes / 1024)
    return Sample(megabytes / took_s, cpu, contestant.resident_mb())


def run(home: Path, megabytes: int = 256, rounds: int = 3) -> list[str]:
    """The table's lines. Makes and removes a folder for the logs under `home`."""
    libraries = kafka_libraries(home)
    home.mkdir(parents=True, exist_ok=True)
    samples: dict[tuple[str, str], list[Sample]] = {}
    folder = Path(tempfile.mkdtemp(prefix="produce-consume-", dir=home)).resolve()
    try:
        for name in ("muster", "kafka"):
            (folder / name).mkdir()
        with muster(folder / "muster") as ours:
            if libraries is None:
                _rounds([ours], samples, megabytes, rounds)
            else:
                with apache_kafka(folder / "kafka", libraries) as theirs:
                    _rounds([ours, theirs], samples, megabytes, rounds)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return _table(samples, megabytes, rounds)


def _rounds(
    contestants: list[Contestant],
    samples: dict[tuple[str, str], list[Sample]],
    megabytes: int,
    rounds: int,
) -> None:
    """One round first that does not count: the JVM compiles, librdkafka loads."""
    for round_number in range(rounds + 1):
        for contestant in contestants:
            topic = f"{TOPIC}-{uuid.uuid4().hex[:8]}"
            contestant.new_topic(topic)
            written = produce(contestant, topic, megabytes)
            read = consume(contestant, topic, megabytes)
            if round_number:
                samples.setdefault(("produce", contestant.name), []).append(written)
                samples.setdefault(("consume", contestant.name), []).append(read)


def _table(samples: dict[tuple[str, str], list[Sample]], megabytes: int, rounds: int) -> list[str]:
    lines = [
        f"produce and consume, librdkafka, 1 KiB records, one replica, idempotent, acks=all, "
        f"{megabytes} MB, medians of {rounds}",
        f"{'work':<10}{'broker':<14}{'MB/s':>8}{'x Kafka':>9}{'CPU s/GB':>10}{'memory MB':>11}",
    ]
    for (work, name), taken in sorted(samples.items()):
        rate = statistics.median(sample.megabytes_per_s for sample in taken)
        beside = samples.get((work, ApacheKafka.name))
        ratio = rate / statistics.median(s.megabytes_per_s for s in beside) if beside else float("nan")
        cpu = statistics.median(sample.cpu_s_per_gb for sample in taken)
        memory = max(sample.resident_mb for sample in taken)
        lines.append(f"{work:<10}{name:<14}{rate:>8.0f}{ratio:>9.2f}{cpu:>10.2f}{memory:>11.0f}")
    return lines


def main() -> None:
    """`python -m tests.benchmarks.produce_consume [MEGABYTES] [ROUNDS]`"""
    home = Path(os.environ.get("MUSTER_HOME", ".muster"))
    # So that an interrupted run still stops its brokers and removes its logs.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    print("\n".join(run(home, *map(int, sys.argv[1:3]))))


if __name__ == "__main__":
    main()
