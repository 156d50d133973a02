"""An operator removes partitions and adds others: what is not read stays, and nothing old comes back."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from tests.integration.replication.cluster import Cluster
from tests.integration.replication.rest_operator import Answer, Operator
from tests.integration.sdk.processes import ConsumerProcess


def test_partitions_go_when_all_is_read_and_others_come_under_their_numbers(
    shared: Cluster, olga: Operator, topic: str, tmp_path: Path
) -> None:
    assert olga.post("topics", topic=topic, assignments=[[1, 2], [2, 3], [1, 2], [3, 2]]).status_code == 201
    shared.await_true(lambda: shared.everybody_in_sync(topic), "led")
    for partition in range(4):
        produce(shared, topic, partition, *(b"%d" % n for n in range(10)))
    epochs = {number: row["leader_epoch"] for number, row in shared.partitions(topic).items()}
    with reading(shared, topic, tmp_path) as ann:
        shared.await_true(lambda: len(ann.facts("committed")) == 40, "all is read")
        commit(shared, topic, {2: 10, 3: 4})
        assert "group kafka has 6 records of partition 3" in refusal(olga, topic, 2)
        commit(shared, topic, {3: 10})
        # It is asked how far logs are before it is judged: what was just acknowledged is not overlooked.
        produce(shared, topic, 3, b"late")
        assert "group kafka has 1 record of partition 3" in refusal(olga, topic, 2)
        tried = removal(olga, topic, 2, force=True, validate_only=True)
        assert (tried.status_code, tried.json()["verdict"]) == (200, "would be done")
        assert len(shared.partitions(topic)) == 4

        shared.brokers[2].kill()
        shared.await_true(lambda: shared.live_brokers() == {1, 3}, "it is missed")
        gone = removal(olga, topic, 2, force=True)
        assert (gone.status_code, gone.json()["verdict"]) == (200, "done"), gone.json()
        assert gone["ETag"] == olga.tag(f"topics/{topic}")
        assert set(shared.partitions(topic)) == {0, 1}
        shared.await_true(lambda: not offsets(shared, topic, 2), "their offsets are gone")
        shared.await_true(lambda: owned(shared, topic) == {0, 1}, "ann reads the others")
        shared.await_true(partial(is_told, shared, topic, 2), "Kafka's clients are told")
        # Broker 2 is still dead, with logs of the old ones under the same names.
        match = olga.tag(f"topics/{topic}")
        again = olga.post(
            f"topics/{topic}/partitions", match=match, partitions=4, assignments=[[1, 2], [3, 2]]
        )
        assert again.status_code == 200, again.json()
        shared.await_true(lambda: -1 not in shared.leaders(topic).values(), "they are led")
        for number in (2, 3):
            produce(shared, topic, number, b"again")
            assert shared.partitions(topic)[number]["leader_epoch"] > epochs[number]
        shared.start_broker(2)
        shared.await_true(lambda: shared.everybody_in_sync(topic), "broker 2 has them anew")
        shared.await_true(lambda: shared.logs_are_equal(topic), "byte for byte")
        found = shared.read_everything(topic, 4)
        assert (found[2], found[3]) == ([b"again"], [b"again"])
        shared.await_true(lambda: {2: 1, 3: 1}.items() <= committed(shared, topic).items(), "ann reads them")
    assert kafka_committed(shared, topic, 3) < 0, "what was committed for the one before is no offset of it"
    strays = [path.name for path in (shared.data(2) / "partitions").iterdir() if path.name.startswith(topic)]
    assert len([name for name in strays if "stray" in name]) == 2, strays


def test_what_cannot_be_removed_is_a_problem_with_kafkas_error(
    shared: Cluster, olga: Operator, topic: str
) -> None:
    made = olga.post("topics", topic=topic, partitions=2, replication_factor=1)
    for partitions, status, error in (
        (2, 400, "INVALID_REQUEST"),
        (3, 400, "INVALID_REQUEST"),
        (0, 400, None),
    ):
        refused = removal(olga, topic, partitions)
        assert refused.status_code == status
        assert refused.json().get("kafka_error", {}).get("name") == error
    path = f"topics/{topic}/partitions/removal"
    assert olga.post(path, partitions=1).status_code == 428
    grown = olga.post(f"topics/{topic}/partitions", match=made["ETag"], partitions=3)
    stale = olga.post(path, match=made["ETag"], partitions=1)
    assert (stale.status_code, stale["ETag"]) == (412, grown["ETag"])
    assert olga.post(f"topics/{topic}-none/partitions/removal", match="*", partitions=1).status_code == 404
    assert len(shared.partitions(topic)) == 3


def test_a_token_of_some_groups_is_told_of_no_other_that_has_not_read(
    shared: Cluster, olga: Operator, topic: str
) -> None:
    assert olga.post("topics", topic=topic, assignments=[[1], [2]]).status_code == 201
    shared.await_true(lambda: -1 not in shared.leaders(topic).values(), "led")
    produce(shared, topic, 1, b"unread")
    commit(shared, topic, {1: 0})
    assert "group kafka has 1 record of partition 1" in refusal(olga, topic, 1)
    made = ("create_token", topic, "--role", "operator", "--topic", topic, "--group", "team-*")
    tia = Operator(shared.manage(*made).split()[-1])
    refused = removal(tia, topic, 1)
    kept = tia.get(f"controller/requests/{refused.json()['request']}")
    assert (refused.status_code, kept.status_code) == (409, 200)
    for told in (refused, kept):
        assert "groups of which this token is not told have not read all" in told.content.decode()
        assert "kafka has" not in told.content.decode() and "team-" not in told.content.decode()


def removal(olga: Operator, topic: str, partitions: int, **more: Any) -> Answer:
    match = olga.tag(f"topics/{topic}")
    return olga.post(f"topics/{topic}/partitions/removal", match=match, partitions=partitions, **more)


def refusal(olga: Operator, topic: str, partitions: int) -> str:
    """Why they stay."""
    refused = removal(olga, topic, partitions)
    assert refused.status_code == 409
    assert refused.json()["kafka_error"]["name"] == "GROUP_SUBSCRIBED_TO_TOPIC"
    return str(refused.json()["detail"])


@contextmanager
def reading(cluster: Cluster, topic: str, folder: Path) -> Iterator[ConsumerProcess]:
    """Ann, who reads and commits whatever comes."""
    named = SimpleNamespace(topic=topic)
    ann = ConsumerProcess(cluster, named, "native", "ann", folder, 6_000)  # type: ignore[arg-type]
    try:
        yield ann
    finally:
        ann.stop()


def produce(cluster: Cluster, topic: str, partition: int, *values: bytes) -> None:
    failures: list[object] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "log_level": 0})
    for value in values:
        producer.produce(
            topic, value, partition=partition, on_delivery=lambda error, _: failures.append(error)
        )
    assert producer.flush(60) == 0
    assert failures == [None] * len(values)


def kafka_group(cluster: Cluster) -> Consumer:
    return Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "kafka", "log_level": 0})


def commit(cluster: Cluster, topic: str, offsets: dict[int, int]) -> None:
    """A group of Kafka's that only commits."""
    consumer = kafka_group(cluster)
    stated = [TopicPartition(topic, number, offset) for number, offset in offsets.items()]
    consumer.commit(offsets=stated, asynchronous=False)
    consumer.close()


def kafka_committed(cluster: Cluster, topic: str, partition: int) -> int:
    consumer = kafka_group(cluster)
    [found] = consumer.committed([TopicPartition(topic, partition)], timeout=30)
    consumer.close()
    return int(found.offset)


def offsets(cluster: Cluster, topic: str, first: int) -> list[tuple[object, ...]]:
    text = "SELECT group_name, partition FROM committed_offset WHERE topic_name = %s AND partition >= %s"
    return list(cluster.query(text, topic, first))


def committed(cluster: Cluster, topic: str) -> dict[int, int]:
    text = (
        "SELECT partition, committed_offset FROM committed_offset WHERE topic_name = %s AND group_name = %s"
    )
    return {int(str(number)): int(str(offset)) for number, offset in cluster.query(text, topic, "native")}


def owned(cluster: Cluster, topic: str) -> set[int]:
    text = "SELECT partition FROM partition_ownership WHERE topic_name = %s AND state = %s"
    return {int(str(number)) for (number,) in cluster.query(text, topic, "running")}


def is_told(cluster: Cluster, topic: str, partitions: int) -> bool:
    """By every door that lives."""
    return len(cluster.admin().list_topics(topic, timeout=10).topics[topic].partitions) == partitions
