"""kill -9 of brokers: new leaders, nothing acknowledged lost or doubled, and who returns catches up."""

from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from tests.integration.replication.cluster import BROKERS, Cluster, Producing, nothing_lost_nothing_twice

PARTITIONS = 3
REFUSED = b"-1"


def test_the_leader_is_killed_and_returns(cluster: Cluster) -> None:
    cluster.start()
    cluster.create_topic("orders", PARTITIONS)
    producing = Producing(cluster, "orders", PARTITIONS)
    cluster.await_true(lambda: producing.acknowledged_count >= 300, "producing goes on")
    victim = cluster.leader_of("orders")
    cluster.brokers[victim].kill()
    cluster.await_true(lambda: victim not in cluster.leaders("orders").values(), "others lead")
    cluster.await_true(
        lambda: all(victim not in row["isr"] for row in cluster.partitions("orders").values()),
        "and is in sync nowhere",
    )
    before = producing.acknowledged_count
    cluster.await_true(lambda: producing.acknowledged_count >= before + 300, "producing goes on without it")
    cluster.start_broker(victim)
    cluster.await_true(lambda: cluster.everybody_in_sync("orders"), "it is in sync again")
    producing.finish()
    # Idempotent batches that were in flight at the death were sent again: neither refused nor doubled.
    assert producing.refused == []
    found = cluster.read_everything("orders", PARTITIONS)
    nothing_lost_nothing_twice(producing, found)
    assert sum(map(len, found.values())) == producing.sent
    cluster.await_true(lambda: cluster.logs_are_equal("orders"), "the replicas are equal")


def test_two_brokers_are_killed_and_the_last_one_serves_nobody_below_the_minimum(cluster: Cluster) -> None:
    cluster.start()
    cluster.create_topic("orders", PARTITIONS, configs={"min.insync.replicas": "2"})
    producing = Producing(cluster, "orders", PARTITIONS)
    cluster.await_true(lambda: producing.acknowledged_count >= 300, "producing goes on")
    for broker_id in (1, 2):
        cluster.brokers[broker_id].kill()
    cluster.await_true(lambda: cluster.live_brokers() == {3}, "both are missed")
    # The floor: no death takes a member out of the ISR when fewer than two would remain.
    assert all(len(row["isr"]) >= 2 for row in cluster.partitions("orders").values())
    cluster.await_true(lambda: set(cluster.leaders("orders").values()) == {3}, "the last one leads")
    cluster.await_true(lambda: cluster.newest_version_is_applied((3,)), "it knows that it is alone")
    nobody = ["NOT_ENOUGH_REPLICAS"] * PARTITIONS
    cluster.await_true(
        lambda: answers_to_one_record_each(cluster, "orders", PARTITIONS) == nobody, "it serves nobody"
    )
    for broker_id in (1, 2):
        cluster.start_broker(broker_id)
    cluster.wait_until_ready()
    before = producing.acknowledged_count
    cluster.await_true(lambda: producing.acknowledged_count >= before + 300, "producing goes on")
    cluster.await_true(lambda: cluster.everybody_in_sync("orders"), "all are in sync again")
    producing.finish()
    assert producing.refused == []
    found = cluster.read_everything("orders", PARTITIONS)
    assert all(REFUSED not in values for values in found.values()), "what was refused is not stored either"
    nothing_lost_nothing_twice(producing, found)
    cluster.await_true(lambda: cluster.logs_are_equal("orders"), "the replicas are equal")


