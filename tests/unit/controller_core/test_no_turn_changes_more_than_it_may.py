"""This room shows that what concerns very many partitions is done in several turns, each of them bounded."""

from dataclasses import replace
from uuid import UUID

import msgspec

from controller.core.draft import ClusterDecision
from controller.core.events import LinkClosed, ProposalsReady, TimePassed, TookOver
from controller.core.proposing import Task
from controller.core.reassignment import LOOKS_PER_TURN
from controller.core.records import (
    MovesFailed,
    PartitionsChanged,
    Phase,
    PossibleLoss,
    Reassignment,
    ReassignmentChanged,
    TopicDeleted,
    TurnStamped,
    WorkOffered,
)
from controller.core.settings import ControllerSettings
from controller.core.state import NOTHING_LOST, ClusterRows, ClusterState
from controller.core.turn import decide
from muster.kernel.error_codes import ErrorCode
from muster.messages.link.from_broker import (
    AlterReassignments,
    DeleteTopics,
    ElectLeaders,
    NamedTopic,
    UnusableLogs,
    WantedReplicas,
)
from muster.messages.link.rows import BrokerRow, PartitionRow, TopicRow
from muster.messages.link.to_broker import (
    Changes,
    ElectionResults,
    HelloAccepted,
    HelloRefused,
    ReassignmentResults,
    SnapshotChunk,
)
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


def _come_back_alone() -> tuple[Cluster, ClusterDecision]:
    """Broker 1, alone with 25 partitions, comes back without its tail; the first turn elects it for ten."""
    partitions = [row(n, (1, 2), 1, (1,)) for n in range(25)]
    cluster = Cluster(partitions, settings=TEN_A_TURN)
    cluster.turn(LinkClosed("link-1a"), LinkClosed("link-2a"))
    cluster.later(1_000)
    cluster.turn(TimePassed())
    while any(one.leader != -1 for one in cluster.state.rows.partitions.values()):
        cluster.turn(ProposalsReady("item", Task.BROKER_CHANGE, "1", ()))
    return cluster, cluster.turn(hello(1, run="b", lost_tail=True))


def _noted(cluster: Cluster) -> list[int]:
    return sorted(partition for _, partition, _ in cluster.state.rows.losses)


def test_whoever_elects_who_came_back_without_its_tail_notes_the_possible_loss() -> None:
    cluster, _ = _come_back_alone()
    assert len(_noted(cluster)) == 10
    cluster.turn(hello(2))
    everything = ElectLeaders(correlation_id=7, partitions=None, unclean=False)
    cluster.turn(heard("link-2a", everything))
    while cluster.state.memory.returning:
        cluster.turn()
    assert {one.leader for one in cluster.state.rows.partitions.values()} == {1}
    assert _noted(cluster) == list(range(25))


def test_what_is_usable_again_meanwhile_does_not_hide_what_its_broker_has_lost() -> None:
    cluster, _ = _come_back_alone()
    cluster.turn(heard("link-1b", UnusableLogs(failed=((ORDERS, 24),))))
    cluster.turn(heard("link-1b", UnusableLogs(usable=((ORDERS, 24),))))
    while cluster.state.memory.returning:
        cluster.turn()
    assert _noted(cluster) == list(range(25))


def test_who_lost_its_tail_is_told_that_it_was_heard_when_all_its_elections_are_over() -> None:
    cluster, first = _come_back_alone()
    assert said(first, "link-1b") == []
    second = cluster.turn()
    assert said(second, "link-1b") == [], "nor what this turn changed: it has no snapshot yet"
    third = cluster.turn()
    accepted, chunk = said(third, "link-1b")
    assert isinstance(accepted, HelloAccepted) and isinstance(chunk, SnapshotChunk)
    assert [one.leader for one in chunk.partitions] == [1] * 25
    assert cluster.state.memory.returning == {}
    fourth = cluster.turn(hello(2))
    assert any(isinstance(one, Changes) for one in said(fourth, "link-1b"))


def test_and_so_the_next_owner_hears_what_it_has_lost() -> None:
    cluster, _ = _come_back_alone()
    cluster.state = ClusterState(cluster.state.rows)
    cluster.turn(TookOver(8))
    cluster.turn(hello(1, run="b", lost_tail=True))
    while cluster.state.memory.returning:
        cluster.turn()
    assert {one.leader for one in cluster.state.rows.partitions.values()} == {1}
    assert _noted(cluster) == list(range(25))


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


