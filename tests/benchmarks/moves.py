"""This room measures moves beside a producer: how fast they copy, what its acknowledgements then take.

Partitions of a topic go from broker 2 to broker 3 with no throttle, and back with one, while librdkafka
writes to another topic with acks=all, two replicas each. MOVES_MB, MOVES_PARTITIONS, MOVES_THROTTLE_MB and
MOVES_PRODUCED_MB (a second) make it smaller. Three of Apache Kafka's brokers then do it without throttle.
"""

import contextlib
import os
import statistics
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from confluent_kafka import Producer

from tests.benchmarks.trios import Trio, trios, wait_until
from tests.integration.replication.cluster import Cluster
from tests.tidy.sources import ROOT

MEGABYTE = 1_000_000
MEGABYTES = int(os.environ.get("MOVES_MB", "10000"))
PARTITIONS = int(os.environ.get("MOVES_PARTITIONS", "200"))
THROTTLE_MB = int(os.environ.get("MOVES_THROTTLE_MB", "50"))
PRODUCED_MB = float(os.environ.get("MOVES_PRODUCED_MB", "20"))
RECORD = bytes(10_000)
ALONE_S = 10.0
PATIENCE_S = 3_600.0


class Writing:
    """A producer with acks=all at a steady rate, in a thread, and how long each acknowledgement took."""

    def __init__(self, bootstrap: str) -> None:
        settings = {"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 5, "log_level": 0}
        self._producer = Producer(settings)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="writing")
        self.took_s: list[float] = []
        self.failed = 0
        self._thread.start()

    def _run(self) -> None:
        begun, sent = time.monotonic(), 0
        while not self._over.is_set():
            due = int((time.monotonic() - begun) * PRODUCED_MB * MEGABYTE / len(RECORD))
            for _ in range(sent, due):
                self._producer.produce("clicks", RECORD, on_delivery=self._answered)
            sent = max(sent, due)
            self._producer.poll(0.005)

    def _answered(self, error: Any, message: Any) -> None:
        if error is None:
            self.took_s.append(message.latency())
        else:
            self.failed += 1

    def since(self, first: int) -> str:
        """Of the acknowledgements from this one on."""
        took = sorted(self.took_s[first:]) or [0.0]
        p99 = took[min(len(took) - 1, len(took) * 99 // 100)]
        return f"p50{1000 * statistics.median(took):>8.1f} ms  p99{1000 * p99:>8.1f} ms"

    def end(self) -> None:
        self._over.set()
        self._thread.join()
        self._producer.flush(60)


@contextmanager
def doors(cluster: Cluster) -> Iterator[str]:
    """The address of REST, as an operator uses it."""
    database = {name: cluster.database_url for name in ("DATABASE_URL", "DATABASE_DIRECT_URL")}
    environment = {**os.environ, **database, "MUSTER_WEB_LISTEN": "127.0.0.1:0"}
    command = [sys.executable, "manage.py", "run_web"]
    with (cluster.home / "web.log").open("wb") as log:
        web = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=log, text=True
        )
    try:
        assert web.stdout is not None
        yield web.stdout.readline().split()[-1]
    finally:
        web.terminate()
        web.wait()


def run(home: Path) -> list[str]:
    """The lines of the table."""
    lines: list[str] = []
    rates: list[float] = []
    with contextlib.closing(trios(home, "moves")) as both:
        for trio in both:
            told, rate = measure(trio)
            lines += told
            rates.append(rate)
    if len(rates) > 1:
        lines.append(f"with no throttle: {rates[0] / rates[1]:.2f} x Kafka")
    return lines


def measure(trio: Trio) -> tuple[list[str], float]:
    """The lines of one cluster, and MB/s of the move without a throttle."""
    for name, count in (("orders", PARTITIONS), ("clicks", 6)):
        trio.new_topic(name, (1, 2), count, **{"retention.bytes": "-1"})
    fill(trio)
    writing = Writing(trio.bootstrap)
    try:
        time.sleep(ALONE_S)
        lines = [f"{f'{trio.name}: the producer alone':<42}{writing.since(0)}"]
        move = partial(trio.move, "orders", PARTITIONS, (1, 3))
        line, rate = moved(trio, writing, move)
        lines.append(f"{f'{trio.name}: moved with no throttle':<42}{line}")
        if trio.cluster is not None:
            lines.append(moved_with_throttle(trio, trio.cluster, writing))
    finally:
        writing.end()
    lines.append(f"{trio.name}: records of the producer that failed: {writing.failed}")
    return lines, rate


def fill(trio: Trio) -> None:
    """Write what is to be moved."""
    settings = {"bootstrap.servers": trio.bootstrap, "acks": 1, "linger.ms": 50, "log_level": 0}
    producer = Producer(settings)
    for number in range(MEGABYTES * MEGABYTE // len(RECORD)):
        while True:
            try:
                producer.produce("orders", RECORD, partition=number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(600) == 0
    wait_until(lambda: trio.everybody_in_sync("orders"), "the followers have it", PATIENCE_S)


def moved(trio: Trio, writing: Writing, move: Callable[[], None]) -> tuple[str, float]:
    """One move of everything: its rate, the processor of each broker, the producer meanwhile; and MB/s."""
    used, first, begun = trio.cpu_s(), len(writing.took_s), time.monotonic()
    move()
    wait_until(lambda: not trio.is_moving(), "all is moved", PATIENCE_S)
    took_s = time.monotonic() - begun
    rate = MEGABYTES / took_s
    cpu = "  ".join(f"{b}: {s - used[b]:.1f}" for b, s in trio.cpu_s().items())
    return f"{writing.since(first)}  {rate:>7.1f} MB/s, {took_s:.1f} s; CPU s of brokers {cpu}", rate


def moved_with_throttle(trio: Trio, cluster: Cluster, writing: Writing) -> str:
    """Back, as an operator asks for it over REST."""
    targets = [
        {"topic": "orders", "partition": number, "replicas": (1, 2), "version": None}
        for number in range(PARTITIONS)
    ]
    body = {"partitions": targets, "throttle": THROTTLE_MB * MEGABYTE, "reason": "a benchmark"}
    with doors(cluster) as web:
        line, rate = moved(trio, writing, partial(ask, cluster, web, body))
    deviates = f"{100 * rate / THROTTLE_MB - 100:+.0f} %"
    return f"{f'{trio.name}: moved at {THROTTLE_MB} MB/s at most':<42}{line} ({deviates})"


def ask(cluster: Cluster, web: str, body: dict[str, Any]) -> None:
    """An operator asks for the moves over REST; raises HTTPError if that is refused."""
    headers = {
        "Authorization": f"Bearer {cluster.token('bench', 'operator')}",
        "Content-Type": "application/json",
    }
    data = msgspec.json.encode(body)
    request = urllib.request.Request(f"{web}/api/v1/reassignments", data, headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        told = msgspec.json.decode(answer.read())
        assert answer.status in (200, 202), told
