"""This room shows a controlled shutdown: others lead first, then the broker may go (162, 163)."""

from controller.core.election import Choice, Policy, after_leaving
from controller.core.events import LinkClosed, TimePassed, TookOver
from controller.core.leaving import is_anybody_released
from controller.core.settings import ControllerSettings
from controller.core.turn import heard
from muster.messages.link.from_broker import AlterPartition, IsrProposal, Leaving
from muster.messages.link.to_broker import Changes, MayLeave
from tests.unit.controller_core.stage import ORDERS, Cluster, hello, row, said
from tests.unit.controller_core.stage import heard as frame_heard


def leaves(cluster: Cluster, broker_id: int) -> list[object]:
    """Broker `broker_id` says that it will stop; what it is told."""
    return list(said(cluster.turn(frame_heard(f"link-{broker_id}a", Leaving())), f"link-{broker_id}a"))


def all_have_applied(cluster: Cluster, *brokers: int) -> None:
    version = cluster.state.rows.metadata_version
    for b in brokers:
        assert heard(cluster.state.memory, f"link-{b}a", version, cluster.now, cluster.settings)


def live_brokers(cluster: Cluster) -> set[int]:
    return {b for b, row in cluster.state.rows.brokers.items() if row.live}


def test_another_member_leads_before_it_goes_and_its_seat_is_given_up() -> None:
    cluster = Cluster([row(0, (1, 2, 3), 1, (1, 2, 3)), row(1, (2, 1, 3), 2, (1, 2, 3))])
    assert not any(isinstance(frame, MayLeave) for frame in leaves(cluster, 1))
    led, followed = cluster.partition(0), cluster.partition(1)
    assert (led.leader, led.leader_epoch, led.isr) == (2, 2, (2, 3))
    assert (followed.leader, followed.leader_epoch, followed.isr) == (2, 1, (2, 3))
    assert cluster.state.rows.brokers[1].live
    assert cluster.state.rows.brokers[1].leaving


def test_it_may_go_when_every_live_broker_has_applied_what_was_moved() -> None:
    cluster = Cluster([row(0, (1, 2, 3), 1, (1, 2, 3))])
    leaves(cluster, 1)
    all_have_applied(cluster, 1, 2)
    assert not is_anybody_released(cluster.state.memory)
    assert said(cluster.turn(TimePassed()), "link-1a") == []
    all_have_applied(cluster, 3)
    assert is_anybody_released(cluster.state.memory)
    assert said(cluster.turn(TimePassed()), "link-1a") == [MayLeave()]
    assert said(cluster.turn(TimePassed()), "link-1a") == [], "it is told once"


def test_once_it_may_go_the_end_of_its_link_is_its_end() -> None:
    cluster = Cluster([row(0, (1, 2, 3), 1, (1, 2, 3)), row(1, (1,), 1, (1,))])
    leaves(cluster, 1)
    assert cluster.partition(1).leader == 1, "what nobody else can lead it leads to its end"
    all_have_applied(cluster, 1, 2, 3)
    cluster.turn(TimePassed())
    cluster.turn(LinkClosed("link-1a"))
    assert not cluster.state.rows.brokers[1].live
    assert not cluster.state.rows.brokers[1].leaving
    assert (cluster.partition(1).leader, cluster.partition(1).isr) == (-1, (1,))


def test_killed_before_it_may_go_it_dies_as_others_do() -> None:
    cluster = Cluster([row(0, (1, 2, 3), 1, (1, 2, 3))])
    leaves(cluster, 1)
    cluster.turn(LinkClosed("link-1a"))
    assert live_brokers(cluster) == {1, 2, 3}
    cluster.later(1_000)
    cluster.turn(TimePassed())
    assert live_brokers(cluster) == {2, 3}
    cluster.turn(hello(1, "b"))
    assert not cluster.state.rows.brokers[1].leaving


def test_the_floor_keeps_its_seat_though_others_lead() -> None:
    cluster = Cluster([row(0, (1, 2), 1, (1, 2))], configs={"min.insync.replicas": "2"})
    leaves(cluster, 1)
    assert (cluster.partition().leader, cluster.partition().isr) == (2, (1, 2))


