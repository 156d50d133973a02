"""A broker that holds nothing is unregistered: its secret opens nothing, and its id may come again."""

import asyncio
from typing import Any

from confluent_kafka.cimpl import NewTopic

from muster.kafkawire.api_table import ApiKey, build, request_class
from tests.integration.replication.cluster import PATIENCE_S, Cluster
from tests.integration.replication.test_partitions_move_to_another_broker import reassign
from tests.unit.broker_data_plane.planes import client

DUPLICATE, NOT_REGISTERED, HOLDS_REPLICAS = 101, 102, 44


def unregister(cluster: Cluster, broker_id: int) -> tuple[int, str | None]:
    """What broker 1 answers to whoever asks it."""

    async def ask() -> Any:
        key = ApiKey.UNREGISTER_BROKER
        async with client(cluster.ports[1][0]) as tool:
            return await tool.ask(key, 0, build(request_class(key, 0), broker_id=broker_id))

    answer = asyncio.run(ask())
    return int(answer.error_code), answer.error_message


def stop(cluster: Cluster, broker_id: int) -> None:
    cluster.end(broker_id)
    cluster.await_true(lambda: broker_id not in cluster.live_brokers(), "it is missed")


def test_a_broker_leaves_the_cluster_and_another_comes_under_its_id(cluster: Cluster) -> None:
    cluster.start()
    admin = cluster.admin()
    made = admin.create_topics(
        [NewTopic("orders", num_partitions=1, replica_assignment=[[1, 3]])], operation_timeout=20.0
    )
    made["orders"].result(timeout=40)
    error, text = unregister(cluster, 3)
    assert (error, text) == (DUPLICATE, "broker 3 is live: stop it first")
    stop(cluster, 3)
    error, text = unregister(cluster, 3)
    assert error == HOLDS_REPLICAS and text is not None
    assert text == "broker 3 still holds 1 replica, of orders (1): move them to others first"

    assert asyncio.run(reassign(cluster, {0: (1, 2)})) == {0: 0}
    cluster.await_true(lambda: cluster.partitions("orders")[0]["assigned"] == [1, 2], "it has moved")
    epoch = cluster.query("SELECT broker_epoch FROM broker WHERE broker_id = 3")[0][0]
    assert unregister(cluster, 3) == (0, None)
    assert cluster.query("SELECT count(*) FROM broker WHERE broker_id = 3") == [(0,)]
    assert unregister(cluster, 3)[0] == NOT_REGISTERED
    (told,) = cluster.query("SELECT summary FROM journal WHERE summary ? 'brokers_unregistered'")
    assert told[0]["brokers_unregistered"] == [3]  # type: ignore[index]

    # Its secret is good for nothing any more.
    process = cluster.start_broker(3)
    (node,) = cluster.nodes.values()
    cluster.await_true(lambda: "no valid secret" in node.tail(), "it is refused")
    assert 3 not in cluster.live_brokers()
    process.popen.terminate()
    process.popen.wait(timeout=PATIENCE_S)
    cluster.enroll(3)
    cluster.start_broker(3)
    cluster.await_true(lambda: cluster.live_brokers() == {1, 2, 3}, "it is let in")
    # On the folder of before: an epoch that nobody had, and no proof that the database was set back.
    assert cluster.query("SELECT broker_epoch > %s, set_back FROM broker WHERE broker_id = 3", epoch) == [
        (True, "")
    ]
    assert asyncio.run(reassign(cluster, {0: (3, 1)})) == {0: 0}
    cluster.await_true(lambda: cluster.partitions("orders")[0]["assigned"] == [3, 1], "it holds it again")
    cluster.await_true(lambda: cluster.everybody_in_sync("orders"), "it follows or leads")
