"""Kafka's own admin and DeleteRecordsCommand delete records on every replica, past kills and elections."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from broker.log.checkpoints import LOG_START, load_start
from tests.acceptance.kafka_tools import Tools
from tests.integration.replication.cluster import Cluster

RECORDS = 3_000
VALUE = b"x" * 1_000


def test_deleted_records_stay_deleted_past_a_kill_and_a_change_of_leader(cluster: Cluster) -> None:
    cluster.start()
    cluster.create_topic("orders", 1)
    fill(cluster, "orders")
    cluster.await_true(lambda: cluster.everybody_in_sync("orders"), "all are in sync")
    below = 2_501
    assert delete(cluster, "orders", below) == below
    assert starts(cluster, "orders") == {below}, "it is answered when every live replica has deleted"
    cluster.await_true(
        lambda: all(len(log) < RECORDS * len(VALUE) for log in cluster.logs("orders", 0).values()),
        "and gives their room back",
    )

    leader = cluster.leader_of("orders")
    cluster.brokers[leader].kill()
    cluster.await_true(lambda: cluster.leaders("orders")[0] not in (leader, -1), "another leads")
    cluster.await_missed(leader)
    assert watermarks(cluster, "orders") == (below, RECORDS)
    assert delete(cluster, "orders", below + 100) == below + 100, "nobody waits for a dead replica"

    cluster.start_broker(leader)
    cluster.wait_until_ready((leader,))
    cluster.await_true(lambda: starts(cluster, "orders") == {below + 100}, "it deletes what it missed")
    cluster.await_true(lambda: cluster.everybody_in_sync("orders"), "it is in sync again")
    for broker in cluster.brokers.values():
        broker.kill()
    for broker_id in cluster.brokers:
        cluster.start_broker(broker_id)
    cluster.wait_until_ready()
    cluster.await_true(lambda: cluster.leaders("orders")[0] != -1, "it is led again")
    assert watermarks(cluster, "orders") == (below + 100, RECORDS)
    assert len(read_from_the_beginning(cluster, "orders")) == RECORDS - below - 100


def test_a_replica_that_was_away_for_long_begins_where_its_leader_does(cluster: Cluster) -> None:
    cluster.start()
    cluster.create_topic("orders", 1)
    fill(cluster, "orders", 10)
    cluster.await_true(lambda: cluster.everybody_in_sync("orders"), "all are in sync")
    leader = cluster.leader_of("orders")
    away = next(b for b in cluster.brokers if b != leader)
    cluster.brokers[away].kill()
    cluster.await_true(lambda: away not in cluster.live_brokers(), "it is missed")
    fill(cluster, "orders", RECORDS)
    assert delete(cluster, "orders", RECORDS) == RECORDS
    cluster.start_broker(away)
    cluster.wait_until_ready((away,))
    cluster.await_true(lambda: cluster.everybody_in_sync("orders"), "it is in sync again")
    cluster.await_true(lambda: starts(cluster, "orders") == {RECORDS}, "it begins there, too")
    cluster.await_true(lambda: ends_alike(cluster, "orders"), "and holds the same")


@pytest.fixture
def tools(cluster: Cluster) -> Iterator[Tools]:
    cluster.start()
    with Tools(cluster.bootstrap) as process:
        yield process


def test_kafkas_own_command_deletes_records(cluster: Cluster, tools: Tools, tmp_path: Path) -> None:
    cluster.create_topic("orders", 1)
    fill(cluster, "orders", 20)
    assert "low_watermark: 7" in command(tools, tmp_path, "orders", 7)
    assert watermarks(cluster, "orders") == (7, 20)
    assert "low_watermark: 20" in command(tools, tmp_path, "orders", -1)
    assert "error: " in command(tools, tmp_path, "orders", 21)
    assert "error: " in command(tools, tmp_path, "clicks", 1)


def test_kafkas_own_tools_tell_offsets_and_sizes(cluster: Cluster, tools: Tools) -> None:
    cluster.create_topic("orders", 1)
    fill(cluster, "orders", 20)
    assert delete(cluster, "orders", 3) == 3
    told = {time: offset(tools, time) for time in ("-1", "latest", "-2", "-3", "-4", "-5", "1000")}
    assert told == {"-1": 20, "latest": 20, "-2": 3, "-3": told["-3"], "-4": 3, "-5": None, "1000": 3}
    assert told["-3"] in range(3, 20)
    cluster.await_true(lambda: cluster.everybody_in_sync("orders"), "all are in sync")
    cluster.await_true(lambda: sizes_are_told(cluster, tools), "each tells its size, and lacks nothing")
    said = tools.run(
        "TransactionsCommand", "describe-producers", "--topic", "orders", "--partition", "0"
    ).text
    assert "ProducerId" in said
    hanging = tools.run("TransactionsCommand", "find-hanging", "--broker-id", "1")
    assert hanging.status == 0, hanging.text


def sizes_are_told(cluster: Cluster, tools: Tools) -> bool:
    """What kafka-log-dirs.sh says of every broker is so. A follower may lag for a moment."""
    said = tools.run("LogDirsCommand", "--describe", "--topic-list", "orders").text
    assert "{" in said, said
    told_of = {one["broker"]: one["logDirs"] for one in json.loads(said[said.index("{") :])["brokers"]}
    found = []
    for broker_id in cluster.brokers:
        (folder,) = told_of.pop(broker_id)
        assert folder["error"] is None and folder["logDir"].startswith(str(cluster.home))
        (log,) = folder["partitions"]
        assert (log["partition"], log["isFuture"]) == ("orders-0", False)
        found.append((log["offsetLag"], log["size"]) == (0, len(cluster.logs("orders", 0)[broker_id])))
    for node in told_of.values():
        assert node == [
            {"partitions": [], "error": None, "logDir": "(a node holds no logs: ask the brokers)"}
        ]
    return all(found)


def offset(tools: Tools, time: str) -> int | None:
    """kafka-get-offsets.sh; None: there is none."""
    said = tools.run("GetOffsetShell", "--topic", "orders", "--time", time)
    assert said.status == 0, said.text
    rows = [line.split(":") for line in said.text.splitlines() if line.startswith("orders:")]
    return int(rows[0][2]) if rows and rows[0][2] else None


def command(tools: Tools, folder: Path, topic: str, offset: int) -> str:
    stated = {"partitions": [{"topic": topic, "partition": 0, "offset": offset}], "version": 1}
    path = folder / "offsets.json"
    path.write_text(json.dumps(stated))
    # It looks for a topic that is not there for as long as it may, a minute by itself.
    settings = folder / "settings.properties"
    settings.write_text("default.api.timeout.ms=6000\nrequest.timeout.ms=5000\n")
    return tools.delete_records("--offset-json-file", path, "--command-config", settings).text


def fill(cluster: Cluster, topic: str, count: int = RECORDS) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0, "batch.num.messages": 10})
    for _ in range(count):
        producer.produce(topic, VALUE, partition=0)
        producer.poll(0)
    assert producer.flush(60) == 0


def delete(cluster: Cluster, topic: str, below: int) -> int:
    """The low watermark as Kafka's admin is told it."""
    partition, admin = TopicPartition(topic, 0, below), cluster.admin()

    def done() -> int | None:
        try:
            result = admin.delete_records([partition], operation_timeout=20.0)[partition].result(30)
        except KafkaException:
            return None
        return int(result.low_watermark)

    found = cluster.await_true(done, "records are deleted")
    assert isinstance(found, int)
    return found


