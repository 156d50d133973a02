"""A planned switchover of PostgreSQL keeps no partition offline because of a broker that was away before."""

from runtime.succession import LIFT
from tests.integration.replication.cluster import Cluster
from tests.integration.replication.test_what_an_unclean_election_lost_is_told import produce

RECORDS = 50
LONG_MS = "600000"


def switch_over(cluster: Cluster) -> None:
    """All nodes end, a synchronous standby is promoted, and they come again where they were."""
    addresses = dict(cluster.addresses)
    for node in cluster.nodes.values():
        node.kill()
    # What a promotion makes of the identity, as the rows see it.
    cluster.execute("UPDATE cluster SET timeline = timeline - 1")
    for name, address in addresses.items():
        listen = address.removeprefix("ws://")
        cluster.start_node(
            name,
            MUSTER_NODE_LISTEN=listen,
            MUSTER_NODE_ADDRESS=address,
            MUSTER_UNPROVEN_PATIENCE_MS=LONG_MS,
            MUSTER_BROKER_SESSION_TIMEOUT_MS="30000",
        )
        cluster.addresses[name] = address


def test_who_was_in_sync_leads_without_the_one_that_is_away_and_nothing_is_noted(cluster: Cluster) -> None:
    cluster.start()
    cluster.create_topic("orders", 3, configs={"min.insync.replicas": "2"})
    produce(cluster, RECORDS)
    cluster.await_true(lambda: cluster.everybody_in_sync("orders"), "all three hold them")
    cluster.brokers[3].kill()
    cluster.await_true(lambda: cluster.count("orders", "cardinality(isr) = 2") == 3, "one is out of sync")
    cluster.await_true(lambda: cluster.newest_version_is_applied((1, 2)), "the others have heard it")
    switch_over(cluster)
    led = f"leader IN (1, 2) AND unproven = 0 AND leader_epoch > {LIFT}"
    cluster.await_true(lambda: cluster.count("orders", led) == 3, "all are led behind the lift")
    assert cluster.query("SELECT count(*) FROM election_loss") == [(0,)]
    produce(cluster, RECORDS)
    cluster.start_broker(3)
    cluster.await_true(lambda: cluster.everybody_in_sync("orders"), "the third one has copied the rest")
    found = cluster.read_everything("orders", 3)
    assert sum(len(values) for values in found.values()) == 2 * RECORDS
    assert cluster.query("SELECT count(*) FROM election_loss") == [(0,)]