def test_nothing_unclean_is_done_for_it_nor_while_it_is_there() -> None:
    cluster = Cluster(
        [row(0, (1, 2), 1, (1,)), row(1, (1, 2, 3), 2, (1, 2))],
        configs={"unclean.leader.election.enable": "true", "min.insync.replicas": "2"},
    )
    leaves(cluster, 1)
    assert cluster.partition(0).leader == 1
    cluster.turn(LinkClosed("link-2a"))
    cluster.later(1_000)
    cluster.turn(TimePassed())
    assert (cluster.partition(1).leader, cluster.partition(1).isr) == (-1, (1, 2))


def test_where_nobody_leads_it_keeps_its_seat() -> None:
    """Its records may be the only ones that come back soon."""
    led_by_nobody, nobody = row(0, (1, 2, 3), -1, (1, 2)), frozenset[int]()
    assert after_leaving(led_by_nobody, 1, nobody, Policy(1, unclean=True)) is None
    assert after_leaving(row(0, (1, 2, 3), 2, (1, 2)), 1, {2}, Policy(1, unclean=True)) == Choice(2, (2,))


def test_it_is_neither_elected_nor_admitted() -> None:
    cluster = Cluster([row(0, (1, 2), 2, (2,)), row(1, (2, 1), 2, (1, 2))], configs={})
    leaves(cluster, 1)
    version = cluster.partition(0).version
    asked = IsrProposal(topic_id=ORDERS, partition=0, base_version=version, isr=(1, 2), broker_epochs={1: 1})
    cluster.turn(frame_heard("link-2a", AlterPartition(proposals=(asked,))))
    assert cluster.partition(0).isr == (2,)
    cluster.turn(LinkClosed("link-2a"))
    cluster.later(1_000)
    cluster.turn(TimePassed())
    assert [cluster.partition(number).leader for number in (0, 1)] == [-1, -1]


def test_who_comes_into_its_isr_takes_over() -> None:
    cluster = Cluster([row(0, (1, 2), 1, (1,))])
    leaves(cluster, 1)
    version = cluster.partition().version
    asked = IsrProposal(topic_id=ORDERS, partition=0, base_version=version, isr=(1, 2), broker_epochs={2: 1})
    cluster.turn(frame_heard("link-1a", AlterPartition(proposals=(asked,))))
    assert (cluster.partition().leader, cluster.partition().isr) == (2, (2,))


def test_a_new_controller_elects_nobody_who_leaves_and_hears_of_it_again() -> None:
    cluster = Cluster([row(0, (1, 2), 2, (1, 2))], configs={"min.insync.replicas": "2"})
    leaves(cluster, 1)
    cluster.turn(TookOver(8))
    cluster.later(cluster.settings.broker_session_timeout_ms - 1)
    cluster.turn(hello(1, leaving=True))
    cluster.later(1)
    cluster.turn(TimePassed())
    assert cluster.partition().leader == -1
    all_have_applied(cluster, 1)
    assert said(cluster.turn(TimePassed()), "link-1a") == [MayLeave()]


def test_what_one_turn_has_no_room_for_is_moved_in_the_next() -> None:
    many = [row(number, (1, 2, 3), 1, (1, 2, 3)) for number in range(5)]
    cluster = Cluster(many, settings=ControllerSettings(max_changed_in_bulk=2))
    leaves(cluster, 1)
    assert [cluster.partition(number).leader for number in range(5)] == [2, 2, 1, 1, 1]
    for _ in range(2):
        all_have_applied(cluster, 1, 2, 3)
        assert not is_anybody_released(cluster.state.memory)
        assert cluster.turn(TimePassed()).records
    assert {cluster.partition(number).leader for number in range(5)} == {2}


def test_all_may_leave_at_once() -> None:
    cluster = Cluster([row(0, (1, 2, 3), 1, (1, 2, 3))])
    cluster.turn(*(frame_heard(f"link-{b}a", Leaving()) for b in (1, 2, 3)))
    all_have_applied(cluster, 1, 2, 3)
    decision = cluster.turn(TimePassed())
    assert all(said(decision, f"link-{b}a") == [MayLeave()] for b in (1, 2, 3))


def test_the_others_are_told_who_leaves() -> None:
    cluster = Cluster([row(0, (1, 2, 3), 1, (1, 2, 3))])
    decision = cluster.turn(frame_heard("link-1a", Leaving()))
    told = [frame for frame in said(decision, "link-3a") if isinstance(frame, Changes)]
    assert [one.broker_id for frame in told for one in frame.brokers if one.leaving] == [1]
