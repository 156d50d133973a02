"""The controller's node is killed or stopped: brokers relink to the next one, and data goes on flowing."""

from tests.integration.replication.cluster import Cluster, Producing, nothing_lost_nothing_twice

PARTITIONS = 3


def test_the_controller_is_killed(cluster: Cluster) -> None:
    cluster.start(nodes=2)
    cluster.create_topic("orders", PARTITIONS)
    producing = Producing(cluster, "orders", PARTITIONS)
    first = cluster.controller()
    cluster.nodes[first].kill()
    cluster.await_true(lambda: cluster.controller() not in ("", first), "another node is the controller")
    cluster.wait_until_ready()
    before = producing.acknowledged_count
    cluster.await_true(lambda: producing.acknowledged_count >= before + 100, "producing goes on")
    cluster.create_topic("clicks", PARTITIONS)
    victim = cluster.leader_of("orders")
    cluster.brokers[victim].kill()
    cluster.await_true(lambda: victim not in cluster.leaders("orders").values(), "the new controller elects")
    producing.finish()
    assert producing.refused == []
    nothing_lost_nothing_twice(producing, cluster.read_everything("orders", PARTITIONS))


def test_the_controller_is_stopped_and_wakes_as_nobody(cluster: Cluster) -> None:
    cluster.start(nodes=2)
    cluster.create_topic("orders", PARTITIONS)
    producing = Producing(cluster, "orders", PARTITIONS)
    first = cluster.controller()
    cluster.nodes[first].pause()
    cluster.await_true(lambda: cluster.controller() not in ("", first), "another node is the controller")
    cluster.create_topic("clicks", PARTITIONS)
    cluster.nodes[first].resume()
    second = cluster.controller()
    cluster.wait_until_ready()
    victim = cluster.leader_of("clicks")
    cluster.brokers[victim].kill()
    cluster.await_true(lambda: victim not in cluster.leaders("clicks").values(), "the new controller elects")
    assert cluster.controller() == second
    cluster.start_broker(victim)
    cluster.await_true(lambda: cluster.everybody_in_sync("orders"), "everybody is in sync again")
    producing.finish()
    assert producing.refused == []
    nothing_lost_nothing_twice(producing, cluster.read_everything("orders", PARTITIONS))
