"""Behind a backup whoever holds the records leads, not who is in sync by its rows and comes first."""

from tests.integration.replication.cluster import Cluster
from tests.integration.replication.test_what_an_unclean_election_lost_is_told import cuts, loss, produce

BEFORE, SINCE = 100, 50
"""Records of before the backup, and acknowledged ones behind it, which one broker lacks."""

KEPT = ("cluster", "broker", "partition")


def back_up(cluster: Cluster) -> None:
    """A copy of the rows, as a dump has them."""
    for table in KEPT:
        cluster.execute(f"CREATE TABLE of_then_{table} AS TABLE {table}")


def read_in(cluster: Cluster) -> None:
    """All processes have ended; the rows are those of the copy, which is adopted."""
    columns = {
        "cluster": "metadata_version, next_producer_id",
        "broker": "broker_epoch, incarnation, endpoints, fenced, leaving, metadata_version",
        "partition": "leader, leader_epoch, isr, version, unproven",
    }
    joined = {
        "cluster": "true",
        "broker": "broker.broker_id = kept.broker_id",
        "partition": "partition.id = kept.id",
    }
    for table, names in columns.items():
        values = ", ".join(f"kept.{name}" for name in names.split(", "))
        source = f"FROM of_then_{table} AS kept WHERE {joined[table]}"
        cluster.execute(f"UPDATE {table} SET ({names}) = ROW({values}) {source}")
    cluster.manage("adopt_restore")


def fell_behind(cluster: Cluster) -> tuple[int, set[int]]:
    """Who is in sync by the rows, will come first and lacks records; the others hold all."""
    cluster.create_topic("orders", 1, configs={"min.insync.replicas": "2"})
    produce(cluster, BEFORE)
    cluster.await_true(lambda: cluster.everybody_in_sync("orders"), "all three hold them")
    # As sessions end, lower ids leave the in-sync replicas first, as far as min.insync.replicas allows.
    first = 3
    back_up(cluster)
    cluster.brokers[first].kill()
    others = {1, 2, 3} - {first}
    cluster.await_true(lambda: set(cluster.partitions("orders")[0]["isr"]) == others, "two are in sync")
    produce(cluster, SINCE)
    for process in (*cluster.nodes.values(), *(cluster.brokers[one] for one in others)):
        process.kill()
    read_in(cluster)
    row = cluster.partitions("orders")[0]
    assert set(row["isr"]) == {1, 2, 3} and row["leader"] == -1
    return first, others


def test_who_holds_the_records_leads_though_another_is_in_sync_and_comes_first(cluster: Cluster) -> None:
    cluster.start()
    first, others = fell_behind(cluster)
    cluster.start_node()
    cluster.await_true(lambda: not cluster.live_brokers(), "who was live then is missed by now")
    cluster.start_broker(first)
    cluster.wait_until_ready((first,))
    assert cluster.leaders("orders")[0] == -1, "the others may hold more"
    for one in others:
        cluster.start_broker(one)
    assert cluster.leader_of("orders") in others
    cluster.await_true(lambda: cluster.everybody_in_sync("orders"), "the first one has copied the rest")
    [found] = cluster.read_everything("orders", 1).values()
    assert len(found) == BEFORE + SINCE
    assert cluster.query("SELECT count(*) FROM election_loss") == [(0,)]
    cluster.await_true(lambda: cluster.logs_are_equal("orders"), "the replicas are equal")
    told = "SELECT summary -> 'logs_compared' FROM journal WHERE summary ? 'logs_compared'"
    [[words]] = cluster.query(told)
    assert f"{BEFORE} (broker {first}, epoch" in str(words) and str(words).count(str(BEFORE + SINCE)) == 2


def test_who_came_too_late_tells_what_it_held(cluster: Cluster) -> None:
    cluster.start()
    first, others = fell_behind(cluster)
    cluster.start_node(MUSTER_UNPROVEN_PATIENCE_MS="500")
    cluster.start_broker(first)
    assert cluster.leader_of("orders") == first
    noted = loss(cluster)
    assert noted["leader"] == first and set(noted["isr"]) >= others
    for one in others:
        cluster.start_broker(one)
    cluster.await_true(lambda: cuts(cluster).keys() == others, "they tell what was cut")
    assert all(told[:2] == [BEFORE + SINCE, BEFORE] for told in cuts(cluster).values())
