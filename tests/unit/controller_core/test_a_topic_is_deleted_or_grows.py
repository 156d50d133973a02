"""This room shows DeleteTopics and CreatePartitions: refusals (conformance 206, 207), rows, who is told."""

from collections import Counter
from uuid import UUID, uuid5

import pytest

from controller.core.events import ProposalsReady
from controller.core.proposing import Task
from controller.core.records import PartitionsCreated, TopicChanged, TopicCreated, TopicDeleted, WorkOffered
from controller.core.state import ClusterRows, after_records
from muster.kernel.error_codes import ErrorCode
from muster.messages.link.from_broker import (
    AlterPartition,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    GrownTopic,
    IsrProposal,
    Leaving,
    NamedTopic,
    NewTopic,
)
from muster.messages.link.rows import PartitionRow
from muster.messages.link.to_broker import (
    AlterPartitionAnswer,
    Changes,
    CreateTopicsAnswer,
    TopicResult,
    TopicResults,
)
from tests.unit.controller_core.stage import FRESH, ORDERS, Cluster, heard, row, said

ROWS = [row(0, (1, 2, 3), 1, (1, 2, 3)), row(1, (2, 3, 1), 2, (2, 3, 1))]
NOBODY = UUID(int=99)


def test_what_is_not_as_it_was_looked_at_is_left_alone() -> None:
    cluster = Cluster(ROWS)
    version = cluster.state.rows.topics[ORDERS].version
    for named in (
        NamedTopic(name="orders", expected_version=version + 1),
        NamedTopic(topic_id=ORDERS, expected_version=version + 1),
        NamedTopic(name="orders", expected_id=NOBODY),
    ):
        assert results(cluster, deletion(named))[0].error is ErrorCode.INVALID_UPDATE_VERSION
    stale = GrownTopic(name="orders", partition_count=9, expected_version=version + 1)
    assert results(cluster, growth(stale))[0].error is ErrorCode.INVALID_UPDATE_VERSION
    seen = NamedTopic(name="orders", expected_version=version, expected_id=ORDERS)
    assert results(cluster, deletion(seen))[0].error is ErrorCode.NONE


def deletion(*topics: NamedTopic) -> DeleteTopics:
    return DeleteTopics(correlation_id=4, topics=topics)


def growth(*topics: GrownTopic, validate_only: bool = False) -> CreatePartitions:
    return CreatePartitions(correlation_id=4, topics=topics, timeout_ms=5_000, validate_only=validate_only)


def results(cluster: Cluster, frame: DeleteTopics | CreatePartitions) -> tuple[TopicResult, ...]:
    """The answer, which leaves with the turn."""
    [answer] = [one for one in said(cluster.turn(heard("link-1a", frame)), "link-1a") if not _told(one)]
    assert isinstance(answer, TopicResults)
    return answer.topics


def _told(frame: object) -> bool:
    return isinstance(frame, Changes)


def loaded(cluster: Cluster) -> ClusterRows:
    """What a new owner would load."""
    rows = cluster.state.rows
    return ClusterRows.of(
        rows.cluster_id,
        rows.metadata_version,
        rows.next_producer_id,
        rows.brokers.values(),
        rows.topics.values(),
        rows.partitions.values(),
    )


@pytest.mark.parametrize("named", [NamedTopic(name="orders"), NamedTopic(topic_id=ORDERS)])
def test_a_deleted_topic_leaves_no_row_and_everybody_hears_of_it(named: NamedTopic) -> None:
    cluster = Cluster(ROWS)
    decision = cluster.turn(heard("link-1a", deletion(named)))
    assert [one for one in decision.records if isinstance(one, TopicDeleted)] == [
        TopicDeleted(ORDERS, "orders", 2, (5, 5))
    ]
    for broker_id in (1, 2, 3):
        [changes] = [one for one in said(decision, f"link-{broker_id}a") if isinstance(one, Changes)]
        assert changes.deleted_topics == (ORDERS,)
    rows = cluster.state.rows
    assert not rows.topics and not list(rows.partitions.values()) and not +rows.preferred
    assert rows == loaded(cluster)
    assert rows == after_records(Cluster(ROWS).state.rows, decision.records)


def test_a_topic_is_deleted_though_its_brokers_are_dead() -> None:
    cluster = Cluster(ROWS)
    cluster.later(60_000)
    cluster.turn()
    assert not cluster.state.memory.sessions
    cluster.turn(heard("link-1a", deletion(NamedTopic(name="orders"))))
    assert cluster.state.rows.topics, "nobody is bound, so nobody was heard"


