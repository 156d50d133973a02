"""This room measures a whole cluster, three brokers with their logs: topics created, grown and deleted, what
idle partitions cost, and how long a broker and the controller's node are missed.

Two nodes, a worker, PostgreSQL with fsync on, every setting as it is delivered. What compares with three
brokers of Apache Kafka is measured by `acknowledged_by_all.py` and `moves.py`.
"""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka.cimpl import NewPartitions

from muster.kernel.settings import DECLARED
from tests.benchmarks.idle import proportional_bytes
from tests.benchmarks.planes import bench_plane, cpu_seconds
from tests.integration.replication.cluster import BROKERS, QUICK, Cluster

TOPIC_PARTITIONS, MORE_PARTITIONS, IDLE_PARTITIONS = 3_000, 1_000, 10_000
IDLE_S = 10.0
SETTLE_S = 8.0
PATIENCE_S = 180.0
VICTIM = 3


@contextmanager
def bench_cluster(home: Path, name: str, nodes: int = 2) -> Iterator[Cluster]:
    """Nodes and brokers that are ready."""
    delivered = {one.name: str(one.default) for one in DECLARED if one.name in QUICK}
    with bench_plane(home, name, Cluster, **delivered) as plane:
        assert isinstance(plane, Cluster)
        for number in range(2, nodes + 1):
            plane.start_node(f"node-{number}")
        plane.wait_until_serving()
        for broker_id in BROKERS:
            plane.start_broker(broker_id)
        plane.wait_until_ready()
        yield plane


def seconds(work: Callable[[], object]) -> float:
    """How long it takes."""
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def topics(cluster: Cluster) -> list[str]:
    """Created, grown, deleted; each until the controller's answer, and the deletion until all have obeyed."""
    admin = cluster.admin()

    def grow() -> None:
        wanted = NewPartitions("orders", TOPIC_PARTITIONS + MORE_PARTITIONS)
        admin.create_partitions([wanted], request_timeout=60)["orders"].result(60)

    def obeyed() -> None:
        cluster.await_true(lambda: cluster.newest_version_is_applied(BROKERS), "obeyed", PATIENCE_S)

    took = {
        f"topic of {TOPIC_PARTITIONS:,} x 3 created": seconds(
            lambda: cluster.create_topic("orders", TOPIC_PARTITIONS)
        ),
        f"{MORE_PARTITIONS:,} partitions added": seconds(grow),
        "topic deleted": seconds(
            lambda: admin.delete_topics(["orders"], request_timeout=60)["orders"].result(60)
        ),
    }
    took["and obeyed by every broker"] = seconds(obeyed)
    return [f"{what:<48}{s:>10.2f} s" for what, s in took.items()]


def idle(cluster: Cluster) -> list[str]:
    """Processor and memory of brokers that hold partitions nobody uses."""
    cluster.create_topic("clicks", IDLE_PARTITIONS)
    cluster.await_true(lambda: cluster.everybody_in_sync("clicks"), "everybody is in sync", PATIENCE_S)
    time.sleep(SETTLE_S)
    pids = {broker_id: process.popen.pid for broker_id, process in cluster.brokers.items()}
    before = {broker_id: cpu_seconds(pid) for broker_id, pid in pids.items()}
    time.sleep(IDLE_S)
    used = {broker_id: (cpu_seconds(pid) - before[broker_id]) / IDLE_S for broker_id, pid in pids.items()}
    return [
        f"{f'broker {broker_id}, {IDLE_PARTITIONS:,} idle partitions':<48}"
        f"{100 * used[broker_id]:>10.1f} %{proportional_bytes(pid) / 1e6:>8.0f} MB"
        for broker_id, pid in pids.items()
    ]


def comings_and_goings(cluster: Cluster) -> list[str]:
    """A broker is killed, and stopped; the controller's node is killed."""
    broker = cluster.brokers[VICTIM]

    def in_every_isr() -> bool:
        return cluster.is_ready(VICTIM) and cluster.everybody_in_sync("clicks")

    broker.kill()
    cluster.await_true(lambda: VICTIM not in cluster.live_brokers(), "it is fenced", PATIENCE_S)
    cluster.start_broker(VICTIM)
    back = seconds(lambda: cluster.await_true(in_every_isr, "in every ISR", PATIENCE_S))
    time.sleep(SETTLE_S)
    stopping = cluster.brokers[VICTIM].popen
    stopping.send_signal(signal.SIGTERM)
    stopped = seconds(lambda: stopping.wait(PATIENCE_S))
    before = cluster.controller()
    cluster.nodes[before].kill()

    def another_holds_it() -> bool:
        return cluster.controller() not in ("", before)

    acting = seconds(lambda: cluster.await_true(another_holds_it, "another holds it", PATIENCE_S))
    return [
        f"{'broker killed and started: in every ISR':<48}{back:>10.2f} s",
        f"{'broker told to stop: gone':<48}{stopped:>10.2f} s",
        f"{'node of the controller killed: another holds it':<48}{acting:>10.2f} s",
    ]


def run(home: Path) -> list[str]:
    """The table's lines. Makes and removes a folder under `home`."""
    lines = ["a whole cluster: 2 nodes, 3 brokers"]
    with bench_cluster(home, "whole-cluster") as cluster:
        for part in (topics, idle, comings_and_goings):
            lines += part(cluster)
    return lines


def main() -> None:
    """`python -m tests.benchmarks.whole_cluster`"""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    print("\n".join(run(Path(os.environ.get("MUSTER_HOME", ".muster")))))


if __name__ == "__main__":
    main()
