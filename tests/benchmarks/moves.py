"""This room measures moves beside a producer: how fast they copy, what its acknowledgements then take.

Partitions of a topic go from broker 2 to broker 3 with no throttle, and back with one, while librdkafka
writes to another topic with acks=all, two replicas each. MOVES_MB, MOVES_PARTITIONS, MOVES_THROTTLE_MB and
MOVES_PRODUCED_MB (a second) make it smaller. Apache Kafka is not beside it: three of its brokers do not fit
on two cores.
"""

import os
import statistics
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
from confluent_kafka import Producer
from confluent_kafka.cimpl import NewTopic

from tests.benchmarks.planes import cpu_seconds
from tests.benchmarks.whole_cluster import bench_cluster
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
    with bench_cluster(home, "moves", nodes=1) as cluster, doors(cluster) as web:
        admin = cluster.admin()
        for name, count in (("orders", PARTITIONS), ("clicks", 6)):
            made = NewTopic(
                name,
                num_partitions=count,
                replica_assignment=[[1, 2]] * count,
                config={"retention.bytes": "-1"},
            )
            admin.create_topics([made])[name].result(60)
        held = fill(cluster)
        writing = Writing(cluster.bootstrap)
        try:
            time.sleep(ALONE_S)
            lines = [f"{'the producer alone':<34}{writing.since(0)}"]
            lines.append(moved(cluster, web, writing, held, (1, 3), 0))
            lines.append(moved(cluster, web, writing, held, (1, 2), THROTTLE_MB * MEGABYTE))
        finally:
            writing.end()
        lines.append(f"records of the producer that failed: {writing.failed}")
    return lines


def fill(cluster: Cluster) -> int:
    """Write what is to be moved; the bytes of it."""
    settings = {"bootstrap.servers": cluster.bootstrap, "acks": 1, "linger.ms": 50, "log_level": 0}
    producer = Producer(settings)
    for number in range(MEGABYTES * MEGABYTE // len(RECORD)):
        while True:
            try:
                producer.produce("orders", RECORD, partition=number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(600) == 0
    cluster.await_true(lambda: cluster.everybody_in_sync("orders"), "the followers have it", PATIENCE_S)
    return MEGABYTES * MEGABYTE


def moved(cluster: Cluster, web: str, writing: Writing, held: int, to: tuple[int, ...], throttle: int) -> str:
    """One move of everything: its rate, the processor of each broker, the producer meanwhile."""
    pids = {broker_id: process.popen.pid for broker_id, process in cluster.brokers.items()}
    used = {broker_id: cpu_seconds(pid) for broker_id, pid in pids.items()}
    first, begun = len(writing.took_s), time.monotonic()
    targets = [
        {"topic": "orders", "partition": number, "replicas": to, "version": None}
        for number in range(PARTITIONS)
    ]
    ask(cluster, web, {"partitions": targets, "throttle": throttle, "reason": "a benchmark"})
    under_way = "SELECT count(*) FROM reassignment WHERE phase IN ('Init', 'InProgress')"
    cluster.await_true(lambda: cluster.query(under_way) == [(0,)], "all is moved", PATIENCE_S)
    took_s = time.monotonic() - begun
    rate = held / took_s / MEGABYTE
    what = f"moved at {throttle // MEGABYTE} MB/s at most" if throttle else "moved with no throttle"
    deviates = f" ({100 * rate * MEGABYTE / throttle - 100:+.0f} %)" if throttle else ""
    cpu = "  ".join(f"{b}: {cpu_seconds(pid) - used[b]:.1f}" for b, pid in pids.items())
    pace = f"{rate:>7.1f} MB/s{deviates}, {took_s:.1f} s"
    return f"{what:<34}{writing.since(first)}  {pace}; CPU s of brokers {cpu}"


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