def wanted(count: int) -> AlterReassignments:
    """Broker 4 in the place of broker 3, for the first partitions of orders."""
    moves = (WantedReplicas(topic="orders", partition=n, replicas=(1, 2, 4)) for n in range(count))
    return AlterReassignments(correlation_id=4, partitions=tuple(moves))


def moves_written(decision: ClusterDecision) -> int:
    return sum(isinstance(record, ReassignmentChanged) for record in decision.records)


def test_moves_that_were_asked_for_together_begin_turn_by_turn() -> None:
    rows = [row(n, (1, 2, 3), 1, (1, 2, 3)) for n in range(25)]
    cluster = Cluster(rows, brokers=4, settings=TEN_A_TURN)
    decisions = [cluster.turn(heard("link-1a", wanted(25)))]
    while cluster.state.memory.is_unfinished:
        assert decisions[-1].look_again_at == cluster.now
        decisions.append(cluster.turn(TimePassed()))
    assert [changed(one) for one in decisions] == [10, 10, 5]


def test_one_request_moves_as_many_partitions_as_a_turn_can_write_and_refuses_the_others() -> None:
    few = replace(ControllerSettings(), max_partitions_per_request=10)
    cluster = Cluster([row(n, (1, 2, 3), 1, (1, 2, 3)) for n in range(25)], brokers=4, settings=few)
    decision = cluster.turn(heard("link-1a", wanted(25)))
    [answer] = [one for one in said(decision, "link-1a") if isinstance(one, ReassignmentResults)]
    assert [one.error for one in answer.results] == [ErrorCode.NONE] * 10 + [ErrorCode.POLICY_VIOLATION] * 15
    assert "ask for this one in another" in answer.results[10].text
    assert len(cluster.state.rows.reassignments) == 10


def answers(decision: ClusterDecision) -> list[ReassignmentResults]:
    return [one for one in said(decision, "link-1a") if isinstance(one, ReassignmentResults)]


def test_a_request_of_many_moves_takes_several_turns_and_is_answered_whole_in_the_last() -> None:
    ten = replace(ControllerSettings(), max_altered_in_a_turn=10)
    cluster = Cluster([row(n, (1, 2, 3), 1, (1, 2, 3)) for n in range(24)], brokers=4, settings=ten)
    decision = cluster.turn(heard("link-1a", wanted(25)))
    assert (moves_written(decision), answers(decision)) == (10, [])
    assert decision.look_again_at == cluster.now
    # What is asked for meanwhile comes behind it.
    cancelled = WantedReplicas(topic="orders", partition=0)
    decision = cluster.turn(heard("link-1a", AlterReassignments(correlation_id=5, partitions=(cancelled,))))
    assert (moves_written(decision), answers(decision)) == (10, [])
    first, second = answers(cluster.turn(TimePassed()))
    assert (first.correlation_id, second.correlation_id) == (4, 5)
    assert [one.partition for one in first.results] == list(range(25))
    assert {one.error for one in first.results[:24]} == {ErrorCode.NONE}
    assert first.results[24].error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (ORDERS, 0) not in cluster.state.rows.reassignments and len(cluster.state.rows.reassignments) == 23
    assert not cluster.state.memory.is_unfinished


def test_a_partition_that_is_named_twice_is_refused_in_whatever_turn_it_is_named() -> None:
    ten = replace(ControllerSettings(), max_altered_in_a_turn=10)
    cluster = Cluster([row(n, (1, 2, 3), 1, (1, 2, 3)) for n in range(24)], brokers=4, settings=ten)
    twice = msgspec.structs.replace(wanted(12), partitions=(*wanted(12).partitions, *wanted(1).partitions))
    assert answers(cluster.turn(heard("link-1a", twice))) == []
    [answer] = answers(cluster.turn(TimePassed()))
    refused = [place for place, one in enumerate(answer.results) if one.error]
    assert refused == [0, 12] and "twice" in answer.results[12].text


def test_a_new_owner_goes_on_with_no_request_of_a_link_and_keeps_what_was_asked_for() -> None:
    ten = replace(ControllerSettings(), max_altered_in_a_turn=10)
    cluster = Cluster([row(n, (1, 2, 3), 1, (1, 2, 3)) for n in range(24)], brokers=4, settings=ten)
    cluster.turn(heard("link-1a", wanted(24)))
    state = ClusterState(cluster.state.rows)
    decision = decide(state, [TookOver(8)], cluster.now, ten)
    assert not decision.state.memory.altering
    assert len(decision.state.rows.reassignments) == 10


