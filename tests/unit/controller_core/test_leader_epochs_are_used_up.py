"""Where leader epochs are used up nobody is elected any more, and no number is written that has no room."""

import pytest

from controller.core.election import LAST_EPOCH
from controller.core.events import Heard, LinkClosed, RequestSeat, TimePassed
from controller.core.records import PossibleLoss
from controller.core.settings import ControllerSettings
from muster.kernel.error_codes import ErrorCode
from muster.messages.link.from_broker import (
    AlterReassignments,
    ElectLeaders,
    RemovePartitions,
    WantedReplicas,
)
from muster.messages.link.protocol import REMOVES
from muster.messages.link.rows import NO_LEADER, PartitionRow
from muster.messages.link.to_broker import ElectionResults
from tests.unit.controller_core.stage import FRESH, ORDERS, Cluster, heard, hello, row, said

UNCLEAN = {"unclean.leader.election.enable": "true"}
AT_ONCE = ControllerSettings(
    leader_imbalance_check_interval_ms=1_000, leader_imbalance_per_broker_percentage=0
)


def dies(cluster: Cluster, *brokers: int) -> None:
    cluster.turn(*(LinkClosed(f"link-{b}a") for b in brokers))
    cluster.later(1_000)
    cluster.turn(TimePassed())


def stands(partition: PartitionRow) -> tuple[int, int, tuple[int, ...]]:
    return partition.leader, partition.leader_epoch, partition.isr


def test_the_election_that_is_left_is_the_last_one() -> None:
    cluster = Cluster([row(0, (1, 2, 3), 1, (1, 2, 3), LAST_EPOCH - 2)])
    dies(cluster, 1)
    assert stands(cluster.partition()) == (2, LAST_EPOCH - 1, (2, 3))
    dies(cluster, 2)
    assert stands(cluster.partition()) == (NO_LEADER, LAST_EPOCH, (2, 3))


@pytest.mark.parametrize("epoch", [LAST_EPOCH - 1, LAST_EPOCH], ids=["as elected", "as written by hand"])
def test_nobody_follows_the_last_leader_and_others_are_elected(epoch: int) -> None:
    cluster = Cluster([row(0, (1, 2), 1, (1, 2), epoch), row(1, (1, 2), 1, (1, 2))])
    dies(cluster, 1)
    assert stands(cluster.partition(0)) == (NO_LEADER, LAST_EPOCH, (1, 2))
    assert (cluster.partition(1).leader, cluster.partition(1).leader_epoch) == (2, 2)


def test_whoever_comes_back_leads_it_no_more_and_nothing_is_written_again() -> None:
    cluster = Cluster([row(0, (1, 2), 1, (1, 2), LAST_EPOCH - 1)], configs=UNCLEAN, settings=AT_ONCE)
    dies(cluster, 1, 2)
    ended = cluster.partition()
    cluster.turn(hello(1, "b"), hello(2, "b"))
    for _ in range(3):
        cluster.later(1_000)
        decision = cluster.turn(TimePassed())
        assert not any(isinstance(one, PossibleLoss) for one in decision.records)
    assert cluster.partition() == ended


def test_no_operator_is_told_of_an_election_that_there_was_not() -> None:
    cluster = Cluster(
        [row(0, (1, 2), 2, (1, 2), LAST_EPOCH - 1), row(1, (1, 2), NO_LEADER, (1,), LAST_EPOCH)]
    )
    for unclean, error in (
        (False, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE),
        (True, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE),
    ):
        frame = ElectLeaders(correlation_id=1, partitions=(("orders", int(unclean)),), unclean=unclean)
        (answer,) = [
            one
            for one in said(cluster.turn(heard("link-3a", frame)), "link-3a")
            if isinstance(one, ElectionResults)
        ]
        assert answer.results[0].error is error and "used up" in answer.results[0].text
    assert cluster.partition(0).leader == 2


def test_it_is_not_given_back_to_who_stands_first() -> None:
    cluster = Cluster([row(0, (1, 2), 2, (1, 2), LAST_EPOCH - 1)], settings=AT_ONCE)
    cluster.later(1_000)
    cluster.turn(TimePassed())
    assert stands(cluster.partition()) == (2, LAST_EPOCH - 1, (1, 2))


def test_a_move_that_drops_a_replica_ends_with_nobody_who_leads() -> None:
    cluster = Cluster([row(0, (1, 2), 1, (1, 2), LAST_EPOCH - 1)])
    wanted = WantedReplicas(topic="orders", partition=0, replicas=(1,))
    cluster.turn(heard("link-3a", AlterReassignments(correlation_id=1, partitions=(wanted,))))
    cluster.turn(TimePassed())
    partition = cluster.partition()
    assert (partition.assigned, partition.leader, partition.leader_epoch) == ((1,), NO_LEADER, LAST_EPOCH)


def test_what_is_removed_in_its_last_epoch_leaves_no_higher_one() -> None:
    rows = [row(0, (1, 2), 1, (1, 2)), row(1, (1, 2), NO_LEADER, (1,), LAST_EPOCH)]
    cluster = Cluster(rows)
    for b in (1, 2, 3):
        cluster.turn(hello(b, protocol=REMOVES))
    frame = RemovePartitions(topic="orders", partition_count=1)
    cluster.turn(Heard(RequestSeat("5", "mira", "too many"), frame, FRESH, ()))
    topic = cluster.state.rows.topics[ORDERS]
    assert (topic.partition_count, topic.removed_epoch) == (1, LAST_EPOCH)
