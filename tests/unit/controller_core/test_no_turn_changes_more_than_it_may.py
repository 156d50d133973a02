"""This room shows that a broker with very many partitions comes back in several turns, each bounded."""

from uuid import UUID

from controller.core.draft import ClusterDecision
from controller.core.events import LinkClosed, ProposalsReady, TimePassed, TookOver
from controller.core.proposing import Task
from controller.core.records import PartitionsChanged, PossibleLoss, WorkOffered
from controller.core.settings import ControllerSettings
from controller.core.state import NOTHING_LOST, ClusterRows, ClusterState
from controller.core.turn import decide
from muster.kernel.error_codes import ErrorCode
from muster.messages.link.from_broker import UnusableLogs
from muster.messages.link.rows import BrokerRow, PartitionRow, TopicRow
from muster.messages.link.to_broker import HelloAccepted, HelloRefused
from tests.unit.controller_core.stage import ORDERS, START, Cluster, heard, hello, row, said

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


def test_who_dies_again_before_its_partitions_were_all_given_away_is_not_forgotten() -> None:
    cluster = Cluster([row(n, (1, 2, 3), 1, (1, 2, 3)) for n in range(25)], settings=TEN_A_TURN)
    cluster.turn(LinkClosed("link-1a"))
    decision = cluster.turn(hello(1, run="b"))
    [offered] = [record for record in decision.records if isinstance(record, WorkOffered)]
    assert (offered.kind, offered.key) == (Task.BROKER_CHANGE, "1")
    again = cluster.turn(hello(1, run="b"))
    assert not [record for record in again.records if isinstance(record, WorkOffered)], "once is enough"

    cluster.turn(ProposalsReady("item", Task.BROKER_CHANGE, "1", ()))
    assert {one.leader for one in cluster.state.rows.partitions.values()} == {2}


def test_proposals_are_adopted_to_the_end_though_the_rows_are_read_again_in_another_order() -> None:
    topics = [TopicRow(UUID(int=n), f"topic-{n}", 10, 3) for n in (1, 3, 2)]
    partitions = [
        PartitionRow(topic.topic_id, n, (1, 2, 3), 1, 1, (1, 2, 3), 5) for topic in topics for n in range(10)
    ]
    brokers = [BrokerRow(b, 1, "a", {}, live=b != 1) for b in (1, 2, 3)]
    state = ClusterState(ClusterRows.of("cluster-1", 5, 1_000, brokers, topics, partitions))
    ready = ProposalsReady("item", Task.BROKER_CHANGE, "1", ())
    for events in ([TookOver(7)], [ready], []):
        state = decide(state, events, START, TEN_A_TURN).state
    assert state.memory.adopting

    rows = state.rows
    in_order = sorted(rows.partitions.values(), key=lambda one: (one.topic_id, one.partition))
    reloaded = ClusterRows.of(
        "cluster-1", rows.metadata_version, 1_000, rows.brokers.values(), topics, in_order
    )
    state = ClusterState(reloaded, state.memory)
    while state.memory.adopting:
        state = decide(state, [], START, TEN_A_TURN).state
    assert {one.leader for one in state.rows.partitions.values()} == {2}


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


def test_a_disk_that_is_gone_gives_its_partitions_away_turn_by_turn() -> None:
    cluster = Cluster([row(n, (1, 2, 3), 1, (1, 2, 3)) for n in range(25)], settings=TEN_A_TURN)
    failed = tuple((ORDERS, n) for n in range(25))
    decisions = [cluster.turn(heard("link-1a", UnusableLogs(failed=failed)))]
    assert len(cluster.state.memory.unusable[1]) == 25, "from the first turn on it is elected nowhere"
    while cluster.state.memory.is_unfinished:
        assert decisions[-1].look_again_at == cluster.now
        decisions.append(cluster.turn(TimePassed()))
    assert [changed(one) for one in decisions] == [10, 10, 5]
    assert {(one.leader, one.isr) for one in cluster.state.rows.partitions.values()} == {(2, (2, 3))}


def test_what_is_usable_again_meanwhile_is_given_to_nobody() -> None:
    cluster = Cluster([row(n, (1, 2), 1, (1, 2)) for n in range(12)], settings=TEN_A_TURN)
    failed = tuple((ORDERS, n) for n in range(12))
    cluster.turn(heard("link-1a", UnusableLogs(failed=failed)))
    cluster.turn(heard("link-1a", UnusableLogs(usable=failed[10:])))
    assert [cluster.partition(n).leader for n in (9, 10, 11)] == [2, 1, 1]
    assert not cluster.state.memory.giving_away
