"""This room shows reassignment: asked, begun, switched, cancelled (002 E; conformance 186 to 198)."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest

from controller.core.draft import ClusterDecision
from controller.core.events import Heard, TimePassed, TookOver
from controller.core.records import MovesFailed, Phase, Reassignment, ReassignmentChanged
from controller.core.settings import ControllerSettings
from controller.core.state import ClusterRows, after_records
from controller.outcomes import Result
from muster.kernel.error_codes import ErrorCode
from muster.messages.link.from_broker import (
    AlterPartition,
    AlterReassignments,
    CreatePartitions,
    DeleteTopics,
    GrownTopic,
    IsrProposal,
    ListReassignments,
    NamedTopic,
    WantedReplicas,
)
from muster.messages.link.rows import PartitionRow
from muster.messages.link.to_broker import (
    Changes,
    OngoingReassignment,
    OngoingReassignments,
    ReassignmentResult,
    ReassignmentResults,
)
from tests.unit.controller_core.stage import ORDERS, Cluster, heard, hello, row, said

ALL = (1, 2, 3)


def cluster_of(*rows: PartitionRow, brokers: int = 4, minimum: int = 1, **settings: Any) -> Cluster:
    made = replace(ControllerSettings(default_min_insync_replicas=minimum), **settings)
    return Cluster(rows or [row(0, ALL, 1, ALL)], brokers=brokers, settings=made)


def ask(
    cluster: Cluster, replicas: tuple[int, ...] | None, partition: int = 0, **wish: bool
) -> tuple[ClusterDecision, ReassignmentResult]:
    """A turn that is asked for one partition; the turn and what it answers."""
    wanted = WantedReplicas(topic="orders", partition=partition, replicas=replicas)
    frame = AlterReassignments(correlation_id=4, partitions=(wanted,), principal="mira", **wish)
    decision = cluster.turn(Heard("link-1a", frame, uuid4()))
    [answer] = [one for one in said(decision, "link-1a") if isinstance(one, ReassignmentResults)]
    return decision, answer.results[0]


def test_only_what_was_looked_at_is_moved_and_cancelled() -> None:
    cluster = cluster_of()
    version = cluster.partition(0).version

    def asked(replicas: tuple[int, ...] | None, **looked_at: Any) -> ErrorCode:
        wanted = WantedReplicas(topic="orders", partition=0, replicas=replicas, **looked_at)
        frame = AlterReassignments(correlation_id=4, partitions=(wanted,))
        said_now = said(cluster.turn(Heard("link-1a", frame, uuid4())), "link-1a")
        [answer] = [one for one in said_now if isinstance(one, ReassignmentResults)]
        return answer.results[0].error

    stale = ErrorCode.INVALID_UPDATE_VERSION
    assert asked((4, 2, 3), expected_version=version + 1) is stale
    assert asked(None, expected_move=uuid4()) is stale
    assert asked((4, 2, 3), expected_version=version) is ErrorCode.NONE
    assert asked(None, expected_move=uuid4()) is stale
    active = cluster.state.rows.reassignments[ORDERS, 0]
    assert asked(None, expected_move=active.id) is ErrorCode.NONE


def in_sync(cluster: Cluster, *isr: int, partition: int = 0) -> ClusterDecision:
    """The leader says who is in sync, as its row's leader."""
    now = cluster.partition(partition)
    epochs = {b: cluster.state.rows.brokers[b].broker_epoch for b in isr}
    proposal = IsrProposal(
        topic_id=ORDERS, partition=partition, base_version=now.version, isr=isr, broker_epochs=epochs
    )
    return cluster.turn(heard(f"link-{now.leader}a", AlterPartition(proposals=(proposal,))))


def die(cluster: Cluster, broker_id: int) -> None:
    cluster.state.memory.sessions[broker_id].deadline = cluster.now
    cluster.turn(TimePassed())
    assert broker_id not in cluster.state.memory.sessions


def changed(decision: ClusterDecision) -> list[Reassignment]:
    return [one.row for one in decision.records if isinstance(one, ReassignmentChanged)]


def loaded(rows: ClusterRows) -> ClusterRows:
    """What a new owner would load."""
    return ClusterRows.of(
        rows.cluster_id,
        rows.metadata_version,
        rows.next_producer_id,
        rows.brokers.values(),
        rows.topics.values(),
        rows.partitions.values(),
        rows.reassignments.values(),
    )


def seats(row: PartitionRow) -> tuple[object, ...]:
    """Replicas, those that come and go, leader, epoch, and the ISR in the order of its ids."""
    return row.assigned, row.adding, row.removing, row.leader, row.leader_epoch, tuple(sorted(row.isr))


