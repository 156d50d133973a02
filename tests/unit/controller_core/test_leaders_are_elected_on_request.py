"""This room shows elections that somebody asks for (conformance 208, 209)."""

import msgspec

from controller.core.events import LinkClosed, TimePassed
from controller.core.records import PossibleLoss
from controller.core.settings import ControllerSettings
from muster.kernel.error_codes import ErrorCode
from muster.messages.link.from_broker import ElectLeaders
from muster.messages.link.to_broker import ElectionResults
from tests.unit.controller_core.stage import Cluster, heard, row, said


def elect(cluster: Cluster, *partitions: int | None, unclean: bool = False) -> dict[int, ErrorCode]:
    """The errors by partition, asked for over the link of broker 3; no partitions: all."""
    named = tuple(("orders", number) for number in partitions if number is not None) if partitions else None
    frame = ElectLeaders(correlation_id=1, partitions=named, unclean=unclean, principal="olga")
    answers = [one for one in said(cluster.turn(heard("link-3a", frame)), "link-3a")]
    (answer,) = [one for one in answers if isinstance(one, ElectionResults)]
    return {one.partition: one.error for one in answer.results}


def dies(cluster: Cluster, *brokers: int) -> None:
    cluster.turn(*(LinkClosed(f"link-{b}a") for b in brokers))
    cluster.later(1_000)
    cluster.turn(TimePassed())


def test_the_preferred_leader_leads_again_if_it_is_live_and_in_sync() -> None:
    cluster = Cluster([row(0, (1, 2, 3), 2, (1, 2, 3)), row(1, (1, 2), 2, (2,)), row(2, (2, 1), 2, (2, 1))])
    errors = elect(cluster, 0, 1, 2, 9)
    assert errors == {
        0: ErrorCode.NONE,
        1: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        2: ErrorCode.ELECTION_NOT_NEEDED,
        9: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert (cluster.partition(0).leader, cluster.partition(0).leader_epoch) == (1, 2)
    assert cluster.partition(0).isr == (1, 2, 3)
    assert cluster.partition(1).leader == 2


def test_of_all_partitions_those_that_need_none_are_left_out() -> None:
    cluster = Cluster([row(0, (1, 2, 3), 2, (1, 2, 3)), row(1, (2, 1), 2, (2, 1))])
    assert elect(cluster) == {0: ErrorCode.NONE}


def test_who_is_dead_or_about_to_stop_is_not_preferred() -> None:
    cluster = Cluster([row(0, (1, 2), 2, (1, 2))], configs={"min.insync.replicas": "2"})
    dies(cluster, 1)
    assert elect(cluster, 0) == {0: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE}


def test_an_unclean_election_elects_whoever_lives_and_is_journalled_with_its_loss() -> None:
    cluster = Cluster([row(0, (1, 2), 1, (1,)), row(1, (3, 1), 3, (3, 1))])
    dies(cluster, 1)
    assert cluster.partition(0).leader == -1
    frame = ElectLeaders(
        correlation_id=1, partitions=(("orders", 0), ("orders", 1)), unclean=True, principal="olga"
    )
    decision = cluster.turn(heard("link-3a", frame))
    (answer,) = [one for one in said(decision, "link-3a") if isinstance(one, ElectionResults)]
    assert [one.error for one in answer.results] == [ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED]
    assert (cluster.partition(0).leader, cluster.partition(0).isr) == (2, (2,))
    (loss,) = [one for one in decision.records if isinstance(one, PossibleLoss)]
    assert (loss.leader, loss.reason) == (2, "unclean election asked for by olga")


def test_what_a_move_is_still_adding_is_elected_uncleanly_after_everybody_else() -> None:
    partition = msgspec.structs.replace(row(0, (3, 2, 1), 1, (1,)), adding=(3,))
    cluster = Cluster([partition], configs={"unclean.leader.election.enable": "true"})
    dies(cluster, 1)
    assert (cluster.partition(0).leader, cluster.partition(0).isr) == (2, (2,))
    dies(cluster, 2)
    assert (cluster.partition(0).leader, cluster.partition(0).isr) == (3, (3,))


def test_without_a_live_replica_nobody_is_eligible() -> None:
    cluster = Cluster([row(0, (1, 2), 1, (1,))])
    dies(cluster, 1, 2)
    assert elect(cluster, 0, unclean=True) == {0: ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE}


def test_a_partition_that_nobody_ever_led_loses_nothing() -> None:
    cluster = Cluster([row(0, (1, 2), -1, (), epoch=0)])
    frame = ElectLeaders(correlation_id=1, partitions=None, unclean=True)
    decision = cluster.turn(heard("link-3a", frame))
    assert (cluster.partition(0).leader, cluster.partition(0).isr) == (1, (1, 2))
    assert not [one for one in decision.records if isinstance(one, PossibleLoss)]


def test_one_request_elects_no_more_than_a_turn_may_change() -> None:
    many = [row(number, (1, 2), 2, (1, 2)) for number in range(3)]
    cluster = Cluster(many, settings=ControllerSettings(max_changed_in_bulk=2))
    assert list(elect(cluster).values()) == [ErrorCode.NONE, ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT]
    assert elect(cluster) == {2: ErrorCode.NONE}
