"""This room shows whom a new owner of the lease counts as live: who was, and nobody who was fenced."""

from controller.core.events import LinkClosed, ProposalsReady, TimePassed, TookOver
from controller.core.proposing import LeaderProposal, Seats, Task
from controller.core.records import WorkOffered
from controller.core.settings import ControllerSettings
from controller.core.state import ClusterState
from muster.messages.link.from_broker import CreateTopics, NewTopic
from tests.unit.controller_core.stage import ORDERS, Cluster, heard, hello, row

FENCED = 3


def taken_over(cluster: Cluster) -> Cluster:
    """Broker 3 dies, and some time later another node takes the lease; 1 and 2 link there."""
    cluster.turn(LinkClosed(f"link-{FENCED}a"))
    cluster.later(1_000)
    cluster.turn(TimePassed())
    assert not cluster.state.rows.brokers[FENCED].live
    cluster.state = ClusterState(cluster.state.rows)
    cluster.turn(TookOver(8))
    for b in (1, 2):
        cluster.turn(hello(b))
    return cluster


def test_a_broker_that_was_fenced_before_is_not_elected() -> None:
    """The floor keeps it in the ISR; it had nine seconds in which it could lead."""
    cluster = taken_over(Cluster([row(0, (1, 3, 2), 1, (1, 3))], configs={"min.insync.replicas": "2"}))
    cluster.turn(LinkClosed("link-1a"))
    cluster.later(1_000)
    cluster.turn(TimePassed())
    assert (cluster.partition().leader, cluster.partition().isr) == (-1, (1, 3))

    cluster.turn(hello(1, run="b"))
    assert cluster.partition().leader == 1


def test_no_new_partition_is_given_to_it() -> None:
    cluster = taken_over(Cluster())
    wanted = CreateTopics(
        correlation_id=1, topics=(NewTopic(name="clicks", partition_count=6),), timeout_ms=30_000
    )
    cluster.turn(heard("link-1a", wanted))
    assert {b for one in cluster.state.rows.partitions.values() for b in one.assigned} == {1, 2}


def test_the_election_that_a_worker_finished_meanwhile_is_adopted() -> None:
    cluster = Cluster([row(n, (3, 1, 2), 3, (1, 2, 3)) for n in range(4)])
    cluster.turn(LinkClosed("link-3a"))
    cluster.later(1_000)
    cluster.settings = ControllerSettings(max_changed_in_bulk=2)
    offered = cluster.turn(TimePassed()).records
    assert any(isinstance(one, WorkOffered) and one.key == "3" for one in offered)
    cluster.state = ClusterState(cluster.state.rows)
    cluster.turn(TookOver(8))

    proposal = LeaderProposal(Seats(ORDERS, (3, 1, 2), 3, (1, 2, 3)), 1, (1, 2))
    cluster.turn(ProposalsReady(1, Task.BROKER_CHANGE, "3", (proposal,)))
    assert {one.leader for one in cluster.state.rows.partitions.values()} == {1}
