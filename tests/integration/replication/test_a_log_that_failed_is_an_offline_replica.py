"""Metadata names a replica whose log its broker could not open as offline, at every door, until it can."""

import asyncio
from typing import Any

from confluent_kafka import Producer

from muster.kafkawire.api_table import ApiKey
from tests.integration.replication.cluster import Cluster
from tests.integration.replication.test_partitions_move_to_another_broker import reassign
from tests.unit.gateway.doors import Peer


async def ask(address: str) -> dict[int, tuple[int, ...]]:
    """What one door says of the partitions of `orders`: who of their replicas is offline."""
    host, _, port = address.rpartition(":")
    try:
        peer = Peer(*await asyncio.open_connection(host, int(port)))
    except OSError:
        return {}
    try:
        body: Any = await peer.ask(
            ApiKey.METADATA,
            12,
            topics=None,
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=False,
        )
    except (EOFError, OSError):
        return {}
    finally:
        peer.close()
    partitions = [one for topic in body.topics if topic.name == "orders" for one in topic.partitions]
    return {one.partition_index: tuple(one.offline_replicas) for one in partitions}


def fill(cluster: Cluster, partitions: int) -> None:
    """A record in each log: one that holds nothing has no folder yet."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "log_level": 0})
    for number in range(partitions):
        producer.produce("orders", value=b"1", partition=number)
    assert producer.flush(60.0) == 0


def doors(cluster: Cluster) -> list[str]:
    """Of the node and of every broker."""
    [(node,)] = cluster.query("SELECT addresses ->> 'kafka' FROM node_session WHERE NOT ended")
    return [str(node), *(f"127.0.0.1:{client}" for client, _ in cluster.ports.values())]


def everybody_says(cluster: Cluster, *offline: tuple[int, ...]) -> bool:
    expected = dict(enumerate(offline))
    return all(asyncio.run(ask(address)) == expected for address in doors(cluster))


def test_a_file_that_is_no_segment_makes_one_replica_offline_and_its_removal_heals_it(
    cluster: Cluster,
) -> None:
    cluster.start((1, 2))
    cluster.create_topic("orders", 2, replicas=2)
    cluster.await_true(lambda: cluster.everybody_in_sync("orders"), "both hold them")
    fill(cluster, 2)
    cluster.await_true(lambda: everybody_says(cluster, (), ()), "nothing is offline")

    cluster.end(2)
    odd = cluster.data(2) / "partitions" / "orders-0" / "odd.log"
    odd.touch()
    cluster.start_broker(2)
    cluster.wait_until_ready((2,))
    cluster.await_true(lambda: everybody_says(cluster, (2,), ()), "one log of a broker that lives is offline")
    assert cluster.live_brokers() == {1, 2}

    cluster.end(2)
    odd.unlink()
    cluster.start_broker(2)
    cluster.wait_until_ready((2,))
    cluster.await_true(lambda: everybody_says(cluster, (), ()), "it is sound again")
    cluster.await_true(lambda: cluster.everybody_in_sync("orders"), "and comes back")


def test_a_partition_that_moves_away_takes_the_word_with_it(cluster: Cluster) -> None:
    cluster.start()
    cluster.create_topic("orders", 1, replicas=2)
    cluster.await_true(lambda: cluster.everybody_in_sync("orders"), "both hold it")
    fill(cluster, 1)
    assigned = cluster.partitions("orders")[0]["assigned"]
    bad = next(one for one in assigned if one != cluster.leader_of("orders"))
    good, other = cluster.leader_of("orders"), next(iter({1, 2, 3} - set(assigned)))

    cluster.end(bad)
    (cluster.data(bad) / "partitions" / "orders-0" / "odd.log").touch()
    cluster.start_broker(bad)
    cluster.wait_until_ready((bad,))
    cluster.await_true(lambda: everybody_says(cluster, (bad,)), "its log is offline")

    assert asyncio.run(reassign(cluster, {0: (good, other)})) == {0: 0}
    cluster.await_true(lambda: everybody_says(cluster, ()), "another holds it")
    assert set(cluster.partitions("orders")[0]["assigned"]) == {good, other}
