"""This room shows how the controller asks what an unclean election lost, hears it, and lets people see it."""

from controller.core.events import LinkClosed, RequestSeat, TimePassed
from controller.core.loss_rows import Cut, Loss
from controller.core.records import LossChanged, PossibleLoss, RequestAnswered
from muster.kernel.error_codes import ErrorCode
from muster.messages.link.from_broker import BrokerPing, DeleteTopics, ElectLeaders, NamedTopic
from muster.messages.link.losses import (
    NOT_KNOWN,
    AcknowledgeLosses,
    LossAsked,
    LossReport,
    LossResults,
    NamedLoss,
)
from muster.messages.link.to_broker import Changes, SnapshotChunk
from tests.unit.controller_core.stage import ORDERS, Cluster, heard, hello, row, said

SEAT = RequestSeat("1", "olga", "we know")
EPOCH = 3


def elected() -> Cluster:
    """Broker 1, alone in sync, died; broker 2 was elected uncleanly in leader epoch 3."""
    cluster = Cluster([row(0, (1, 2, 3), 1, (1,))])
    cluster.turn(LinkClosed("link-1a"))
    cluster.later(1_000)
    cluster.turn(TimePassed())
    wish = ElectLeaders(correlation_id=1, partitions=(("orders", 0),), unclean=True, principal="olga")
    cluster.turn(heard("link-3a", wish))
    assert cluster.partition().leader_epoch == EPOCH
    return cluster


def loss(cluster: Cluster) -> Loss:
    [found] = cluster.state.rows.losses.values()
    return found


def report(end_offset: int, cut_to: int) -> BrokerPing:
    told = LossReport(ORDERS, 0, EPOCH, end_offset, cut_to, end_offset, 10 * (end_offset - cut_to))
    return BrokerPing(number=1, metadata_version=9, losses=(told,))


def acknowledged(**named: object) -> AcknowledgeLosses:
    stated = {"topic": "orders", "partition": 0, "leader_epoch": EPOCH} | named
    return AcknowledgeLosses(losses=(NamedLoss(**stated),))  # type: ignore[arg-type]


def answer(cluster: Cluster, wish: AcknowledgeLosses) -> ErrorCode:
    decision = cluster.turn(heard(SEAT, wish))  # type: ignore[arg-type]
    [told] = [one.answer for one in decision.records if isinstance(one, RequestAnswered)]
    assert isinstance(told, LossResults)
    return told.results[0].error


def test_every_broker_hears_of_the_election_with_its_row() -> None:
    cluster = Cluster([row(0, (1, 2), 1, (1,))])
    cluster.turn(LinkClosed("link-1a"))
    cluster.later(1_000)
    cluster.turn(TimePassed())
    wish = ElectLeaders(correlation_id=1, partitions=(("orders", 0),), unclean=True)
    decision = cluster.turn(heard("link-3a", wish))
    [changes] = [one for one in said(decision, "link-2a") if isinstance(one, Changes)]
    assert changes.losses == (LossAsked(ORDERS, 0, EPOCH, 2),)
    [noted] = [one for one in decision.records if isinstance(one, PossibleLoss)]
    assert (noted.leader_epoch, noted.isr) == (EPOCH, (1,))
    assert loss(cluster).isr == (1,) and loss(cluster).start_offset is None


def test_who_comes_back_hears_of_it_with_its_snapshot() -> None:
    cluster = elected()
    decision = cluster.turn(hello(1, "b"))
    chunks = [one for one in said(decision, "link-1b") if isinstance(one, SnapshotChunk)]
    assert [one for chunk in chunks for one in chunk.losses] == [LossAsked(ORDERS, 0, EPOCH, 2)]


def test_the_leader_tells_where_it_began_and_is_told_that_it_was_heard() -> None:
    cluster = elected()
    decision = cluster.turn(heard("link-2a", report(90, 90)))
    assert loss(cluster).start_offset == 90
    [changes] = [one for one in said(decision, "link-2a") if isinstance(one, Changes)]
    assert changes.losses == (LossAsked(ORDERS, 0, EPOCH, 2, (2,)),)