def test_brokers_are_restarted_one_after_the_other_and_the_producer_sees_no_error(cluster: Cluster) -> None:
    """Each hands over what it leads before it stops: no partition is ever without a leader."""
    cluster.start()
    cluster.create_topic("orders", PARTITIONS)
    producing = Producing(cluster, "orders", PARTITIONS)
    cluster.await_true(lambda: producing.acknowledged_count >= 300, "producing goes on")
    for leaver in BROKERS:
        cluster.end(leaver)
        assert (cluster.data(leaver) / ".clean-shutdown").exists()
        # It stopped when others led, and the end of its link was the end of its session.
        assert leaver not in cluster.leaders("orders").values()
        cluster.await_true(lambda gone=leaver: gone not in cluster.live_brokers(), "it is missed at once")
        before = producing.acknowledged_count
        cluster.await_true(lambda at=before: producing.acknowledged_count >= at + 100, "producing goes on")
        cluster.start_broker(leaver)
        cluster.await_true(lambda: cluster.everybody_in_sync("orders"), "it is in sync again")
    producing.finish()
    assert producing.refused == []
    assert cluster.query("SELECT count(*) FROM journal WHERE summary ? 'partitions_without_leader'") == [(0,)]
    found = cluster.read_everything("orders", PARTITIONS)
    nothing_lost_nothing_twice(producing, found)
    assert sum(map(len, found.values())) == producing.sent
    cluster.await_true(lambda: cluster.logs_are_equal("orders"), "the replicas are equal")


def test_a_leader_that_stands_still_and_wakes_acknowledges_nothing_that_is_lost(cluster: Cluster) -> None:
    """SIGSTOP: its sockets stay open, and when it goes on it believes for a moment that it leads."""
    cluster.start()
    cluster.create_topic("orders", PARTITIONS)
    producing = Producing(cluster, "orders", PARTITIONS)
    cluster.await_true(lambda: producing.acknowledged_count >= 300, "producing goes on")
    sleeper = cluster.leader_of("orders")
    cluster.brokers[sleeper].pause()
    cluster.await_true(lambda: sleeper not in cluster.leaders("orders").values(), "others lead")
    cluster.brokers[sleeper].resume()
    before = producing.acknowledged_count
    cluster.await_true(lambda: producing.acknowledged_count >= before + 300, "producing goes on")
    cluster.await_true(lambda: cluster.everybody_in_sync("orders"), "it follows")
    producing.finish()
    assert producing.refused == []
    found = cluster.read_everything("orders", PARTITIONS)
    nothing_lost_nothing_twice(producing, found)
    cluster.await_true(lambda: cluster.logs_are_equal("orders"), "the replicas are equal")


def answers_to_one_record_each(cluster: Cluster, topic: str, partitions: int) -> list[str]:
    """Names of the errors, "" for none, with which one record to each partition is answered."""
    answers: list[str] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "retries": 0, "log_level": 0})
    for number in range(partitions):
        producer.produce(
            topic,
            value=REFUSED,
            partition=number,
            on_delivery=lambda error, message: answers.append(error.name() if error is not None else ""),
        )
    assert producer.flush(30.0) == 0
    return answers


def test_who_asks_after_the_death_is_told_of_the_new_leader_and_where_the_old_one_was(
    cluster: Cluster,
) -> None:
    """By name; who asks for all topics is told of the living alone."""
    cluster.start()
    cluster.create_topic("orders", 1)
    cluster.await_true(lambda: cluster.everybody_in_sync("orders"), "all are in sync")
    victim = cluster.leader_of("orders")
    others = [broker_id for broker_id in BROKERS if broker_id != victim]
    # The first question goes to one that lives: librdkafka would wait for the dead one if it had met it.
    living = ",".join(f"127.0.0.1:{cluster.ports[broker_id][0]}" for broker_id in others)

    def told(topic: str | None = None) -> Any:
        return AdminClient({"bootstrap.servers": living, "log_level": 0}).list_topics(topic, timeout=30)

    cluster.brokers[victim].kill()
    answers: list[Any] = []

    def is_led() -> bool:
        """An answer waits for the election as long as that takes on a machine that is not overloaded."""
        answers.append(told("orders"))
        return answers[-1].topics["orders"].partitions[0].leader in others

    cluster.await_true(is_led, "the new leader is told")
    assert set(BROKERS) <= set(answers[-1].brokers)
    cluster.await_missed(victim)
    assert victim not in told().brokers
