"""This room measures how long a producer waits for its next acknowledged write when the leader dies or hangs.

Three brokers, every setting as it is delivered; librdkafka, too, but for acks=all; a record every few
milliseconds to one partition. The first that was produced after the signal counts. Of a leader that hangs a
client hears nothing until its own patience ends, a minute by default: there it has one of two seconds.
Between two kills it is left in peace for as long as it remembers a broker that it could not reach
(`reconnect.backoff.max.ms`): no round is to pay for the one before.
"""

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Final

from confluent_kafka import Producer

from tests.benchmarks.whole_cluster import bench_cluster
from tests.integration.replication.cluster import Cluster

ROUNDS: Final = int(os.environ.get("ROUNDS", "10"))
HANGS: Final = 3
EVERY_S: Final = 0.002
FORGETS_S: Final = 10.0
PATIENCE_S: Final = 120.0
TOPIC: Final = "orders"
IMPATIENT: Final = {"request.timeout.ms": 2_000, "socket.timeout.ms": 2_000}


class Writer:
    """A producer in a thread, and when the first record was acknowledged that it produced after a moment."""

    def __init__(self, cluster: Cluster, **configs: int) -> None:
        told = {"bootstrap.servers": cluster.bootstrap, "acks": "all", "log_level": 0, **configs}
        self._producer = Producer(told)
        self._stop = threading.Event()
        self._signalled_at = float("inf")
        self._acknowledged = threading.Event()
        self._acknowledged_at = 0.0
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def next_after(self, signalled: Callable[[], None]) -> float:
        """Seconds from the signal to the next acknowledged write. Raises AssertionError."""
        self._acknowledged.clear()
        self._signalled_at = time.perf_counter()
        signalled()
        assert self._acknowledged.wait(PATIENCE_S), "nothing was acknowledged any more"
        took = self._acknowledged_at - self._signalled_at
        self._signalled_at = float("inf")
        return took

    def finish(self) -> None:
        """Send nothing more."""
        self._stop.set()
        self._thread.join()
        self._producer.flush(PATIENCE_S)

    def _run(self) -> None:
        while not self._stop.wait(EVERY_S):
            produced_at = time.perf_counter()

            def delivered(error: object, _message: object, produced_at: float = produced_at) -> None:
                if error is None and produced_at > self._signalled_at and not self._acknowledged.is_set():
                    self._acknowledged_at = time.perf_counter()
                    self._acknowledged.set()

            self._producer.produce(TOPIC, b"value", partition=0, on_delivery=delivered)
            self._producer.poll(0)


def _rounds(cluster: Cluster, writer: Writer, kind: signal.Signals, count: int) -> list[float]:
    took = []
    for _ in range(count):
        cluster.await_true(lambda: cluster.everybody_in_sync(TOPIC), "everybody is in sync", PATIENCE_S)
        time.sleep(FORGETS_S)
        victim = cluster.leader_of(TOPIC)
        broker = cluster.brokers[victim]
        took.append(writer.next_after(lambda one=broker: one.popen.send_signal(kind)))  # type: ignore[misc]
        if kind is signal.SIGSTOP:
            broker.popen.send_signal(signal.SIGCONT)
        else:
            broker.kill()
            cluster.start_broker(victim)
    return sorted(took)


def run(home: Path) -> list[str]:
    """The table's lines. Makes and removes a folder under `home`."""
    lines = [f"{'the leader dies: to the next acknowledged write':<48}{'best':>8}{'middle':>8}{'worst':>8}"]
    parts: tuple[tuple[str, signal.Signals, int, dict[str, int]], ...] = (
        ("kill -9", signal.SIGKILL, ROUNDS, {}),
        ("it hangs (SIGSTOP)", signal.SIGSTOP, HANGS, IMPATIENT),
    )
    with bench_cluster(home, "broker-failover") as cluster:
        cluster.create_topic(TOPIC, 1)
        for what, kind, count, configs in parts:
            writer = Writer(cluster, **configs)
            try:
                took = _rounds(cluster, writer, kind, count)
            finally:
                writer.finish()
            figures = (took[0], median(took), took[-1])
            lines.append(f"{f'{what}, {count} times':<48}" + "".join(f"{one:>6.2f} s" for one in figures))
    return lines
