"""This room shows RemovePartitions (002 H): refusals, rows, who is told, and what comes under the numbers."""

from dataclasses import replace
from typing import Any

import pytest

from controller.core.draft import ClusterDecision
from controller.core.events import Heard, LinkClosed, ProposalsReady, RequestSeat, TookOver
from controller.core.proposing import Task
from controller.core.records import (
    MovesFailed,
    PartitionsChanged,
    PartitionsCreated,
    PartitionsRemoved,
    RequestAnswered,
    TopicChanged,
    TopicDeleted,
)
from controller.core.settings import ControllerSettings
from controller.core.state import ClusterRows, ClusterState, after_records
from muster.kernel.error_codes import ErrorCode
from muster.kernel.topology import Unread
from muster.messages.link.from_broker import (
    AlterPartition,
    AlterReassignments,
    CreatePartitions,
    DeleteTopics,
    GrownTopic,
    IsrProposal,
    NamedTopic,
    RemovePartitions,
    WantedReplicas,
)
from muster.messages.link.protocol import REMOVES
from muster.messages.link.rows import EVERY_BROKER, BrokerConfigs
from muster.messages.link.to_broker import (
    AlterPartitionAnswer,
    Changes,
    SnapshotChunk,
    TopicResult,
    TopicResults,
)
from tests.unit.controller_core.stage import FRESH, ORDERS, START, Cluster, heard, hello, row, said

ALL = (1, 2, 3)
ROWS = [row(0, ALL, 1, ALL, epoch=2), row(1, (2, 3, 1), 2, (2, 3, 1), epoch=4), row(2, ALL, 1, ALL, epoch=7)]


def made(protocol: int = REMOVES, **settings: Any) -> Cluster:
    """Three partitions on three brokers that all understand what is asked."""
    cluster = Cluster(ROWS, settings=replace(ControllerSettings(), **settings))
    for b in ALL:
        cluster.turn(hello(b, protocol=protocol))
    return cluster


def removal(count: int, **stated: Any) -> RemovePartitions:
    return RemovePartitions(topic="orders", partition_count=count, **stated)


def asked(frame: RemovePartitions, unread: tuple[Unread, ...] | None = ()) -> Heard:
    """As the controller's node hands it in, once it has looked what is not read."""
    return Heard(RequestSeat("5", "mira", "too many"), frame, FRESH, unread)


def answer(decision: ClusterDecision) -> TopicResult:
    [found] = [one.answer for one in decision.records if isinstance(one, RequestAnswered)]
    assert isinstance(found, TopicResults)
    [result] = found.topics
    return result


def loaded(rows: ClusterRows) -> ClusterRows:
    """What a new owner would load."""
    return ClusterRows.of(
        rows.cluster_id,
        rows.metadata_version,
        rows.next_producer_id,
        rows.brokers.values(),
        rows.topics.values(),
        rows.partitions.values(),
    )


def grow(count: int) -> CreatePartitions:
    return CreatePartitions(topics=(GrownTopic(name="orders", partition_count=count),), timeout_ms=1_000)


def test_the_highest_partitions_go_and_the_others_stay_as_they_are() -> None:
    cluster = made()
    decision = cluster.turn(asked(removal(1)))
    assert answer(decision) == TopicResult(name="orders", topic_id=ORDERS)
    assert [one for one in decision.records if isinstance(one, PartitionsRemoved)] == [
        PartitionsRemoved(ORDERS, "orders", 1, 2, (5, 5))
    ]
    assert list(cluster.state.rows.partitions.values()) == ROWS[:1]
    [topic] = cluster.state.rows.topics.values()
    assert (topic.partition_count, topic.removed_epoch) == (1, 8)
    assert cluster.state.rows == loaded(cluster.state.rows)
    assert +cluster.state.rows.preferred == loaded(cluster.state.rows).preferred
    assert cluster.state.rows == after_records(made().state.rows, decision.records)
    for b in ALL:
        [changes] = [one for one in said(decision, f"link-{b}a") if isinstance(one, Changes)]
        assert changes.topics == (topic,)


def test_they_go_though_their_brokers_are_dead() -> None:
    cluster = made()
    cluster.later(60_000)
    cluster.turn()
    assert not cluster.state.memory.sessions
    assert answer(cluster.turn(asked(removal(1)))).error is ErrorCode.NONE
    assert len(list(cluster.state.rows.partitions.values())) == 1


