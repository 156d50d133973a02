"""This room opens the Kafka doors at which groups are measured: a node's, and Apache Kafka's beside it."""

import contextlib
import shutil
import statistics
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from standalone.children import free_ports
from tests.benchmarks.frame_load import FrameLoad, Question, Window, probe
from tests.benchmarks.idle import proportional_bytes
from tests.benchmarks.planes import bench_plane, cpu_seconds
from tests.benchmarks.produce_consume import apache_kafka, kafka_libraries
from tests.integration.coordinator.control_plane import ControlPlane

INITIAL_DELAY_MS = "500"
"""At both doors: the members that a benchmark begins with come in this time, or prolong it."""

CONNECTIONS = "9000"
AGREE = 0.1
WARM_WINDOWS_MAX = 12
WINDOW_S, ROUNDS = 3.0, 3
PROBES_PER_S = 200


class Measured(Protocol):
    """A process that answers at a Kafka door."""

    @property
    def name(self) -> str: ...

    @property
    def address(self) -> tuple[str, int]: ...

    @property
    def is_kafka(self) -> bool:
        """Whether it is what we compare with."""

    def cpu_s(self) -> float:
        """CPU seconds of the process so far."""

    def memory_mb(self) -> float:
        """Its memory."""

    def late_lines(self) -> int:
        """How often its log says that the loop was late."""


@dataclass
class GroupDoor:
    """A process with a Kafka door that coordinates groups."""

    name: str
    address: tuple[str, int]
    pid: int
    add_topic: Callable[[str, int], None]
    plane: ControlPlane | None = None

    @property
    def is_kafka(self) -> bool:
        """Whether it is what we compare with."""
        return self.plane is None

    def cpu_s(self) -> float:
        """CPU seconds of the process so far; Muster's without its database's."""
        return cpu_seconds(self.pid)

    def memory_mb(self) -> float:
        """Its proportional share of memory."""
        return proportional_bytes(self.pid) / 1e6

    def late_lines(self) -> int:
        """How often its log says that the loop was late."""
        if self.plane is None:
            return 0
        return sum(node.log.read_bytes().count(b"loop was late") for node in self.plane.nodes.values())


@contextmanager
def group_doors(home: Path, name: str) -> Iterator[list[GroupDoor]]:
    """Muster with a topic's rows instead of brokers, and Kafka if it can be run; both run all the time."""
    libraries = kafka_libraries(home)
    with contextlib.ExitStack() as stack:
        doors = [stack.enter_context(node_door(home, name))]
        if libraries is not None:
            doors.append(stack.enter_context(_kafka(home, name, libraries)))
        yield doors


@contextmanager
def node_door(home: Path, name: str, **more: str) -> Iterator[GroupDoor]:
    """A node, with topics' rows instead of brokers; `more` are settings."""
    (port,) = free_ports(1)
    settings = {
        # All members of a benchmark connect before the first one registers.
        "MUSTER_CONSUMER_DOOR_REGISTRATION_TIMEOUT_MS": "300000",
        **more,
        "MUSTER_NODE_KAFKA_LISTEN": f"127.0.0.1:{port}",
        "MUSTER_NODE_KAFKA_CONNECTIONS": CONNECTIONS,
        "MUSTER_GROUP_INITIAL_REBALANCE_DELAY_MS": INITIAL_DELAY_MS,
    }
    with bench_plane(home, name, ControlPlane, **settings) as plane:

        def add_topic(topic: str, partitions: int) -> None:
            plane.add_topic(topic, partitions)

        yield GroupDoor("Muster", ("127.0.0.1", port), plane.nodes["node-1"].popen.pid, add_topic, plane)


@contextmanager
def _kafka(home: Path, name: str, libraries: Path) -> Iterator[GroupDoor]:
    folder = Path(tempfile.mkdtemp(prefix=f"{name}-kafka-", dir=home)).resolve()
    properties = {"group.initial.rebalance.delay.ms": INITIAL_DELAY_MS}
    try:
        with apache_kafka(folder, libraries, properties) as kafka:
            host, _, port = kafka.bootstrap.rpartition(":")

            def add_topic(topic: str, partitions: int) -> None:
                admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
                admin.create_topics([NewTopic(topic, partitions, 1)], request_timeout=60)[topic].result(60)

            yield GroupDoor(kafka.name, (host, int(port)), kafka.process.pid, add_topic)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@dataclass