def test_what_is_asked_for_while_as_many_moves_wait_as_may_is_refused() -> None:
    """A topic that is deleted ends all of its moves in one transaction, and in one record of it."""
    few = replace(ControllerSettings(), max_waiting_reassignments=10, max_reassignments=0)
    cluster = Cluster([row(n, (1, 2, 3), 1, (1, 2, 3)) for n in range(25)], brokers=4, settings=few)
    for asked, refused in ((8, 0), (25, 15)):
        decision = cluster.turn(heard("link-1a", wanted(asked)))
        [answer] = [one for one in said(decision, "link-1a") if isinstance(one, ReassignmentResults)]
        errors = [one.error for one in answer.results]
        assert errors == [ErrorCode.NONE] * (asked - refused) + [ErrorCode.POLICY_VIOLATION] * refused
    assert "store a plan" in answer.results[-1].text

    decision = cluster.turn(heard("link-1a", DeleteTopics(topics=(NamedTopic(name="orders"),))))
    assert moves_written(decision) == 0 and not cluster.state.rows.reassignments
    assert sum(isinstance(record, MovesFailed) for record in decision.records) == 1, "however many they are"
    assert not len(cluster.state.memory.waiting)


def test_of_a_hundred_thousand_moves_that_wait_a_turn_looks_at_a_thousand() -> None:
    """None of them has room: 1, 2, 3 and 4 are as busy as they may be."""
    count = 5_000
    busy = replace(ControllerSettings(), max_reassignments_per_broker=0)
    rows = [row(n, (1, 2, 3), 1, (1, 2, 3)) for n in range(count)]
    moves = [
        Reassignment(UUID(int=n + 1), ORDERS, "orders", n, (1, 2, 3), (1, 2, 4), Phase.INIT)
        for n in range(count)
    ]
    brokers = [BrokerRow(b, 1, "a", {}) for b in (1, 2, 3, 4)]
    topic = TopicRow(ORDERS, "orders", count, 3)
    state = ClusterState(ClusterRows.of("cluster-1", 5, 1_000, brokers, [topic], rows, moves))
    turns = 0
    decision = decide(state, [TookOver(7)], START, busy)
    while decision.state.memory.reassigning:
        turns += 1
        assert decision.look_again_at == START and moves_written(decision) == 0
        decision = decide(decision.state, [TimePassed()], START, busy)
    assert turns == count // LOOKS_PER_TURN, "and once all of them were looked at, they wait for a place"
    assert decision.look_again_at != START


def test_one_request_elects_as_many_leaders_as_a_turn_may() -> None:
    rows = [row(n, (1, 2, 3), 2, (1, 2, 3)) for n in range(25)]
    cluster = Cluster(rows, settings=replace(TEN_A_TURN, auto_leader_rebalance=False))
    decision = cluster.turn(heard("link-1a", ElectLeaders(correlation_id=4, partitions=None)))
    [answer] = [one for one in said(decision, "link-1a") if isinstance(one, ElectionResults)]
    errors = [one.error for one in answer.results]
    assert errors == [ErrorCode.NONE] * 10 + [ErrorCode.REQUEST_TIMED_OUT] * 15
    assert changed(decision) == 10


def test_a_look_at_all_leaders_changes_as_many_as_a_pass_may_and_the_next_comes_soon() -> None:
    rows = [row(n, (1, 2, 3), 2, (1, 2, 3)) for n in range(25)]
    cluster = Cluster(rows, settings=replace(ControllerSettings(), max_elections_per_pass=10))
    passes = []
    while any(one.leader == 2 for one in cluster.state.rows.partitions.values()):
        cluster.state.memory.balance_at = cluster.now
        passes.append(changed(cluster.turn(TimePassed())))
        assert len(passes) < 10
    assert passes == [10, 10, 5]


def test_a_topic_of_any_size_is_deleted_by_one_record() -> None:
    """Its rows go by one statement, and brokers are told one id, however many partitions it had."""
    cluster = Cluster([row(n, (1, 2, 3), 1, (1, 2, 3)) for n in range(2_000)], settings=TEN_A_TURN)
    decision = cluster.turn(heard("link-1a", DeleteTopics(topics=(NamedTopic(name="orders"),))))
    assert [type(record) for record in decision.records] == [TurnStamped, TopicDeleted]
    [told] = [frame for frame in said(decision, "link-2a") if isinstance(frame, Changes)]
    assert told.deleted_topics == (ORDERS,) and not told.stop_replica
