"""After an unclean election its leader tells where it began, and who held more tells what was cut of it."""

from typing import Any

from confluent_kafka import ElectionType, Producer, TopicPartition

from tests.integration.replication.cluster import Cluster

BEFORE, ALONE = 100, 50
"""Records that both replicas hold, and records that only the last member of the ISR holds."""


def produce(cluster: Cluster, count: int) -> None:
    """So many records in batches of one, all acknowledged."""
    refused: list[str] = []
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap, "acks": "all", "batch.num.messages": 1, "log_level": 0}
    )
    for number in range(count):
        producer.produce(
            "orders",
            value=f"{number:032}".encode(),
            partition=0,
            on_delivery=lambda error, _: refused.append(str(error)) if error else None,
        )
    assert producer.flush(60.0) == 0 and refused == []


def loss(cluster: Cluster) -> dict[str, Any]:
    """The one election that may have lost records."""
    names = ("leader", "isr", "committed", "start_offset", "told_at", "cuts", "closed")
    [row] = cluster.query(f"SELECT {', '.join(names)} FROM election_loss")
    return dict(zip(names, row, strict=True))


def elect_any(cluster: Cluster) -> bool:
    """True once somebody leads; whoever asks may be told to ask again."""
    admin = cluster.admin()
    admin.elect_leaders(ElectionType.UNCLEAN, [TopicPartition("orders", 0)]).result(timeout=30)
    return cluster.leaders("orders")[0] != -1


def test_the_new_leader_and_the_old_one_say_what_was_lost(cluster: Cluster) -> None:
    cluster.start()
    cluster.create_topic("orders", 1, replicas=2)
    first = cluster.leader_of("orders")
    [other] = [one for one in cluster.partitions("orders")[0]["assigned"] if one != first]
    produce(cluster, BEFORE)
    cluster.await_true(lambda: cluster.everybody_in_sync("orders"), "both hold them")

    cluster.brokers[other].kill()
    cluster.await_true(lambda: cluster.partitions("orders")[0]["isr"] == [first], "one is alone in sync")
    produce(cluster, ALONE)
    said = "SELECT high_watermark FROM partition_progress"
    cluster.await_true(lambda: cluster.query(said) == [(BEFORE + ALONE,)], "it said what it committed")
    cluster.brokers[first].kill()
    cluster.start_broker(other)
    live = {1, 2, 3} - {first}
    cluster.await_true(lambda: cluster.live_brokers() == live, "one is back, the other one is missed")
    cluster.await_true(lambda: cluster.leaders("orders")[0] == -1, "nobody leads")
    assert cluster.query("SELECT count(*) FROM election_loss") == [(0,)]

    cluster.await_true(lambda: elect_any(cluster), "the other one leads")
    cluster.await_true(lambda: loss(cluster)["told_at"] is not None, "it tells where it began")
    told = loss(cluster)
    assert (told["leader"], told["isr"]) == (other, [first])
    assert (told["committed"], told["start_offset"]) == (BEFORE + ALONE, BEFORE)
    assert told["cuts"] == []

    produce(cluster, 10)
    cluster.start_broker(first)
    cluster.await_true(lambda: loss(cluster)["cuts"], "the old leader tells what was cut")
    [[broker, end_offset, cut_to, _, size_bytes]] = loss(cluster)["cuts"]
    assert (broker, end_offset, cut_to) == (first, BEFORE + ALONE, BEFORE)
    assert size_bytes > ALONE * 32
    cluster.await_true(lambda: cluster.logs_are_equal("orders"), "the replicas are equal")
    assert not loss(cluster)["closed"], "nobody has acknowledged it"
    told_of_it = "SELECT summary -> 'losses_told' FROM journal WHERE summary ? 'losses_told' ORDER BY seq"
    words = [str(row[0]) for row in cluster.query(told_of_it)]
    assert f"broker {other} began at {BEFORE}" in words[0]
    assert f"broker {first} was cut from {BEFORE + ALONE} to {BEFORE}" in words[-1]


def test_who_dies_behind_the_cut_before_anybody_heard_it_still_tells_it(cluster: Cluster) -> None:
    """The controller's node is frozen while the old leader is cut: what it held is noted on its disk."""
    cluster.start(brokers=(1, 2))
    cluster.create_topic("orders", 1, replicas=2)
    first = cluster.leader_of("orders")
    [other] = {1, 2} - {first}
    cluster.brokers[other].kill()
    cluster.await_true(lambda: cluster.partitions("orders")[0]["isr"] == [first], "one is alone in sync")
    produce(cluster, ALONE)
    cluster.brokers[first].kill()
    cluster.await_true(lambda: first not in cluster.live_brokers(), "it is missed")
    cluster.start_broker(other)
    cluster.await_true(lambda: cluster.live_brokers() == {other}, "the other one is back")
    cluster.await_true(lambda: elect_any(cluster), "the other one leads")
    cluster.await_true(lambda: loss(cluster)["told_at"] is not None, "it tells where it began")

    note = cluster.data(first) / "held-before-cuts"
    cluster.start_broker(first)
    cluster.await_true(lambda: note.exists() or loss(cluster)["cuts"], "it noted what it held")
    cluster.brokers[first].kill()
    cluster.start_broker(first)
    cluster.await_true(lambda: loss(cluster)["cuts"], "it tells what was cut")
    assert loss(cluster)["cuts"][0][:3] == [first, ALONE, 0]
    cluster.await_true(lambda: not note.exists(), "and needs not remember it any more")
