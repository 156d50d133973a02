"""This room shows CreateTopics: refusals (conformance 199 to 204), rows, leaders, answer."""

from collections.abc import Iterable
from uuid import UUID, uuid5

import pytest

from controller.core.draft import Draft
from controller.core.election import Policy
from controller.core.events import Heard, LinkClosed, ProposalsReady, TimePassed, TookOver
from controller.core.proposing import Task, propose
from controller.core.records import PartitionsCreated, TopicCreated, WorkOffered
from controller.core.settings import ControllerSettings
from controller.core.topics import LED_ONE_BY_ONE_MAX
from controller.core.turn import heard as pinged
from controller.outcomes import Result
from muster.kernel.error_codes import ErrorCode
from muster.messages.link.brokers import CordonBroker
from muster.messages.link.condition import Condition, Disk
from muster.messages.link.from_broker import CreateTopics, NewTopic, UnusableLogs
from muster.messages.link.rows import PartitionRow
from muster.messages.link.to_broker import Changes, CreateTopicsAnswer
from tests.unit.controller_core.stage import FRESH, ORDERS, Cluster, heard, row, said
from tests.unit.messages.made_rows import seats

CLICKS = uuid5(FRESH, "0")


def wanted(*topics: NewTopic, validate_only: bool = False) -> Heard:
    frame = CreateTopics(correlation_id=3, topics=topics, timeout_ms=5_000, validate_only=validate_only)
    return heard("link-1a", frame)


def goes_away(cluster: Cluster, broker: int = 1) -> None:
    """A broker, without a word."""
    cluster.turn(LinkClosed(f"link-{broker}a"))
    cluster.later(1_000)
    cluster.turn(TimePassed())


def placed(cluster: Cluster) -> set[tuple[int, ...]]:
    """Where the partitions of clicks are."""
    return {one.assigned for one in cluster.state.rows.partitions.by_topic[CLICKS].values()}


def answer_of(cluster: Cluster, event: Heard) -> CreateTopicsAnswer:
    [answer] = said(cluster.turn(event), "link-1a")
    assert isinstance(answer, CreateTopicsAnswer)
    return answer


