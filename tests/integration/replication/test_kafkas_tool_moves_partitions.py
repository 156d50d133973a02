"""Kafka's ReassignPartitionsCommand, unmodified: generate, execute with a throttle, list, verify, cancel."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.acceptance.kafka_tools import Said, Tools
from tests.acceptance.members import missing
from tests.integration.replication.cluster import PATIENCE_S, Cluster

pytestmark = pytest.mark.skipif(bool(missing("java")), reason=missing("java"))

PARTITIONS = 4
VALUE = bytes(100_000)
SLOW = 20_000
"""Bytes a second: what moves is still on its way whenever it is looked at."""
REASSIGN = "reassign.ReassignPartitionsCommand"


@pytest.fixture
def tools(cluster: Cluster) -> Iterator[Tools]:
    cluster.start((1, 2, 3, 4))
    cluster.create_topic("orders", PARTITIONS, 2)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
    for number in range(PARTITIONS):
        for _ in range(20):
            producer.produce("orders", VALUE, partition=number)
    assert producer.flush(PATIENCE_S) == 0
    with Tools(cluster.bootstrap) as process:
        yield process


def replicas(cluster: Cluster) -> dict[int, list[int]]:
    return {number: list(row["assigned"]) for number, row in cluster.partitions("orders").items()}


def written(path: Path, what: object) -> Path:
    path.write_text(json.dumps(what), encoding="utf-8")
    return path


def plan(targets: dict[int, list[int]]) -> dict[str, Any]:
    moves = [{"topic": "orders", "partition": n, "replicas": target} for n, target in targets.items()]
    return {"version": 1, "partitions": moves}


def throttles(cluster: Cluster) -> dict[str, str]:
    """What the tool has set for brokers and the topic."""
    brokers = cluster.query("SELECT configs::text FROM broker_configs")
    topics = cluster.query("SELECT configs::text FROM topic")
    return {
        name: value
        for (text,) in (*brokers, *topics)
        for name, value in json.loads(str(text)).items()
        if "replication.throttled" in name
    }


def ok(said: Said) -> str:
    assert said.status == 0, said.text
    return said.text


def test_the_tool_generates_executes_with_a_throttle_lists_and_verifies(
    cluster: Cluster, tools: Tools, tmp_path: Path
) -> None:
    wanted = written(tmp_path / "topics.json", {"version": 1, "topics": [{"topic": "orders"}]})
    text = ok(tools.run(REASSIGN, "--topics-to-move-json-file", wanted, "--broker-list", "1,2", "--generate"))
    made = json.loads(text.strip().splitlines()[-1])
    targets = {one["partition"]: one["replicas"] for one in made["partitions"]}
    assert set(targets) == set(range(PARTITIONS)) and all(set(b) == {1, 2} for b in targets.values())

    moved = written(tmp_path / "plan.json", made)
    before = replicas(cluster)
    executed = tools.run(REASSIGN, "--reassignment-json-file", moved, "--execute", "--throttle", SLOW)
    assert "Successfully started partition reassignments" in ok(executed)
    set_now = throttles(cluster)
    assert set_now["leader.replication.throttled.rate"] == str(SLOW)
    assert set_now["follower.replication.throttled.replicas"]
    listed = ok(tools.run(REASSIGN, "--list"))
    assert "orders-" in listed and "adding" in listed
    still = ok(tools.run(REASSIGN, "--reassignment-json-file", moved, "--verify", "--preserve-throttles"))
    assert "is still in progress" in still
    again = tools.run(REASSIGN, "--reassignment-json-file", moved, "--execute")
    assert again.status != 0 and "--additional" in again.text
    assert replicas(cluster) != before

    faster = ok(
        tools.run(
            REASSIGN, "--reassignment-json-file", moved, "--execute", "--additional", "--throttle", 10**9
        )
    )
    assert "Successfully started" in faster
    cluster.await_true(lambda: replicas(cluster) == targets, "all are there at the other rate")
    verified = ok(tools.run(REASSIGN, "--reassignment-json-file", moved, "--verify"))
    assert verified.count("is completed") == PARTITIONS
    cluster.await_true(lambda: throttles(cluster) == {}, "verify clears the throttles")
    assert ok(tools.run(REASSIGN, "--list")).strip() == "No partition reassignments found."
    cluster.await_true(lambda: cluster.logs_are_equal("orders"), "the replicas are equal")


def test_the_tool_cancels_and_what_moved_is_where_it_was(
    cluster: Cluster, tools: Tools, tmp_path: Path
) -> None:
    before = replicas(cluster)
    targets = {n: [next(b for b in (1, 2, 3, 4) if b not in held), held[1]] for n, held in before.items()}
    moved = written(tmp_path / "plan.json", plan(targets))
    ok(tools.run(REASSIGN, "--reassignment-json-file", moved, "--execute", "--throttle", SLOW))
    cancelled = ok(tools.run(REASSIGN, "--reassignment-json-file", moved, "--cancel"))
    assert "Successfully cancelled partition reassignments" in cancelled
    assert replicas(cluster) == before and throttles(cluster) == {}
    ends = cluster.query("SELECT DISTINCT phase FROM reassignment")
    assert ends == [("Cancelled",)]


def test_what_the_tool_prints_for_a_rollback_is_executed(
    cluster: Cluster, tools: Tools, tmp_path: Path
) -> None:
    # It names the directory of each replica, as brokers tell it: the tool wishes for that, too.
    before = replicas(cluster)
    targets = {n: [next(b for b in (1, 2, 3, 4) if b not in held), held[1]] for n, held in before.items()}
    moved = written(tmp_path / "plan.json", plan(targets))
    executed = ok(tools.run(REASSIGN, "--reassignment-json-file", moved, "--execute"))
    printed = next(line for line in executed.splitlines() if line.startswith('{"version"'))
    assert '"log_dirs":["/' in printed
    cluster.await_true(lambda: replicas(cluster) == targets, "all are there")
    rollback = tmp_path / "rollback.json"
    rollback.write_text(printed, encoding="utf-8")
    assert "Successfully started moving log director" in ok(
        tools.run(REASSIGN, "--reassignment-json-file", rollback, "--execute")
    )
    cluster.await_true(lambda: replicas(cluster) == before, "all are where they were")
    assert "is completed" in ok(tools.run(REASSIGN, "--reassignment-json-file", rollback, "--verify"))

    elsewhere = written(tmp_path / "elsewhere.json", json.loads(printed.replace("/partitions", "/elsewhere")))
    refused = tools.run(REASSIGN, "--reassignment-json-file", elsewhere, "--execute")
    assert refused.status == 1 and "LogDirNotFound" in refused.text, refused.text
