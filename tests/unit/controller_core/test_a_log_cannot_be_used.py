"""This room shows what becomes of partitions whose log a living broker can neither read nor write."""

from controller.core.events import Heard, LinkClosed, TimePassed
from muster.kernel.error_codes import ErrorCode
from muster.messages.link.from_broker import AlterPartition, IsrProposal, UnusableLogs
from muster.messages.link.to_broker import AlterPartitionAnswer
from tests.unit.controller_core.stage import ORDERS, Cluster, heard, hello, row, said


def told(b: int, *numbers: int) -> Heard:
    return heard(f"link-{b}a", UnusableLogs(failed=tuple((ORDERS, number) for number in numbers)))


def told_usable(b: int, *numbers: int) -> Heard:
    return heard(f"link-{b}a", UnusableLogs(usable=tuple((ORDERS, number) for number in numbers)))


def test_its_leadership_moves_and_the_other_partitions_stay() -> None:
    cluster = Cluster([row(n, (1, 2, 3), 1, (1, 2, 3)) for n in range(2)])
    cluster.turn(told(1, 0))
    failed, other = cluster.partition(0), cluster.partition(1)
    assert (failed.leader, failed.leader_epoch, failed.isr) == (2, 2, (2, 3))
    assert (other.leader, other.leader_epoch, other.isr) == (1, 1, (1, 2, 3))


def test_a_followers_seat_is_given_up_as_far_as_the_floor_allows() -> None:
    cluster = Cluster(
        [row(0, (1, 2), 1, (1, 2)), row(1, (1, 2, 3), 1, (1, 2, 3))], configs={"min.insync.replicas": "2"}
    )
    cluster.turn(told(2, 0, 1))
    assert cluster.partition(0).isr == (1, 2)
    assert cluster.partition(1).isr == (1, 3)


def test_the_death_of_another_does_not_elect_it() -> None:
    cluster = Cluster([row(0, (1, 2), 1, (1, 2))], configs={"min.insync.replicas": "2"})
    cluster.turn(told(2, 0))
    cluster.turn(LinkClosed("link-1a"))
    cluster.later(1_000)
    cluster.turn(TimePassed())
    assert (cluster.partition().leader, cluster.partition().isr) == (-1, (1, 2))


def test_the_only_member_leads_again_when_its_log_is_whole() -> None:
    cluster = Cluster([row(0, (1, 2), 1, (1,))])
    cluster.turn(told(1, 0))
    assert (cluster.partition().leader, cluster.partition().isr) == (-1, (1,))
    cluster.turn(told_usable(1, 0))
    assert (cluster.partition().leader, cluster.partition().leader_epoch) == (1, 3)


def test_a_hello_that_repeats_it_elects_nobody_for_a_moment() -> None:
    cluster = Cluster([row(0, (1, 2), 1, (1,))])
    cluster.turn(told(1, 0))
    cluster.turn(LinkClosed("link-1a"))
    assert cluster.turn(hello(1, unusable_logs=((ORDERS, 0),))).records == ()
    cluster.turn(LinkClosed("link-1a"))
    cluster.turn(hello(1, run="b"))
    assert cluster.partition().leader == 1, "another process could open it"


def test_it_is_not_admitted_to_the_isr() -> None:
    cluster = Cluster([row(0, (1, 2, 3), 1, (1, 2))])
    cluster.turn(told(3, 0))
    asked = IsrProposal(topic_id=ORDERS, partition=0, base_version=5, isr=(1, 2, 3), broker_epochs={3: 1})
    [answer] = said(cluster.turn(heard("link-1a", AlterPartition(proposals=(asked,)))), "link-1a")
    assert isinstance(answer, AlterPartitionAnswer)
    assert answer.answers[0].error is ErrorCode.INELIGIBLE_REPLICA


def test_a_partition_that_it_does_not_hold_is_not_its_to_speak_of() -> None:
    cluster = Cluster([row(0, (1, 2), 1, (1, 2))])
    assert cluster.turn(told(3, 0, 7)).records == ()


def test_what_failed_before_stays_failed_when_more_is_said() -> None:
    cluster = Cluster([row(n, (1, 2), 1, (1, 2)) for n in range(2)], configs={"min.insync.replicas": "2"})
    cluster.turn(told(2, 0))
    cluster.turn(told(2, 1))
    assert cluster.state.memory.unusable == {2: {(ORDERS, 0), (ORDERS, 1)}}
    cluster.turn(told_usable(2, 0))
    assert cluster.state.memory.unusable == {2: {(ORDERS, 1)}}