def watermarks(cluster: Cluster, topic: str) -> tuple[int, int]:
    """Where the partition begins and ends for consumers."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "readers", "log_level": 0})

    def told() -> tuple[int, int] | None:
        try:
            found = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=5.0)
        except KafkaException:
            return None
        return (int(found[0]), int(found[1])) if found else None

    try:
        answer = cluster.await_true(told, "offsets are told")
    finally:
        consumer.close()
    assert isinstance(answer, tuple)
    return answer


def read_from_the_beginning(cluster: Cluster, topic: str) -> list[bytes]:
    start, end = watermarks(cluster, topic)
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "readers",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "log_level": 0,
        }
    )
    found: list[bytes] = []
    try:
        # An offset that is deleted: the client is told so and begins where the log does.
        consumer.assign([TopicPartition(topic, 0, 0)])
        while start + len(found) < end:
            message = consumer.poll(60.0)
            assert message is not None
            value = message.value()
            if message.error() is None and value is not None:
                found.append(value)
    finally:
        consumer.close()
    return found


def starts(cluster: Cluster, topic: str) -> set[int]:
    """Where each broker's log begins, by its file."""
    folders = [cluster.data(b) / "partitions" / f"{topic}-0" for b in cluster.ports]
    return {load_start(folder / LOG_START) for folder in folders}


def ends_alike(cluster: Cluster, topic: str) -> bool:
    """The last segments of all replicas hold the same bytes."""
    logs = cluster.logs(topic, 0)
    shortest = min(map(len, logs.values()))
    return len({data[len(data) - shortest :] for data in logs.values()}) == 1
