"""A broker that is stopped while many partitions change holds nobody up, and hears all when it wakes."""

from tests.integration.replication.cluster import SESSION_TIMEOUT_MS, Cluster

MANY = 1_000


def test_a_stopped_broker_misses_many_changes(cluster: Cluster) -> None:
    cluster.start()
    cluster.create_topic("orders", MANY, replicas=3)
    cluster.brokers[3].pause()
    cluster.create_topic("clicks", 3, replicas=2)
    cluster.await_true(lambda: cluster.live_brokers() == {1, 2}, "it is missed")
    cluster.await_true(
        lambda: 3 not in set(cluster.leaders("orders").values()), "nothing is led by the stopped broker"
    )
    assert all(3 not in row["isr"] for row in cluster.partitions("orders").values())
    cluster.brokers[3].resume()
    cluster.await_true(lambda: cluster.live_brokers() == {1, 2, 3}, "it is back")
    cluster.await_true(lambda: cluster.everybody_in_sync("orders"), "it is in sync everywhere again")
    version = int(str(cluster.query("SELECT metadata_version FROM cluster")[0][0]))
    cluster.await_true(
        lambda: f"muster_broker_metadata_version {version}" in cluster.probe(3, "metrics")[1],
        "it has applied the newest version",
        SESSION_TIMEOUT_MS / 100,
    )
