"""Kafka's own admin adds partitions and deletes topics, under a producer and with a broker that is away."""

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.cimpl import NewPartitions

from tests.integration.replication.cluster import Cluster, Producing, nothing_lost_nothing_twice

PARTITIONS = 3


def test_partitions_are_added_under_a_producer_and_a_deleted_topic_gives_its_room_back(
    cluster: Cluster,
) -> None:
    cluster.start((1, 2))
    cluster.start_broker(3, MUSTER_FILE_DELETE_DELAY_MS="1000")
    cluster.wait_until_ready()
    cluster.create_topic("orders", PARTITIONS)
    producing = Producing(cluster, "orders", PARTITIONS)
    cluster.await_true(lambda: producing.acknowledged_count >= 100, "producing goes on")
    grow(cluster, "orders", PARTITIONS + 3)
    produce(cluster, "orders", PARTITIONS + 2, b"new")
    producing.finish()
    assert producing.refused == []
    found = cluster.read_everything("orders", PARTITIONS + 3)
    assert found[PARTITIONS + 2] == [b"new"]
    nothing_lost_nothing_twice(producing, {number: found[number] for number in range(PARTITIONS)})

    commit(cluster, "orders")
    cluster.brokers[2].kill()
    cluster.await_missed(2)
    delete(cluster, "orders")
    cluster.await_true(lambda: not cluster.query("SELECT 1 FROM committed_offset"), "its offsets are gone")
    assert not cluster.query("SELECT 1 FROM topic")
    cluster.await_true(lambda: not names(cluster, 3), "its logs are erased")
    assert all(name.endswith("-delete") for name in names(cluster, 1))

    # The same name, another topic: whoever was away serves nothing of the old one.
    cluster.create_topic("orders", 1, replicas=2)
    produce(cluster, "orders", 0, b"again")
    cluster.start_broker(2)
    cluster.await_true(lambda: cluster.is_ready(2), "it is back")
    cluster.await_true(lambda: all("stray" in name for name in names(cluster, 2)), "its old logs are strays")
    assert cluster.read_everything("orders", 1) == {0: [b"again"]}


def grow(cluster: Cluster, topic: str, partitions: int) -> None:
    admin = cluster.admin()
    admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(30)


def delete(cluster: Cluster, topic: str) -> None:
    admin = cluster.admin()
    admin.delete_topics([topic])[topic].result(30)
    try:
        admin.delete_topics([topic])[topic].result(30)
    except KafkaException as refused:
        assert refused.args[0].name() == "UNKNOWN_TOPIC_OR_PART"
    else:
        raise AssertionError("it was deleted twice")


def produce(cluster: Cluster, topic: str, partition: int, value: bytes) -> None:
    failures: list[object] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    producer.produce(topic, value, partition=partition, on_delivery=lambda error, _: failures.append(error))
    assert producer.flush(30) == 0
    assert failures == [None]


def commit(cluster: Cluster, topic: str) -> None:
    """A group that only commits."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "readers", "log_level": 0})
    consumer.commit(offsets=[TopicPartition(topic, 0, 7)], asynchronous=False)
    consumer.close()


def names(cluster: Cluster, broker_id: int) -> list[str]:
    """The folders of logs that a broker holds."""
    partitions = cluster.data(broker_id) / "partitions"
    return [path.name for path in partitions.iterdir() if path.is_dir()]