class Loaded:
    """What came of one kind of load at one door: windows, CPU for each answer, how late the door was."""

    door: Measured
    windows: list[Window] = field(default_factory=list)
    cpu_us: list[float] = field(default_factory=list)
    probed_ms: list[float] = field(default_factory=list)
    late_lines: int = 0

    @property
    def rate(self) -> float:
        """Answers a second."""
        return self.median(lambda window: window.rate)

    def median(self, of: Callable[[Window], float]) -> float:
        """The median of the windows."""
        return statistics.median(map(of, self.windows))

    def columns(self, beside: "Loaded") -> str:
        """What stands under HEAD; `beside` is the last door's, Kafka's if it runs."""
        ratio = self.rate / beside.rate if beside.door.is_kafka else float("nan")
        return (
            f"{self.door.name:<12}{self.rate:>9,.0f}{ratio:>9.2f}"
            f"{self.median(lambda w: w.p50_ms):>8.2f}{self.median(lambda w: w.p99_ms):>8.2f}"
            f"{statistics.median(self.cpu_us):>9.1f}{self.median(lambda w: w.cpu_s / w.answers * 1e6):>15.1f}"
            f"{self.median(lambda w: w.generator_core):>10.2f}{self.door.memory_mb():>6.0f}"
            f"{max(self.probed_ms):>13.1f}{self.late_lines:>6}"
        )


HEAD: Final = (
    f"{'door':<12}{'per s':>9}{'x Kafka':>9}{'p50 ms':>8}{'p99 ms':>8}{'its CPU':>9}{'generator CPU':>15}"
    f"{'its core':>10}{'MB':>6}{'probe p99.9':>13}{'late':>6}"
)
"""CPU is in microseconds for each answer. A probe asks for ApiVersions: so late was the loop, in ms.
`late`: how often the node's log says so."""


def closed_loops(
    home: Path,
    doors: Sequence[Measured],
    asked: Sequence[Sequence[Question]],
    in_flight: int,
    window_s: float = WINDOW_S,
) -> list[Loaded]:
    """Each door is asked as fast as it answers, when it is warm; the doors' rounds alternate."""
    found = [Loaded(door) for door in doors]
    with contextlib.ExitStack() as stack:
        loads = [
            stack.enter_context(FrameLoad(home, *door.address, questions))
            for door, questions in zip(doors, asked, strict=True)
        ]
        probes = [stack.enter_context(probe(home, *door.address)) for door in doors]
        for load in loads:
            warm_up(load, in_flight, window_s / 2)
        for _ in range(ROUNDS):
            for into, load, asking in zip(found, loads, probes, strict=True):
                _measure(into, load, asking, in_flight, window_s)
    return found


def warm_up(
    load: FrameLoad, in_flight: int, seconds: float, agreements: int = 1, most: int = WARM_WINDOWS_MAX
) -> None:
    """Windows until one agrees with that before it, so often in a row: a JVM compiles for a long time."""
    before, agreed = load.window(seconds, in_flight).rate, 0
    for _ in range(most):
        now = load.window(seconds, in_flight).rate
        agreed = agreed + 1 if abs(now - before) <= AGREE * max(now, before) else 0
        if agreed >= agreements:
            return
        before = now


def _measure(into: Loaded, load: FrameLoad, asking: FrameLoad, in_flight: int, seconds: float) -> None:
    cpu, late = into.door.cpu_s(), into.door.late_lines()
    asking.begin(seconds, rate=PROBES_PER_S)
    window = load.window(seconds, in_flight)
    into.cpu_us.append((into.door.cpu_s() - cpu) / max(window.answers, 1) * 1e6)
    into.windows.append(window)
    into.probed_ms.append(asking.end().p999_ms)
    into.late_lines += into.door.late_lines() - late
