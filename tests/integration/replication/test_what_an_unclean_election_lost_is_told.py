"""After an unclean election its leader tells where it began, and who held more tells what was cut of it."""

import asyncio
from typing import Any

from confluent_kafka import ElectionType, KafkaException, Producer, TopicPartition

from muster.messages.link.losses import NOT_KNOWN
from tests.integration.replication.cluster import ASK_AGAIN, Cluster
from tests.integration.replication.test_partitions_move_to_another_broker import assigned, reassign

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
    """True once somebody leads; who asks, or loses a broker meanwhile, may have to ask again."""
    admin = cluster.admin()
    try:
        admin.elect_leaders(ElectionType.UNCLEAN, [TopicPartition("orders", 0)]).result(timeout=30)
    except KafkaException as refused:
        if refused.args[0].name() not in ASK_AGAIN:
            raise
    return cluster.leaders("orders")[0] != -1


def elected_uncleanly(cluster: Cluster) -> tuple[int, int]:
    """Who was alone in sync and died, and who leads with less than that one held."""
    cluster.create_topic("orders", 1, replicas=2)
    first = cluster.leader_of("orders")
    [other] = [one for one in cluster.partitions("orders")[0]["assigned"] if one != first]
    cluster.brokers[other].kill()
    cluster.await_true(lambda: cluster.partitions("orders")[0]["isr"] == [first], "one is alone in sync")
    produce(cluster, ALONE)
    said = "SELECT high_watermark FROM partition_progress"
    cluster.await_true(lambda: cluster.query(said) == [(ALONE,)], "it said what it committed")
    cluster.brokers[first].kill()
    cluster.await_true(lambda: first not in cluster.live_brokers(), "it is missed")
    cluster.start_broker(other)
    cluster.await_true(lambda: other in cluster.live_brokers(), "the other one is back")
    cluster.await_true(lambda: elect_any(cluster), "the other one leads")
    cluster.await_true(lambda: loss(cluster)["told_at"] is not None, "it tells where it began")
    return first, other


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
    first, _ = elected_uncleanly(cluster)

    note = cluster.data(first) / "held-before-cuts"
    cluster.start_broker(first)
    cluster.await_true(lambda: note.exists() or loss(cluster)["cuts"], "it noted what it held")
    cluster.brokers[first].kill()
    cluster.start_broker(first)
    cluster.await_true(lambda: loss(cluster)["cuts"], "it tells what was cut")
    assert loss(cluster)["cuts"][0][:3] == [first, ALONE, 0]
    cluster.await_true(lambda: not note.exists(), "and needs not remember it any more")


def test_who_comes_back_when_the_partition_has_moved_away_tells_what_its_log_held(cluster: Cluster) -> None:
    cluster.start()
    first, other = elected_uncleanly(cluster)
    [third] = {1, 2, 3} - {first, other}
    cluster.await_true(lambda: moved(cluster, other, third), "it moves from who is gone to the third one")
    cluster.start_broker(first)
    cluster.await_true(lambda: first in cuts(cluster), "its log is stray, and it tells what that held")
    end_offset, cut_to, high_watermark, size_bytes = cuts(cluster)[first]
    assert (end_offset, cut_to, size_bytes) == (ALONE, NOT_KNOWN, NOT_KNOWN)
    assert 0 <= high_watermark <= ALONE
    cluster.await_true(lambda: not (cluster.data(first) / "held-before-cuts").exists(), "it was heard")


def cuts(cluster: Cluster) -> dict[int, list[int]]:
    """What brokers have told, the one that it moved to as well."""
    return {broker: told for broker, *told in loss(cluster)["cuts"]}


def moved(cluster: Cluster, *replicas: int) -> bool:
    """True once these hold the partition, which is asked for as long as they do not."""
    if assigned(cluster)[0] == replicas:
        return True
    asyncio.run(reassign(cluster, {0: replicas}, replicas[0]))
    return False
