"""A broker that is stopped while 10,000 partitions change holds nobody up, and hears all when it wakes."""

from tests.integration.replication.cluster import Cluster

MANY = 10_000
STOPPED = 3


def test_a_stopped_broker_misses_many_changes(cluster: Cluster) -> None:
    cluster.start()
    cluster.create_topic("orders", MANY, replicas=3)
    cluster.await_true(lambda: cluster.count("orders", "cardinality(isr) = 3") == MANY, "all are in sync")
    cluster.await_true(lambda: cluster.newest_version_is_applied((1, 2, 3)), "everybody hosts its replicas")

    cluster.brokers[STOPPED].pause()
    cluster.create_topic("clicks", 3, replicas=2)
    cluster.await_true(lambda: cluster.live_brokers() == {1, 2}, "it is missed")
    cluster.await_true(
        lambda: cluster.count("orders", "leader = 3 OR 3 = ANY (isr)") == 0,
        "it leads nothing, and is not in sync",
    )
    cluster.await_true(
        lambda: cluster.count("orders", "leader IN (1, 2) AND cardinality(isr) = 2") == MANY, "the others do"
    )
    cluster.await_true(lambda: cluster.newest_version_is_applied((1, 2)), "the others obey")

    cluster.brokers[STOPPED].resume()
    cluster.await_true(lambda: cluster.live_brokers() == {1, 2, 3}, "it is back")
    cluster.await_true(
        lambda: cluster.count("orders", "cardinality(isr) = 3") == MANY, "it is in sync everywhere again"
    )
    cluster.await_true(
        lambda: cluster.newest_version_is_applied((1, 2, 3)), "it has heard all that it missed"
    )