def test_the_new_replica_copies_beside_the_old_ones_and_one_turn_switches_all() -> None:
    cluster = cluster_of()
    began, result = ask(cluster, (4, 2, 3))
    assert result.error is ErrorCode.NONE
    assert seats(cluster.partition()) == ((4, 2, 3, 1), (4,), (1,), 1, 1, ALL)
    [asked] = changed(began)
    assert (asked.phase, asked.origin, asked.target, asked.principal) == (
        Phase.IN_PROGRESS,
        ALL,
        (4, 2, 3),
        "mira",
    )
    done = in_sync(cluster, 4, 2, 3, 1)
    assert seats(cluster.partition()) == ((4, 2, 3), (), (), 4, 2, (2, 3, 4))
    assert [one.phase for one in changed(done)] == [Phase.DONE]
    assert not cluster.state.rows.reassignments
    [told] = [one for one in said(done, "link-1a") if isinstance(one, Changes)]
    assert [alike.partitions for alike in told.stop_replica] == [(0,)]
    assert cluster.state.rows == loaded(cluster.state.rows)
    assert after_records(cluster_of().state.rows, began.records).partitions[ORDERS, 0].adding == (4,)


def test_a_leader_that_stays_keeps_leading_under_another_epoch() -> None:
    cluster = cluster_of()
    ask(cluster, (1, 2, 4))
    in_sync(cluster, 1, 2, 3, 4)
    assert seats(cluster.partition()) == ((1, 2, 4), (), (), 1, 2, (1, 2, 4))


def test_a_replica_more_keeps_leader_and_epoch() -> None:
    cluster = cluster_of()
    ask(cluster, (1, 2, 3, 4))
    in_sync(cluster, 1, 2, 3, 4)
    assert seats(cluster.partition()) == ((1, 2, 3, 4), (), (), 1, 1, (1, 2, 3, 4))
    assert cluster.state.rows.topics[ORDERS].replication_factor == 4


@pytest.mark.parametrize(("target", "epoch"), [((3, 2, 1), 1), ((2, 3), 2), ((1, 2), 2)])
def test_without_a_newcomer_it_is_done_at_once(target: tuple[int, ...], epoch: int) -> None:
    cluster = cluster_of()
    decision, _ = ask(cluster, target)
    [done] = changed(decision)
    now = cluster.partition()
    assert (done.phase, now.assigned, now.leader_epoch) == (Phase.DONE, target, epoch)
    assert now.leader == (1 if 1 in target else target[0])


def test_from_one_replica_to_two_the_floor_is_that_of_one_until_the_switch() -> None:
    """Counted with the newcomer, the partition would stand still while it copies (`floor_counts_adding`)."""
    cluster = cluster_of(row(0, (1,), 1, (1,)), minimum=2)
    ask(cluster, (1, 2))
    assert cluster.partition().settled_count == 1
    in_sync(cluster, 1, 2)
    assert (cluster.partition().settled_count, cluster.partition().isr) == (2, (1, 2))


def test_a_kept_replica_that_is_dead_blocks_no_drain() -> None:
    cluster = cluster_of()
    die(cluster, 3)
    ask(cluster, (4, 2, 3))
    in_sync(cluster, 1, 2, 4)
    assert seats(cluster.partition()) == ((4, 2, 3), (), (), 4, 2, (2, 4))


def test_fewer_than_the_floor_in_sync_do_not_switch() -> None:
    cluster = cluster_of(minimum=2)
    die(cluster, 3)
    ask(cluster, (4, 3))
    in_sync(cluster, 1, 2, 4)
    assert cluster.partition().assigned == (4, 3, 1, 2), "4 alone would hold what two acknowledged"
    cluster.turn(hello(3, "b"))
    in_sync(cluster, 4, 3, 1, 2)
    assert cluster.partition().assigned == (4, 3)


def test_a_dead_target_only_waits() -> None:
    cluster = cluster_of()
    die(cluster, 4)
    ask(cluster, (4, 2, 3))
    cluster.later(86_400_000)
    for broker_id in ALL:
        cluster.state.memory.sessions[broker_id].deadline = cluster.now + 1  # type: ignore[assignment]
    cluster.turn(TimePassed())
    assert cluster.state.rows.reassignments[ORDERS, 0].phase is Phase.IN_PROGRESS


def test_a_cancelled_one_leaves_replicas_as_they_were_and_the_newcomer_behind_an_epoch() -> None:
    cluster = cluster_of()
    ask(cluster, (4, 2, 3))
    decision, result = ask(cluster, None)
    assert result.error is ErrorCode.NONE
    assert seats(cluster.partition()) == (ALL, (), (), 1, 2, ALL)
    [ended] = changed(decision)
    assert (ended.phase, ended.reason) == (Phase.CANCELLED, "cancelled by mira")


