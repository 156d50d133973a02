"""This room measures what three replicas cost: topics that are made, and requests that all of them must hold.

Three brokers of Muster, then three of Apache Kafka. Prebuilt batches with acks=all to partitions that one
broker leads, from `frame_load.c`: as fast as it answers, and a thousand a second when all of before is on
the disk. A topic counts from the request to its answer; each cluster has made and deleted some first.
"""

import contextlib
import os
import signal
import statistics
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from confluent_kafka import Producer
from confluent_kafka.cimpl import NewTopic

from tests.benchmarks.frame_load import FrameLoad, Window
from tests.benchmarks.group_doors import warm_up
from tests.benchmarks.raw_produce import produce
from tests.benchmarks.trios import Trio, trios, wait_until
from tests.unit.kafkawire.made_batches import made_batch

PARTITIONS, IN_FLIGHT = 8, 2
CONNECTIONS: Final = 16
KINDS: Final = ((1024, 240), (1024, 15), (100, 1))
"""Bytes of a record, records of a request.

Of 240 x 1 KiB a virtual machine may be what is measured: a page that its host has to find first costs some
ten times the copy, three replicas take 180 of them for a request, and whoever comes second may be given those
that the first one left. With Kafka in front both did 480 requests a second, the kernel's share 2.0 to 2.9 ms
of each in either; behind Muster Kafka did 1,000 to 1,270 with 0.6 to 0.7 ms.
"""

WINDOW_S, ROUNDS = 3.0, 3
AGREEMENTS, WARM_WINDOWS_MAX = 3, 20
"""Three JVMs on two cores warm for most of a minute, and two windows agree by chance: of 100 bytes Kafka did
1,335, 1,357 and 1,471 requests a second in its first windows, and 8,500 to 9,600 from the twelfth on."""

STEADY_RATE, STEADY_S = 1_000, 10.0
TOPIC_PARTITIONS: Final = int(os.environ.get("TOPIC_PARTITIONS", "3000"))
TOPICS: Final = 4
"""Of which the last three count: whoever makes the first one loads, prepares and compiles."""

PATIENCE_S: Final = 120.0


@dataclass
class Found:
    """What came of one cluster."""

    name: str
    windows: dict[tuple[int, int], list[Window]] = field(default_factory=dict)
    steady: Window | None = None
    created_s: float = 0.0
    deleted_s: float = 0.0

    def rate(self, kind: tuple[int, int]) -> float:
        """Requests a second."""
        return statistics.median(one.rate for one in self.windows[kind])


def measure(home: Path, trio: Trio) -> Found:
    """Everything at one cluster."""
    found = Found(trio.name)
    for size, count in KINDS:
        topic = f"raw-{size}-{count}"
        trio.new_topic(topic, (1, 2, 3), PARTITIONS)
        begin(trio, topic)
        records = bytes(made_batch([bytes(size)] * count, timestamp_ms=int(time.time() * 1000)))
        asked = [produce(topic, number % PARTITIONS, records, acks=-1) for number in range(CONNECTIONS)]
        with FrameLoad(home, "127.0.0.1", trio.ports[1], asked) as load:
            warm_up(load, IN_FLIGHT, WINDOW_S, AGREEMENTS, WARM_WINDOWS_MAX)
            found.windows[size, count] = [load.window(WINDOW_S, IN_FLIGHT) for _ in range(ROUNDS)]
            if (size, count) == KINDS[-1]:
                # Else a disk that still writes gigabytes of the kinds before would be what is measured.
                os.sync()
                load.begin(STEADY_S, IN_FLIGHT, rate=STEADY_RATE)
                found.steady = load.end()
        # Three replicas of a minute's windows are tens of gigabytes, and a full disk refuses the next kind.
        admin = trio.admin()
        admin.delete_topics([topic], request_timeout=60)[topic].result(90)
        os.sync()
    # Last: Kafka is busy for a while with what it has deleted.
    found.created_s, found.deleted_s = topics(trio)
    return found


def begin(trio: Trio, topic: str) -> None:
    """Write to each partition once: the generator does not forgive a leader that has not heard of it yet."""
    failures: list[object] = []

    def delivered(error: object, _message: object) -> None:
        if error is not None:
            failures.append(error)

    producer = Producer({"bootstrap.servers": trio.bootstrap, "acks": "all", "log_level": 0})
    for number in range(PARTITIONS):
        producer.produce(topic, b"first", partition=number, on_delivery=delivered)
    assert producer.flush(PATIENCE_S) == 0
    assert not failures, failures
    wait_until(lambda: trio.everybody_in_sync(topic), "in sync", PATIENCE_S)


def topics(trio: Trio) -> tuple[float, float]:
    """Seconds in which a topic of three replicas is created and deleted: the middle ones."""
    admin, created, deleted = trio.admin(), [], []
    for number in range(TOPICS):
        name = f"orders-{number}"
        made = NewTopic(name, num_partitions=TOPIC_PARTITIONS, replication_factor=3)
        begun = time.perf_counter()
        admin.create_topics([made], request_timeout=60)[name].result(90)
        created.append(time.perf_counter() - begun)
        wait_until(lambda one=name: trio.everybody_in_sync(one), "in sync", PATIENCE_S)  # type: ignore[misc]
        begun = time.perf_counter()
        admin.delete_topics([name], request_timeout=60)[name].result(90)
        deleted.append(time.perf_counter() - begun)
    return statistics.median(created[1:]), statistics.median(deleted[1:])


def run(home: Path) -> list[str]:
    """The table's lines."""
    with contextlib.closing(trios(home, "acknowledged-by-all")) as both:
        found = [measure(home, trio) for trio in both]
    lines = [f"three replicas, acks=all, {CONNECTIONS} connections x {IN_FLIGHT}"]
    lines.append(
        f"{'request':<14}{'brokers':<14}{'per s':>9}{'MB/s':>8}{'x Kafka':>9}{'p50 ms':>8}{'p99 ms':>8}"
    )
    for kind in KINDS:
        size, count = kind
        for one in found:
            windows = one.windows[kind]
            ratio = one.rate(kind) / found[-1].rate(kind) if len(found) > 1 else float("nan")
            lines.append(
                f"{f'{count} x {size}':<14}{one.name:<14}{one.rate(kind):>9,.0f}"
                f"{one.rate(kind) * size * count / 1e6:>8.1f}{ratio:>9.2f}"
                f"{statistics.median(w.p50_ms for w in windows):>8.2f}"
                f"{statistics.median(w.p99_ms for w in windows):>8.2f}"
            )
    for one in found:
        if one.steady is not None:
            lines.append(
                f"{f'{STEADY_RATE} a second':<14}{one.name:<14}{one.steady.rate:>9,.0f}{'':>17}"
                f"{one.steady.p50_ms:>8.2f}{one.steady.p99_ms:>8.2f}"
            )
    lines += [
        f"{one.name}: topic of {TOPIC_PARTITIONS:,} x 3"
        f" created {one.created_s:.2f} s, deleted {one.deleted_s:.2f} s"
        for one in found
    ]
    return lines


def main() -> None:
    """`python -m tests.benchmarks.acknowledged_by_all`"""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    print("\n".join(run(Path(os.environ.get("MUSTER_HOME", ".muster")))))


if __name__ == "__main__":
    main()
