"""This room shows the pass over all partitions: preferred leaders, unclean ones where allowed (173-175)."""

import pytest

from controller.core.events import LinkClosed, TimePassed
from controller.core.records import PossibleLoss
from controller.core.settings import ControllerSettings
from controller.core.turn import heard as pinged
from muster.kernel.error_codes import ErrorCode
from muster.messages.link.condition import Condition, Disk
from muster.messages.link.from_broker import ElectLeaders, Leaving
from muster.messages.link.rows import PartitionRow
from muster.messages.link.to_broker import ElectionResults
from tests.unit.controller_core.stage import Cluster, heard, hello, row, said

INTERVAL_MS = 300_000


def keep_all_alive(cluster: Cluster, ms: int) -> None:
    """Let time pass while every broker that is linked is heard."""
    cluster.later(ms)
    for session in cluster.state.memory.sessions.values():
        session.deadline = type(session.deadline)(cluster.now + 9_000)


def led_by_others(count: int, elsewhere: int) -> list[PartitionRow]:
    """Partitions that broker 1 stands first for; 2 leads the first `elsewhere` of them."""
    return [row(n, (1, 2), 2 if n < elsewhere else 1, (1, 2)) for n in range(count)]


def leaders(cluster: Cluster, count: int) -> list[int]:
    return [cluster.partition(number).leader for number in range(count)]


def test_who_stands_first_leads_again_when_the_interval_has_passed() -> None:
    cluster = Cluster(led_by_others(4, 2))
    keep_all_alive(cluster, INTERVAL_MS - 1)
    cluster.turn(TimePassed())
    assert leaders(cluster, 4) == [2, 2, 1, 1]
    keep_all_alive(cluster, 1)
    decision = cluster.turn(TimePassed())
    assert leaders(cluster, 4) == [1, 1, 1, 1]
    assert cluster.partition(0).leader_epoch == 2
    assert cluster.partition(0).isr == (1, 2)
    assert decision.look_again_at is not None


@pytest.mark.parametrize(("elsewhere", "moved"), [(1, False), (2, True)])
def test_a_broker_that_leads_nearly_all_of_it_is_left_alone(elsewhere: int, moved: bool) -> None:
    cluster = Cluster(led_by_others(10, elsewhere))
    keep_all_alive(cluster, INTERVAL_MS)
    cluster.turn(TimePassed())
    assert (cluster.partition(0).leader == 1) is moved


def test_it_can_be_switched_off() -> None:
    cluster = Cluster(led_by_others(2, 2), settings=ControllerSettings(auto_leader_rebalance=False))
    keep_all_alive(cluster, INTERVAL_MS)
    cluster.turn(TimePassed())
    assert leaders(cluster, 2) == [2, 2]


def test_a_pass_changes_a_bounded_number_and_the_next_follows_soon() -> None:
    cluster = Cluster(led_by_others(5, 5), settings=ControllerSettings(max_elections_per_pass=2))
    for expected in ([1, 1, 2, 2, 2], [1, 1, 1, 1, 2], [1, 1, 1, 1, 1]):
        keep_all_alive(cluster, INTERVAL_MS if expected[2] == 2 else 1_000)
        decision = cluster.turn(TimePassed())
        assert leaders(cluster, 5) == expected
    assert decision.look_again_at is not None
    assert cluster.state.memory.balance_at == cluster.now + INTERVAL_MS


def test_nobody_is_given_back_to_who_leaves_or_is_not_in_sync() -> None:
    cluster = Cluster(
        [row(0, (1, 2), 2, (2,)), row(1, (3, 2), 2, (2, 3))], configs={"min.insync.replicas": "2"}
    )
    cluster.turn(heard("link-3a", Leaving()))
    keep_all_alive(cluster, INTERVAL_MS)
    cluster.turn(TimePassed())
    assert leaders(cluster, 2) == [2, 2]


def test_where_a_topic_came_to_allow_it_the_pass_elects_uncleanly() -> None:
    cluster = Cluster([row(0, (1, 2), 1, (1,))])
    cluster.turn(LinkClosed("link-1a"))
    cluster.later(1_000)
    cluster.turn(TimePassed())
    assert cluster.partition().leader == -1
    (topic_id,) = cluster.state.rows.topics
    topic = cluster.state.rows.topics[topic_id]
    topic.configs["unclean.leader.election.enable"] = "true"
    keep_all_alive(cluster, INTERVAL_MS)
    decision = cluster.turn(TimePassed())
    assert (cluster.partition().leader, cluster.partition().isr) == (2, (2,))
    assert [one for one in decision.records if isinstance(one, PossibleLoss)]
    cluster.turn(hello(1, "b"))
    assert cluster.partition().leader == 2


def says_of_its_disk(cluster: Cluster, usable_bytes: int) -> None:
    """Broker 1, which keeps 100 bytes back, says with a ping how much is left."""
    condition = Condition(disk=Disk(1_000, usable_bytes, 100))
    assert pinged(cluster.state.memory, "link-1a", 5, cluster.now, cluster.settings, condition)


def test_nothing_is_given_back_to_a_full_disk_until_it_has_room() -> None:
    cluster = Cluster(led_by_others(2, 2))
    says_of_its_disk(cluster, 99)
    keep_all_alive(cluster, INTERVAL_MS)
    # What changes nothing is not said again: a ping without a condition says that it is as it was.
    assert pinged(cluster.state.memory, "link-1a", 5, cluster.now, cluster.settings)
    cluster.turn(TimePassed())
    assert leaders(cluster, 2) == [2, 2]
    says_of_its_disk(cluster, 100)
    keep_all_alive(cluster, INTERVAL_MS)
    cluster.turn(TimePassed())
    assert leaders(cluster, 2) == [1, 1]


def test_a_full_disk_is_full_on_the_next_link_too() -> None:
    cluster = Cluster(led_by_others(1, 1))
    says_of_its_disk(cluster, 0)
    cluster.turn(LinkClosed("link-1a"))
    cluster.turn(hello(1))
    keep_all_alive(cluster, INTERVAL_MS)
    cluster.turn(TimePassed())
    assert leaders(cluster, 1) == [2]


def test_whoever_asks_for_the_preferred_leader_is_told_that_its_disk_is_full() -> None:
    cluster = Cluster(led_by_others(1, 1))
    says_of_its_disk(cluster, 0)
    cluster.turn(LinkClosed("link-1a"))
    frame = ElectLeaders(correlation_id=1, partitions=None)
    (answer,) = said(cluster.turn(heard("link-3a", frame)), "link-3a")
    assert isinstance(answer, ElectionResults)
    [result] = answer.results
    assert result.error is ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    assert result.text == "broker 1 takes no records: its disk is full"
    assert leaders(cluster, 1) == [2]


def test_a_full_disk_still_leads_what_nobody_else_can() -> None:
    cluster = Cluster([row(0, (1, 2), 2, (1, 2))])
    says_of_its_disk(cluster, 0)
    cluster.turn(LinkClosed("link-2a"))
    cluster.later(1_000)
    cluster.turn(TimePassed())
    assert leaders(cluster, 1) == [1]
