"""Three brokers register, a topic is placed on them, and what is produced lies on all of them."""

import socket
from typing import Any

from kafkaserver.version import own_version
from muster.kafkawire.api_table import ApiKey, build, request_class
from runtime.nodes import FIRST_NODE_ID
from tests.integration.replication.cluster import Cluster, Producing, nothing_lost_nothing_twice
from tests.unit.kafkawire.asking import ClientConnection


def test_three_brokers_hold_a_topic(cluster: Cluster) -> None:
    cluster.start()
    cluster.await_true(lambda: cluster.live_brokers() == {1, 2, 3}, "all have registered")
    cluster.create_topic("orders", partitions=6, replicas=3)
    cluster.await_true(
        lambda: sorted(cluster.leaders("orders").values()) == [1, 1, 2, 2, 3, 3], "each leads two"
    )
    cluster.await_true(lambda: cluster.everybody_in_sync("orders"), "all are in sync")
    producing = Producing(cluster, "orders", 6)
    cluster.await_true(lambda: producing.acknowledged_count >= 600, "600 records are acknowledged")
    producing.finish()
    assert producing.refused == []
    nothing_lost_nothing_twice(producing, cluster.read_everything("orders", 6))
    cluster.await_true(lambda: cluster.logs_are_equal("orders"), "the replicas are equal")
    cluster.await_true(lambda: _everybody_is_listed(cluster), "every door tells of everybody")
    cluster.await_true(
        lambda: cluster.query("SELECT sum(high_watermark) FROM partition_progress")[0][0] == producing.sent,
        "the pages see how far the partitions got",
    )
    cluster.await_true(
        lambda: (
            {version for (version,) in cluster.query("SELECT version FROM broker_condition")}
            == {own_version()}
        ),
        "the pages see which version each runs",
    )
    assert f'muster_broker_build_info{{version="{own_version()}"}} 1' in cluster.probe(1, "metrics")[1]


def _everybody_is_listed(cluster: Cluster) -> bool:
    """Metadata names brokers, node and leaders, and each broker names the node that coordinates a group."""
    listed = cluster.admin().list_topics(timeout=10)
    if set(listed.brokers) != {1, 2, 3, FIRST_NODE_ID}:
        return False
    node: Any = listed.brokers[FIRST_NODE_ID]
    told = {_coordinator(cluster.ports[broker_id][0], "billing") for broker_id in (1, 2, 3)}
    leaders = {partition.leader for partition in listed.topics["orders"].partitions.values()}
    return told == {(0, FIRST_NODE_ID, node.host, node.port)} and leaders == {1, 2, 3}


def _coordinator(port: int, group: str) -> tuple[int, int, str, int]:
    """What the broker at `port` says of a group: error, node, host, port."""
    wire = ClientConnection("ann")
    question = build(request_class(ApiKey.FIND_COORDINATOR, 3), key=group, key_type=0)
    _, frame = wire.request(ApiKey.FIND_COORDINATOR, 3, question)
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(frame)
        while not (replies := wire.receive_data(connection.recv(4096))):
            pass
    told = replies[0].body
    return int(told.error_code), int(told.node_id), told.host, told.port