@pytest.mark.parametrize(
    ("frame", "error"),
    [
        (RemovePartitions(topic="clicks", partition_count=1), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (removal(3), ErrorCode.INVALID_REQUEST),
        (removal(4), ErrorCode.INVALID_REQUEST),
        (removal(0), ErrorCode.INVALID_REQUEST),
        (removal(-1), ErrorCode.INVALID_REQUEST),
        (removal(2, expected_version=99), ErrorCode.INVALID_UPDATE_VERSION),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_is_written(frame: RemovePartitions, error: ErrorCode) -> None:
    cluster = made()
    assert answer(cluster.turn(asked(frame))).error is error
    assert list(cluster.state.rows.partitions.values()) == ROWS


def test_no_more_go_than_a_turn_may_write() -> None:
    cluster = made(max_partitions_per_request=1)
    assert answer(cluster.turn(asked(removal(1)))).error is ErrorCode.POLICY_VIOLATION
    assert answer(cluster.turn(asked(removal(2)))).error is ErrorCode.NONE


def test_where_topics_are_not_to_be_deleted_partitions_are_not_either() -> None:
    cluster = made()
    cluster.state.rows.configs[EVERY_BROKER] = BrokerConfigs(EVERY_BROKER, {"delete.topic.enable": "false"})
    assert answer(cluster.turn(asked(removal(1)))).error is ErrorCode.TOPIC_DELETION_DISABLED


def test_what_a_group_has_not_read_stays_unless_it_is_forced() -> None:
    cluster = made()
    unread = tuple(Unread(f"group-{n}", 2, n) for n in (1, 2, 3, 4))
    refused = answer(cluster.turn(asked(removal(2), unread)))
    assert refused.error is ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    assert "group group-1 has 1 record of partition 2" in refused.text and "and 1 more" in refused.text
    assert answer(cluster.turn(asked(removal(2, force=True), unread))).error is ErrorCode.NONE


@pytest.mark.parametrize(
    ("told", "named", "others"),
    [
        (("team-*",), ["team-a"], True),
        (("team-a", "pay*"), ["team-a", "payments"], False),
        (("x",), [], True),
    ],
)
def test_only_groups_of_which_whoever_asks_may_know_are_named(
    told: tuple[str, ...], named: list[str], others: bool
) -> None:
    unread = (Unread("payments", 2, 7), Unread("team-a", 2, 1))
    refused = answer(made().turn(asked(removal(2, told_groups=told), unread)))
    assert refused.error is ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    assert [one for one in ("team-a", "payments") if one in refused.text] == named
    assert ("7 records" in refused.text) is ("payments" in named)
    assert ("of which this token is not told" in refused.text) is others


def test_where_nobody_has_looked_what_is_read_nothing_is_removed_unless_it_is_forced() -> None:
    cluster = made()
    assert answer(cluster.turn(asked(removal(2), None))).error is ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    [result] = [
        one
        for one in said(cluster.turn(heard("link-1a", removal(2, force=True))), "link-1a")
        if isinstance(one, TopicResults)
    ]
    assert result.topics[0].error is ErrorCode.NONE


def test_as_long_as_a_live_broker_is_older_nothing_is_removed() -> None:
    cluster = made(protocol=REMOVES - 1)
    assert answer(cluster.turn(asked(removal(1)))).error is ErrorCode.UNSUPPORTED_VERSION


def test_as_long_as_a_live_broker_has_not_linked_nothing_is_removed() -> None:
    cluster = made()
    cluster.state = ClusterState(cluster.state.rows)
    cluster.turn(TookOver(8))
    assert answer(cluster.turn(asked(removal(1)))).error is ErrorCode.UNSUPPORTED_VERSION


def test_validate_only_removes_nothing() -> None:
    cluster = made()
    assert answer(cluster.turn(asked(removal(1, validate_only=True)))).error is ErrorCode.NONE
    assert list(cluster.state.rows.partitions.values()) == ROWS


def test_what_moves_them_has_failed() -> None:
    cluster = Cluster(ROWS, brokers=4)
    for b in (*ALL, 4):
        cluster.turn(hello(b, protocol=REMOVES))
    wanted = tuple(WantedReplicas(topic="orders", partition=n, replicas=(4, 2, 3)) for n in (0, 2))
    cluster.turn(heard("link-1a", AlterReassignments(correlation_id=4, partitions=wanted)))
    decision = cluster.turn(asked(removal(2)))
    assert [one for one in decision.records if isinstance(one, MovesFailed)] == [
        MovesFailed(ORDERS, (2,), "the partition was removed")
    ]
    assert list(cluster.state.rows.reassignments) == list(cluster.state.rows.moving) == [(ORDERS, 0)]


def test_what_is_added_again_begins_above_all_epochs_that_the_removed_ones_had() -> None:
    cluster = made()
    cluster.turn(asked(removal(1)))
    decision = cluster.turn(heard("link-1a", grow(3)))
    again = cluster.partition(2)
    assert (again.leader_epoch, again.base_epoch, again.isr) == (8, 8, ())
    assert [one.alike.base_epoch for one in decision.records if isinstance(one, PartitionsCreated)]
    cluster.turn(ProposalsReady(1, Task.TOPIC_CHANGE, str(ORDERS), ()))
    again = cluster.partition(2)
    assert (again.leader_epoch, again.base_epoch, len(again.isr)) == (9, 8, 3)
    assert cluster.partition(0) == ROWS[0]
    assert cluster.state.rows == loaded(cluster.state.rows)
    assert cluster.partition(2).base_epoch == loaded(cluster.state.rows).partitions[ORDERS, 2].base_epoch


def test_two_that_never_led_do_not_begin_at_the_same_epoch() -> None:
    cluster = made()
    bases = []
    for _ in range(3):
        cluster.turn(asked(removal(2)))
        cluster.turn(heard("link-1a", grow(3)))
        bases.append(cluster.partition(2).base_epoch)
    assert bases == [8, 9, 10]


def test_the_base_is_kept_by_whatever_changes_the_row() -> None:
    cluster = Cluster(ROWS, brokers=4)
    for b in (*ALL, 4):
        cluster.turn(hello(b, protocol=REMOVES))
    cluster.turn(asked(removal(2)))
    grown = GrownTopic(name="orders", partition_count=3, assignments=(ALL,))
    cluster.turn(heard("link-1a", CreatePartitions(topics=(grown,), timeout_ms=1_000)))
    cluster.turn(ProposalsReady(1, Task.TOPIC_CHANGE, str(ORDERS), ()))
    wanted = WantedReplicas(topic="orders", partition=2, replicas=(1, 2, 4))
    cluster.turn(heard("link-1a", AlterReassignments(correlation_id=4, partitions=(wanted,))))
    assert cluster.partition(2).adding == (4,) and cluster.partition(2).base_epoch == 8
    epochs = {4: cluster.state.rows.brokers[4].broker_epoch}
    version = cluster.partition(2).version
    proposal = IsrProposal(
        topic_id=ORDERS, partition=2, base_version=version, isr=(1, 2, 3, 4), broker_epochs=epochs
    )
    cluster.turn(heard("link-1a", AlterPartition(proposals=(proposal,))))
    assert cluster.partition(2).assigned == (1, 2, 4) and cluster.partition(2).base_epoch == 8


def test_what_is_said_of_a_removed_partition_finds_none() -> None:
    cluster = made()
    proposal = IsrProposal(topic_id=ORDERS, partition=2, base_version=5, isr=(1,))
    decision = cluster.turn(asked(removal(2)), heard("link-1a", AlterPartition(proposals=(proposal,))))
    [told] = [one for one in said(decision, "link-1a") if isinstance(one, AlterPartitionAnswer)]
    assert told.answers[0].error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and told.answers[0].row is None
    assert not [one for one in decision.records if isinstance(one, PartitionsChanged)]


def test_a_death_in_the_turn_of_the_removal_elects_nobody_for_what_is_gone() -> None:
    cluster = made()
    cluster.state.memory.sessions[1].deadline = START
    cluster.later(1)
    decision = cluster.turn(asked(removal(1)))
    changed = [one.alike for one in decision.records if isinstance(one, PartitionsChanged)]
    assert [alike.partitions for alike in changed] == [(0,)]
    assert cluster.state.rows == loaded(cluster.state.rows)


def test_in_one_turn_a_topic_is_not_resized_both_ways() -> None:
    decision = made().turn(asked(removal(2)), heard("link-1a", grow(4)))
    assert answer(decision).error is ErrorCode.NONE
    [grown] = [one for one in said(decision, "link-1a") if isinstance(one, TopicResults)]
    assert grown.topics[0].error is ErrorCode.OPERATION_NOT_ATTEMPTED
    cluster = made()
    decision = cluster.turn(heard("link-1a", grow(4)), asked(removal(2)))
    assert answer(decision).error is ErrorCode.OPERATION_NOT_ATTEMPTED
    assert len(list(cluster.state.rows.partitions.values())) == 4


def test_a_topic_whose_partitions_are_removed_and_that_is_deleted_in_one_turn_is_gone_as_it_was_stored() -> (
    None
):
    cluster = made()
    decision = cluster.turn(
        asked(removal(1)), heard("link-1a", DeleteTopics(topics=(NamedTopic(name="orders"),)))
    )
    assert [one for one in decision.records if isinstance(one, TopicDeleted)] == [
        TopicDeleted(ORDERS, "orders", 3, (5, 5, 5))
    ]
    assert not [one for one in decision.records if isinstance(one, PartitionsRemoved | TopicChanged)]
    assert not cluster.state.rows.topics and cluster.state.rows == loaded(cluster.state.rows)


def test_who_says_hello_in_the_turn_hears_of_no_removed_partition() -> None:
    cluster = made()
    decision = cluster.turn(asked(removal(1)), LinkClosed("link-1a"), hello(1, "b", protocol=REMOVES))
    [snapshot] = [one for one in said(decision, "link-1b") if isinstance(one, SnapshotChunk)]
    assert [one.partition for one in snapshot.partitions] == [0]
    assert [one.partition_count for one in snapshot.topics] == [1]