def test_a_cancel_that_leaves_fewer_than_the_floor_in_sync_is_refused() -> None:
    """What 1 and 4 acknowledged would lie on 1 alone (`cancel_empties_isr`)."""
    cluster = cluster_of(row(0, (1, 2), 1, (1, 2)), brokers=5, minimum=2)
    die(cluster, 2)
    die(cluster, 5)
    ask(cluster, (1, 4, 5))
    in_sync(cluster, 1, 2, 4)
    in_sync(cluster, 1, 4)
    assert cluster.partition().isr == (1, 4)
    decision, result = ask(cluster, None)
    assert result.error is ErrorCode.INVALID_REPLICA_ASSIGNMENT and result.text
    assert decision.records == ()


def test_nothing_to_cancel_is_said() -> None:
    _, result = ask(cluster_of(), None)
    assert result.error is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


def test_another_target_takes_the_place_of_the_one_under_way() -> None:
    cluster = cluster_of(brokers=5)
    first, _ = ask(cluster, (4, 2, 3))
    second, result = ask(cluster, (5, 2, 3))
    assert result.error is ErrorCode.NONE
    assert seats(cluster.partition()) == ((5, 2, 3, 1), (5,), (1,), 1, 2, ALL), "4 is dropped with an epoch"
    assert [(one.id == changed(first)[0].id, one.phase) for one in changed(second)] == [
        (True, Phase.CANCELLED),
        (False, Phase.IN_PROGRESS),
    ]
    assert cluster.state.rows == loaded(cluster.state.rows)
    ask(cluster, None)
    assert cluster.partition().assigned == ALL


def test_a_newcomer_that_the_new_target_keeps_goes_on_copying() -> None:
    cluster = cluster_of(brokers=5)
    ask(cluster, (4, 2, 3))
    ask(cluster, (4, 5, 3))
    assert seats(cluster.partition()) == ((4, 5, 3, 2, 1), (4, 5), (2, 1), 1, 1, ALL)