def test_one_that_does_not_know_is_believed() -> None:
    cluster = elected()
    cluster.turn(heard("link-2a", report(NOT_KNOWN, NOT_KNOWN)))
    assert loss(cluster).start_offset == NOT_KNOWN and loss(cluster).told == (2,)


def test_the_old_leader_tells_what_was_cut_of_it() -> None:
    cluster = elected()
    cluster.turn(hello(1, "b"))
    cluster.turn(heard("link-1b", report(120, 90)))
    assert loss(cluster).cuts == (Cut(1, 120, 90, 120, 300),)


def test_told_twice_it_is_told_once() -> None:
    cluster = elected()
    cluster.turn(heard("link-2a", report(90, 90)))
    decision = cluster.turn(heard("link-2a", report(95, 95)))
    assert decision.records == () and loss(cluster).start_offset == 90


def test_of_an_election_that_lost_nothing_nothing_is_kept() -> None:
    cluster = Cluster([row(0, (1, 2), 1, (1,))])
    assert cluster.turn(heard("link-2a", report(90, 90))).records == ()


def test_people_acknowledge_it_and_what_is_told_later_is_kept() -> None:
    cluster = elected()
    assert answer(cluster, acknowledged()) is ErrorCode.NONE
    known = loss(cluster)
    assert (known.acknowledged_by, known.acknowledged_why) == ("olga", "we know")
    assert answer(cluster, acknowledged()) is ErrorCode.NONE, "asked twice it is done once"
    cluster.turn(heard("link-2a", report(90, 90)))
    assert loss(cluster).start_offset == 90 and loss(cluster).acknowledged


def test_when_all_who_knew_have_told_and_somebody_has_seen_it_nobody_is_asked_any_more() -> None:
    cluster = elected()
    cluster.turn(heard("link-2a", report(90, 90)))
    cluster.turn(hello(1, "b"))
    cluster.turn(heard("link-1b", report(120, 90)))
    assert loss(cluster).told == (2, 1)
    decision = cluster.turn(heard(SEAT, acknowledged()))  # type: ignore[arg-type]
    assert cluster.state.rows.losses == {}
    [changes] = [one for one in said(decision, "link-3a") if isinstance(one, Changes)]
    assert 3 in changes.losses[0].told, "a replica that was not in sync may stop asking itself, too"
    [changed] = [one for one in decision.records if isinstance(one, LossChanged)]
    assert changed.row.is_over


def test_what_was_not_looked_at_is_not_acknowledged() -> None:
    cluster = elected()
    seen = loss(cluster).version
    cluster.turn(heard("link-2a", report(90, 90)))
    assert answer(cluster, acknowledged(expected_version=seen)) is ErrorCode.INVALID_UPDATE_VERSION
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert answer(cluster, acknowledged(leader_epoch=2)) is unknown
    assert answer(cluster, acknowledged(topic="clicks")) is unknown
    assert not loss(cluster).acknowledged


def test_it_goes_with_its_topic() -> None:
    cluster = elected()
    cluster.turn(heard("link-3a", DeleteTopics(topics=(NamedTopic(name="orders"),))))
    assert cluster.state.rows.losses == {}
    assert cluster.turn(heard("link-2a", report(90, 90))).records == ()


def test_who_leads_alone_with_a_lost_tail_is_asked_as_well() -> None:
    cluster = Cluster([row(0, (1, 2), 1, (1,))])
    cluster.turn(LinkClosed("link-1a"))
    cluster.later(1_000)
    cluster.turn(TimePassed())
    cluster.turn(hello(1, "b", lost_tail=True))
    assert (loss(cluster).leader, loss(cluster).isr) == (1, (1,))
    assert loss(cluster).leader_epoch == cluster.partition().leader_epoch
    told = LossReport(ORDERS, 0, loss(cluster).leader_epoch, 40, 40)
    cluster.turn(heard("link-1b", BrokerPing(number=1, metadata_version=9, losses=(told,))))
    assert loss(cluster).start_offset == 40
    assert {loss(cluster).leader, *loss(cluster).isr} <= set(loss(cluster).told)
