"""This room shows that a broker with very many partitions comes back in several turns, each bounded."""

from controller.core.draft import ClusterDecision
from controller.core.events import LinkClosed, TimePassed
from controller.core.records import PartitionsChanged, PossibleLoss
from controller.core.settings import ControllerSettings
from controller.core.state import NOTHING_LOST
from muster.kernel.error_codes import ErrorCode
from muster.messages.link.to_broker import HelloAccepted, HelloRefused
from tests.unit.controller_core.stage import Cluster, hello, row, said

TEN_A_TURN = ControllerSettings(max_changed_in_bulk=10)


def changed(decision: ClusterDecision) -> int:
    return sum(len(r.alike.partitions) for r in decision.records if isinstance(r, PartitionsChanged))


def test_the_death_before_a_hello_is_spread_over_turns_and_the_hello_waits_for_the_last() -> None:
    cluster = Cluster([row(n, (1, 2, 3), 1, (1, 2, 3)) for n in range(25)], settings=TEN_A_TURN)
    cluster.turn(LinkClosed("link-1a"))
    for _ in range(2):
        decision = cluster.turn(hello(1, run="b"))
        [refused] = said(decision, "link-1b")
        assert isinstance(refused, HelloRefused) and refused.error is ErrorCode.BROKER_NOT_AVAILABLE
        assert changed(decision) == 10
        assert not cluster.state.rows.brokers[1].live
        assert cluster.state.memory.broker_of("link-1b") is None

    decision = cluster.turn(hello(1, run="b"))
    assert isinstance(said(decision, "link-1b")[0], HelloAccepted) and changed(decision) == 5
    assert {(one.leader, one.leader_epoch, one.isr) for one in cluster.state.rows.partitions.values()} == {
        (2, 2, (2, 3))
    }


def test_who_is_alone_leads_again_turn_by_turn_and_every_possible_loss_is_noted() -> None:
    cluster = Cluster([row(n, (1,), 1, (1,)) for n in range(25)], settings=TEN_A_TURN)
    cluster.turn(LinkClosed("link-1a"))
    cluster.later(1_000)
    cluster.turn(TimePassed())
    decisions = [cluster.turn(hello(1, run="b", lost_tail=True))]
    while cluster.state.memory.returning or not cluster.state.memory.sessions.get(1):
        cold = 1 not in cluster.state.memory.sessions
        decisions.append(cluster.turn(*([hello(1, run="b", lost_tail=True)] if cold else [])))
        assert len(decisions) < 10

    assert all(changed(one) <= 10 for one in decisions)
    assert {one.leader for one in cluster.state.rows.partitions.values()} == {1}
    losses = [record for one in decisions for record in one.records if isinstance(record, PossibleLoss)]
    assert sorted(loss.partition for loss in losses) == list(range(25))
    assert decisions[-1].look_again_at != cluster.now, "and then there is nothing to go on with"


def test_what_is_left_of_a_return_is_forgotten_with_the_session() -> None:
    cluster = Cluster([row(n, (1,), -1, (1,)) for n in range(105)], settings=TEN_A_TURN)
    assert cluster.state.memory.returning == {1: NOTHING_LOST}
    cluster.turn(LinkClosed("link-1a"))
    cluster.later(1_000)
    cluster.turn(TimePassed())
    cluster.turn(TimePassed())
    assert cluster.state.memory.returning == {}