@pytest.mark.parametrize(
    ("replicas", "error"),
    [
        ((), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ((1, 1), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ((1, 9), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ((1, 10_001), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ((-1,), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_a_target_that_cannot_be_is_refused(replicas: tuple[int, ...], error: ErrorCode) -> None:
    cluster = cluster_of()
    decision, result = ask(cluster, replicas)
    assert result.error is error and result.text
    assert decision.records == ()


def test_a_partition_that_is_not_there_is_refused() -> None:
    _, result = ask(cluster_of(), ALL, partition=7)
    assert result.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_the_number_of_replicas_stays_where_the_request_says_so() -> None:
    cluster = cluster_of()
    _, result = ask(cluster, (1, 2), may_change_factor=False)
    assert result.error is ErrorCode.INVALID_REPLICATION_FACTOR
    told = Result("partition", "orders", 0, result.error, result.text).words
    assert told == "The partition has 3 replicas, and the request does not allow another number."
    _, result = ask(cluster, (4, 2, 3), may_change_factor=False)
    assert result.error is ErrorCode.NONE


def rows(count: int) -> Iterable[PartitionRow]:
    return (row(number, ALL, 1, ALL) for number in range(count))


def test_no_more_are_in_progress_than_there_is_room_for_and_the_next_begins_when_one_ends() -> None:
    cluster = cluster_of(*rows(3), max_reassignments=2)
    wishes = tuple(WantedReplicas(topic="orders", partition=n, replicas=(4, 2, 3)) for n in range(3))
    cluster.turn(heard("link-1a", AlterReassignments(correlation_id=4, partitions=wishes)))
    assert phases(cluster) == [Phase.IN_PROGRESS, Phase.IN_PROGRESS, Phase.INIT]
    assert cluster.partition(2).assigned == ALL
    in_sync(cluster, 4, 2, 3, 1)
    assert phases(cluster) == [Phase.IN_PROGRESS, Phase.IN_PROGRESS]


def test_no_broker_copies_for_more_than_it_may() -> None:
    cluster = cluster_of(*rows(2), max_reassignments_per_broker=1)
    wishes = tuple(WantedReplicas(topic="orders", partition=n, replicas=(4, 2, 3)) for n in range(2))
    cluster.turn(heard("link-1a", AlterReassignments(correlation_id=4, partitions=wishes)))
    assert phases(cluster) == [Phase.IN_PROGRESS, Phase.INIT]


def phases(cluster: Cluster) -> list[Phase]:
    return [one.phase for one in cluster.state.rows.reassignments.values()]


def test_the_list_names_what_waits_and_what_is_under_way() -> None:
    cluster = cluster_of(*rows(3), max_reassignments=1)
    wishes = tuple(WantedReplicas(topic="orders", partition=n, replicas=(4, 2, 3)) for n in range(2))
    cluster.turn(heard("link-1a", AlterReassignments(correlation_id=4, partitions=wishes)))
    assert listed(cluster, None) == [
        OngoingReassignment("orders", 0, (4, 2, 3, 1), (4,), (1,)),
        OngoingReassignment("orders", 1, (4, 2, 3, 1), (4,), (1,)),
    ]
    assert [one.partition for one in listed(cluster, (("orders", 1), ("clicks", 0)))] == [1]


def listed(cluster: Cluster, partitions: tuple[tuple[str, int], ...] | None) -> list[OngoingReassignment]:
    decision = cluster.turn(heard("link-1a", ListReassignments(correlation_id=5, partitions=partitions)))
    [answer] = said(decision, "link-1a")
    assert isinstance(answer, OngoingReassignments) and decision.records == ()
    return list(answer.ongoing)


def test_a_takeover_goes_on_with_what_is_under_way() -> None:
    cluster = cluster_of()
    ask(cluster, (4, 2, 3))
    cluster.turn(TookOver(8))
    for broker_id in (*ALL, 4):
        cluster.turn(hello(broker_id))
    in_sync(cluster, 4, 2, 3, 1)
    assert cluster.partition().assigned == (4, 2, 3)


def test_a_leader_that_dies_meanwhile_is_followed_and_the_move_goes_on() -> None:
    cluster = cluster_of()
    ask(cluster, (4, 2, 3))
    die(cluster, 1)
    now = cluster.partition()
    assert (now.leader, now.adding, now.removing) == (2, (4,), (1,))
    in_sync(cluster, 4, 2, 3)
    assert seats(cluster.partition()) == ((4, 2, 3), (), (), 2, 3, (2, 3, 4))


def test_a_proposal_made_before_the_switch_is_refused() -> None:
    cluster = cluster_of()
    ask(cluster, (1, 2, 4))
    old = cluster.partition()
    in_sync(cluster, 1, 2, 3, 4)
    proposal = IsrProposal(topic_id=ORDERS, partition=0, base_version=old.version, isr=(1, 3))
    cluster.turn(heard("link-1a", AlterPartition(proposals=(proposal,))))
    assert cluster.partition().isr == (1, 2, 4)


def test_a_deleted_topic_ends_what_moves_it() -> None:
    cluster = cluster_of()
    ask(cluster, (4, 2, 3))
    frame = DeleteTopics(correlation_id=4, topics=(NamedTopic(name="orders"),))
    decision = cluster.turn(heard("link-2a", frame))
    [ended] = [one for one in decision.records if isinstance(one, MovesFailed)]
    assert ended == MovesFailed(ORDERS, (0,), "the topic was deleted")
    assert not cluster.state.rows.reassignments and not cluster.state.rows.moving


def test_a_move_that_is_asked_for_in_the_turn_of_the_deletion_fails_as_well() -> None:
    cluster = cluster_of()
    wanted = WantedReplicas(topic="orders", partition=0, replicas=(4, 2, 3))
    frame = AlterReassignments(correlation_id=4, partitions=(wanted,))
    decision = cluster.turn(
        heard("link-1a", frame), heard("link-2a", DeleteTopics(topics=(NamedTopic(name="orders"),)))
    )
    [ended] = changed(decision)
    assert (ended.phase, ended.reason) == (Phase.FAILED, "the topic was deleted")
    assert not cluster.state.rows.reassignments


def test_a_topic_grows_while_it_moves() -> None:
    cluster = cluster_of()
    ask(cluster, (4, 2, 3))
    grown = GrownTopic(name="orders", partition_count=2)
    cluster.turn(heard("link-2a", CreatePartitions(correlation_id=4, topics=(grown,), timeout_ms=1_000)))
    assert len(cluster.partition(1).assigned) == 3
    assert cluster.partition().adding == (4,)


def test_a_request_names_a_partition_once() -> None:
    cluster = cluster_of()
    wanted = WantedReplicas(topic="orders", partition=0, replicas=(4, 2, 3))
    frame = AlterReassignments(correlation_id=4, partitions=(wanted, wanted))
    [answer] = said(cluster.turn(heard("link-1a", frame)), "link-1a")
    assert isinstance(answer, ReassignmentResults)
    assert [one.error for one in answer.results] == [ErrorCode.INVALID_REQUEST] * 2


def test_a_partition_that_was_never_led_moves_and_stays_leaderless_until_it_is() -> None:
    cluster = cluster_of(PartitionRow(ORDERS, 0, (1, 2), -1, 0, (), 5))
    ask(cluster, (3, 2))
    assert cluster.partition().adding == (3,)
    _, result = ask(cluster, None)
    assert result.error is ErrorCode.NONE
    assert cluster.partition().assigned == (1, 2)