@pytest.mark.parametrize(
    ("named", "error"),
    [
        (NamedTopic(name="clicks"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (NamedTopic(name="orders", topic_id=ORDERS), ErrorCode.INVALID_REQUEST),
        (NamedTopic(), ErrorCode.INVALID_REQUEST),
        (NamedTopic(topic_id=NOBODY), ErrorCode.UNKNOWN_TOPIC_ID),
    ],
)
def test_what_is_not_there_is_not_deleted(named: NamedTopic, error: ErrorCode) -> None:
    cluster = Cluster(ROWS)
    [result] = results(cluster, deletion(named))
    assert (result.error, result.name, result.topic_id) == (error, named.name, named.topic_id)
    assert ORDERS in cluster.state.rows.topics


def test_a_topic_that_is_named_twice_by_whatever_name_is_kept() -> None:
    cluster = Cluster(ROWS)
    twice = results(cluster, deletion(NamedTopic(name="orders"), NamedTopic(topic_id=ORDERS)))
    assert [one.error for one in twice] == [ErrorCode.INVALID_REQUEST] * 2
    assert ORDERS in cluster.state.rows.topics


def test_in_one_turn_a_topic_goes_and_another_comes_under_its_name() -> None:
    cluster = Cluster(ROWS)
    made = CreateTopics(correlation_id=5, topics=(NewTopic(name="orders"),), timeout_ms=5_000)
    decision = cluster.turn(
        heard("link-1a", deletion(NamedTopic(name="orders"))),
        heard("link-2a", made),
    )
    kinds = [type(one) for one in decision.records if isinstance(one, TopicDeleted | TopicCreated)]
    assert kinds == [TopicDeleted, TopicCreated]
    [topic] = cluster.state.rows.topics.values()
    assert (topic.name, topic.topic_id) == ("orders", uuid5(FRESH, "0"))
    assert cluster.state.rows == loaded(cluster)
    [changes] = [one for one in said(decision, "link-3a") if isinstance(one, Changes)]
    assert changes.deleted_topics == (ORDERS,) and changes.topics == (topic,)


def test_a_topic_that_came_and_went_in_one_turn_leaves_no_trace() -> None:
    cluster = Cluster()
    made = CreateTopics(correlation_id=5, topics=(NewTopic(name="clicks"),), timeout_ms=5_000)
    decision = cluster.turn(heard("link-1a", made), heard("link-2a", deletion(NamedTopic(name="clicks"))))
    assert not cluster.state.rows.topics and not list(cluster.state.rows.partitions.values())
    [created] = [one for one in said(decision, "link-1a") if isinstance(one, CreateTopicsAnswer)]
    assert created.topics[0].error is ErrorCode.NONE


def test_what_is_said_of_a_deleted_partition_finds_none() -> None:
    cluster = Cluster(ROWS)
    cluster.turn(heard("link-2a", deletion(NamedTopic(name="orders"))))
    proposal = IsrProposal(topic_id=ORDERS, partition=0, base_version=5, isr=(1,))
    [answer] = said(cluster.turn(heard("link-1a", AlterPartition(proposals=(proposal,)))), "link-1a")
    assert isinstance(answer, AlterPartitionAnswer)
    assert answer.answers[0].error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and answer.answers[0].row is None
    adopted = cluster.turn(ProposalsReady(1, Task.TOPIC_CHANGE, str(ORDERS), ()))
    assert not cluster.state.rows.topics and adopted.records


def test_a_death_in_the_turn_of_the_deletion_elects_nobody() -> None:
    cluster = Cluster(ROWS)
    cluster.later(6_000)
    for broker_id in (2, 3):
        cluster.state.memory.sessions[broker_id].deadline = cluster.now
    decision = cluster.turn(heard("link-1a", deletion(NamedTopic(name="orders"))))
    assert not cluster.state.rows.topics
    assert cluster.state.rows == loaded(cluster) and decision.records


def test_a_topic_grows_and_the_answer_waits_for_the_new_leaders() -> None:
    cluster = Cluster(ROWS)
    decision = cluster.turn(heard("link-1a", growth(GrownTopic(name="orders", partition_count=5))))
    [changed] = [one.row for one in decision.records if isinstance(one, TopicChanged)]
    assert changed.partition_count == 5
    new = [one.alike for one in decision.records if isinstance(one, PartitionsCreated)]
    assert sorted(number for alike in new for number in alike.partitions) == [2, 3, 4]
    assert {len(alike.assigned) for alike in new} == {3}
    assert [one.key for one in decision.records if isinstance(one, WorkOffered)] == [str(ORDERS)]
    assert decision.replies == ()

    adopted = cluster.turn(ProposalsReady(1, Task.TOPIC_CHANGE, str(ORDERS), ()))
    [answer] = [one for one in said(adopted, "link-1a") if isinstance(one, TopicResults)]
    assert answer.topics == (TopicResult(name="orders", topic_id=ORDERS),)
    led = Counter(one.leader for one in cluster.state.rows.partitions.values())
    assert sorted(led.values()) == [1, 2, 2], "each broker leads as many as the others, with the old ones"
    assert cluster.state.rows == loaded(cluster)


def test_the_old_partitions_stay_as_they_are() -> None:
    cluster = Cluster(ROWS)
    cluster.turn(heard("link-1a", growth(GrownTopic(name="orders", partition_count=3))))
    assert [cluster.partition(number) for number in (0, 1)] == ROWS


@pytest.mark.parametrize(
    ("topic", "error"),
    [
        (GrownTopic(name="clicks", partition_count=3), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (GrownTopic(name="orders", partition_count=2), ErrorCode.INVALID_PARTITIONS),
        (GrownTopic(name="orders", partition_count=1), ErrorCode.INVALID_PARTITIONS),
        (GrownTopic(name="orders", partition_count=-1), ErrorCode.INVALID_PARTITIONS),
        (GrownTopic(name="orders", partition_count=20_000), ErrorCode.POLICY_VIOLATION),
        (
            GrownTopic(name="orders", partition_count=4, assignments=((1, 2, 3),)),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ),
        (
            GrownTopic(name="orders", partition_count=3, assignments=((1, 2),)),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ),
        (
            GrownTopic(name="orders", partition_count=3, assignments=((1, 2, 9),)),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ),
        (
            GrownTopic(name="orders", partition_count=3, assignments=((1, 1, 2),)),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ),
    ],
)
def test_a_growth_that_cannot_be_is_refused_and_nothing_is_written(
    topic: GrownTopic, error: ErrorCode
) -> None:
    cluster = Cluster(ROWS)
    [result] = results(cluster, growth(topic))
    assert result.error is error
    assert list(cluster.state.rows.partitions.values()) == ROWS


def test_new_partitions_go_where_they_are_asked_to() -> None:
    cluster = Cluster(ROWS)
    asked = GrownTopic(name="orders", partition_count=4, assignments=((3, 1, 2), (2, 1, 3)))
    cluster.turn(heard("link-1a", growth(asked)))
    assert [cluster.partition(number).assigned for number in (2, 3)] == [(3, 1, 2), (2, 1, 3)]


def test_validate_only_grows_nothing() -> None:
    cluster = Cluster(ROWS)
    [result] = results(cluster, growth(GrownTopic(name="orders", partition_count=5), validate_only=True))
    assert result.error is ErrorCode.NONE
    assert list(cluster.state.rows.partitions.values()) == ROWS


def test_new_partitions_are_placed_on_who_is_away_where_too_few_are_live() -> None:
    cluster = Cluster(ROWS)
    del cluster.state.memory.sessions[3]
    cluster.turn(heard("link-1a", growth(GrownTopic(name="orders", partition_count=5))))
    assert {cluster.partition(number).assigned for number in (2, 3, 4)} == {(1, 2, 3), (2, 1, 3)}


def test_without_a_live_broker_nothing_is_placed() -> None:  # 207
    cluster = Cluster(ROWS)
    for broker_id in (2, 3):
        del cluster.state.memory.sessions[broker_id]
    cluster.turn(heard("link-1a", Leaving()))
    [result] = results(cluster, growth(GrownTopic(name="orders", partition_count=5)))
    assert result.error is ErrorCode.INVALID_REPLICATION_FACTOR


def test_a_topic_that_grows_and_goes_in_one_turn_is_gone() -> None:
    cluster = Cluster(ROWS)
    decision = cluster.turn(
        heard("link-1a", growth(GrownTopic(name="orders", partition_count=5))),
        heard("link-2a", deletion(NamedTopic(name="orders"))),
    )
    assert not cluster.state.rows.topics and not list(cluster.state.rows.partitions.values())
    assert not [one for one in decision.records if isinstance(one, PartitionsCreated | TopicChanged)]
    deleted = [one for one in decision.records if isinstance(one, TopicDeleted)]
    assert deleted == [TopicDeleted(ORDERS, "orders", 2, (5, 5))], "as many as are stored"


def test_the_row_of_a_new_partition_is_of_the_turn() -> None:
    cluster = Cluster(ROWS)
    cluster.turn(heard("link-1a", growth(GrownTopic(name="orders", partition_count=3))))
    new = cluster.partition(2)
    assert isinstance(new, PartitionRow)
    assert (new.leader, new.leader_epoch, new.isr, new.version) == (
        -1,
        0,
        (),
        cluster.state.rows.metadata_version,
    )


def test_one_that_grew_in_the_turn_that_deletes_it_is_deleted_as_it_is_stored() -> None:
    """Told to have more partitions than its rows, the deletion conflicted with the tables ten times over."""
    cluster = Cluster(ROWS)
    more = growth(GrownTopic(name="orders", partition_count=5))
    decision = cluster.turn(heard("link-1a", more), heard("link-2a", deletion(NamedTopic(name="orders"))))
    (gone,) = [one for one in decision.records if isinstance(one, TopicDeleted)]
    assert gone.partition_count == len(ROWS)
    assert cluster.state.rows.topics == {}