@pytest.mark.parametrize(
    ("topic", "error"),
    [
        (NewTopic(name=""), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (NewTopic(name=".."), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (NewTopic(name="a" * 250), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (NewTopic(name="clicks/1"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (NewTopic(name="__cluster_metadata"), ErrorCode.INVALID_REQUEST),
        (
            NewTopic(name="clicks", partition_count=0, replication_factor=0),
            ErrorCode.INVALID_REPLICATION_FACTOR,
        ),
        (NewTopic(name="orders"), ErrorCode.TOPIC_ALREADY_EXISTS),
        (NewTopic(name="clicks", partition_count=0), ErrorCode.INVALID_PARTITIONS),
        (NewTopic(name="clicks", partition_count=-2), ErrorCode.INVALID_PARTITIONS),
        (NewTopic(name="clicks", replication_factor=0), ErrorCode.INVALID_REPLICATION_FACTOR),
        (NewTopic(name="clicks", replication_factor=4), ErrorCode.INVALID_REPLICATION_FACTOR),
        (NewTopic(name="clicks", partition_count=10_001), ErrorCode.POLICY_VIOLATION),
        (NewTopic(name="clicks", configs={"no.such.config": "1"}), ErrorCode.INVALID_CONFIG),
        (NewTopic(name="clicks", configs={"min.insync.replicas": None}), ErrorCode.INVALID_CONFIG),
        (NewTopic(name="clicks", configs={"min.insync.replicas": "0"}), ErrorCode.INVALID_CONFIG),
        (NewTopic(name="clicks", configs={"segment.bytes": "10"}), ErrorCode.INVALID_CONFIG),
        (NewTopic(name="clicks", partition_count=1, assignments={0: (1,)}), ErrorCode.INVALID_REQUEST),
        (NewTopic(name="clicks", assignments={1: (1,)}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic(name="clicks", assignments={0: (1, 1)}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic(name="clicks", assignments={0: ()}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic(name="clicks", assignments={0: (1,), 1: (1, 2)}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic(name="clicks", assignments={0: (9,)}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_a_topic_that_cannot_be_is_refused_and_nothing_is_written(topic: NewTopic, error: ErrorCode) -> None:
    cluster = Cluster([row(0, (1, 2, 3), 1, (1, 2, 3))])
    answer = answer_of(cluster, wanted(topic))
    assert answer.topics[0].error is error
    assert len(cluster.state.rows.topics) == 1


def test_nothing_is_placed_on_a_broker_whose_disk_is_full_or_failed_while_others_are_enough() -> None:
    cluster = Cluster([row(0, (1, 2, 3), 1, (1, 2, 3))])
    cluster.turn(heard("link-2a", UnusableLogs(failed=((ORDERS, 0),))))
    cluster.turn(wanted(NewTopic(name="clicks", partition_count=4, replication_factor=2)))
    assert placed(cluster) == {(1, 3), (3, 1)}


def test_a_broker_in_trouble_follows_where_all_are_needed() -> None:
    cluster = Cluster([row(0, (1, 2, 3), 1, (1, 2, 3))])
    full = Condition(disk=Disk(1_000, 99, 100))
    assert pinged(cluster.state.memory, "link-1a", 5, cluster.now, cluster.settings, full)
    cluster.turn(wanted(NewTopic(name="clicks", partition_count=4, replication_factor=3)))
    assert placed(cluster) == {(2, 3, 1), (3, 2, 1)}


def test_a_broker_that_is_away_follows_where_all_are_needed() -> None:  # 201
    """Kafka Streams and Connect end if a topic of theirs is refused while a broker restarts."""
    cluster = Cluster()
    goes_away(cluster)
    topic = NewTopic(name="clicks", partition_count=4, replication_factor=3)
    cluster.turn(heard("link-2a", CreateTopics(correlation_id=3, topics=(topic,), timeout_ms=5_000)))
    assert placed(cluster) == {(2, 3, 1), (3, 2, 1)}
    new = seats(cluster.state.rows.partitions.by_topic[CLICKS].values())
    proposals = propose(Task.TOPIC_CHANGE, str(CLICKS), new, {2, 3}, lambda topic: Policy(1, False))
    cluster.turn(ProposalsReady(1, Task.TOPIC_CHANGE, str(CLICKS), proposals))
    led = cluster.state.rows.partitions.by_topic[CLICKS].values()
    assert all(one.leader == one.assigned[0] and set(one.isr) == {2, 3} for one in led)


def test_who_is_away_gets_nothing_while_others_are_enough() -> None:
    cluster = Cluster()
    goes_away(cluster)
    topic = NewTopic(name="clicks", partition_count=4, replication_factor=2)
    cluster.turn(heard("link-2a", CreateTopics(correlation_id=3, topics=(topic,), timeout_ms=5_000)))
    assert placed(cluster) == {(2, 3), (3, 2)}


def test_who_has_too_few_brokers_for_it_is_told_what_to_do() -> None:
    """That those who are away be brought back does not help any more: they count."""
    cluster = Cluster()
    first = answer_of(cluster, wanted(NewTopic(name="clicks", replication_factor=4))).topics[0]
    for broker in (1, 2):
        cluster.turn(heard("link-3a", CordonBroker(broker_id=broker, cordoned=True)))
    goes_away(cluster, 3)
    last = answer_of(cluster, wanted(NewTopic(name="clicks", replication_factor=1))).topics[0]
    assert [Result("topic", "clicks", error=one.error, text=one.text).words for one in (first, last)] == [
        "4 replicas need as many brokers that are not cordoned, and there are 3."
        " Ask for fewer replicas, enroll more brokers, or uncordon one.",
        "No broker is live that is not cordoned. Bring one back, or uncordon one that is live.",
    ]


def test_names_that_metrics_would_confuse_collide() -> None:
    cluster = Cluster()
    cluster.turn(wanted(NewTopic(name="web.clicks")))
    later = answer_of(cluster, wanted(NewTopic(name="web_clicks")))
    assert later.topics[0].error is ErrorCode.INVALID_TOPIC_EXCEPTION


def test_a_name_that_comes_twice_is_refused_and_the_others_go_on() -> None:
    cluster = Cluster()
    event = wanted(NewTopic(name="clicks"), NewTopic(name="clicks"), NewTopic(name="orders"))
    decision = cluster.turn(event)
    assert [record.row.name for record in decision.records if isinstance(record, TopicCreated)] == ["orders"]


def test_validate_only_says_the_same_and_stores_nothing() -> None:
    cluster = Cluster()
    topic = NewTopic(name="clicks", partition_count=6, replication_factor=3)
    answer = answer_of(cluster, wanted(topic, validate_only=True))
    assert (answer.topics[0].error, answer.topics[0].partition_count) == (ErrorCode.NONE, 6)
    assert not cluster.state.rows.topics


def test_rows_come_first_then_leaders_then_the_answer() -> None:
    cluster = Cluster()
    created = cluster.turn(wanted(NewTopic(name="clicks", partition_count=6, replication_factor=3)))
    records = [record for record in created.records if isinstance(record, PartitionsCreated)]
    new = [row for record in records for row in record.alike.rows(record.version)]
    assert [(one.leader, one.leader_epoch, one.isr) for one in new] == [(-1, 0, ())] * 6
    assert any(isinstance(one, WorkOffered) and one.kind == "on_topic_change" for one in created.records)
    assert created.replies == ()

    proposals = propose(Task.TOPIC_CHANGE, str(CLICKS), seats(new), {1, 2, 3}, lambda topic: Policy(1, False))
    adopted = cluster.turn(ProposalsReady(1, Task.TOPIC_CHANGE, str(CLICKS), proposals))
    leaders = [one.leader for one in cluster.state.rows.partitions.values()]
    assert sorted(leaders) == [1, 1, 2, 2, 3, 3]
    [answer] = [one for one in said(adopted, "link-1a") if isinstance(one, CreateTopicsAnswer)]
    assert (answer.correlation_id, answer.topics[0].topic_id) == (3, CLICKS)


def test_the_leaders_of_many_topics_are_found_together(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster([row(0, (1, 2, 3), 1, (1, 2, 3))])
    names = [f"clicks-{number}" for number in range(LED_ONE_BY_ONE_MAX + 1)]
    created = cluster.turn(wanted(*(NewTopic(name=name, partition_count=2) for name in names)))
    offered = [(one.kind, one.key) for one in created.records if isinstance(one, WorkOffered)]
    assert offered == [("on_controller_failover", "")]

    looked_at: list[UUID] = []
    partitions_of_topic = Draft.partitions_of_topic

    def noted(draft: Draft, topic_id: UUID) -> Iterable[PartitionRow]:
        looked_at.append(topic_id)
        return partitions_of_topic(draft, topic_id)

    monkeypatch.setattr(Draft, "partitions_of_topic", noted)
    adopted = cluster.turn(ProposalsReady(1, Task.CONTROLLER_FAILOVER, "", ()))
    assert ORDERS not in looked_at, "it has had leaders for long"
    assert all(one.leader != -1 for one in cluster.state.rows.partitions.values())
    [answer] = [one for one in said(adopted, "link-1a") if isinstance(one, CreateTopicsAnswer)]
    assert [one.name for one in answer.topics] == names


def test_the_answer_leaves_at_the_timeout_of_the_request_if_nobody_leads_by_then() -> None:
    cluster = Cluster(settings=ControllerSettings(broker_session_timeout_ms=60_000))
    cluster.turn(wanted(NewTopic(name="clicks")))
    cluster.later(5_000)
    [answer] = said(cluster.turn(TimePassed()), "link-1a")
    assert isinstance(answer, CreateTopicsAnswer)
    assert answer.topics[0].error is ErrorCode.REQUEST_TIMED_OUT


def test_a_takeover_asks_a_worker_for_the_leaders_that_are_still_missing() -> None:
    cluster = Cluster()
    cluster.turn(wanted(NewTopic(name="clicks", partition_count=2)))
    decision = cluster.turn(TookOver(8))
    offered = [one.kind for one in decision.records if isinstance(one, WorkOffered)]
    assert offered == ["on_controller_failover"]
    assert decision.replies == ()
    assert not [one for one in decision.commands if hasattr(one, "frame")], "nothing before a hello"

    cluster.turn(ProposalsReady(2, Task.CONTROLLER_FAILOVER, "", ()))
    assert all(one.leader != -1 for one in cluster.state.rows.partitions.values())


def test_very_many_topics_are_told_in_several_frames_each_before_its_partitions() -> None:
    """Several requests are decided in one turn; a frame that no broker could read would cost every link."""
    cluster = Cluster()
    asked = wanted(*(NewTopic(name=f"topic-{number}", partition_count=1) for number in range(1_500)))
    frames = [one for one in said(cluster.turn(asked), "link-2a") if isinstance(one, Changes)]

    assert [(len(one.topics), one.complete) for one in frames] == [(1_000, False), (500, True)]
    told: set[UUID] = set()
    for frame in frames:
        told.update(topic.topic_id for topic in frame.topics)
        rows = (*frame.leader_and_isr, *frame.partitions)
        assert all(alike.topic_id in told for alike in rows)
    assert sum(len(frame.leader_and_isr) + len(frame.partitions) for frame in frames) == 1_500
