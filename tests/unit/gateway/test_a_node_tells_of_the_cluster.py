"""What a node tells of brokers, leaders and nodes follows the rows that it read, and what changed since."""

from collections.abc import Iterator
from uuid import UUID

from gateway.translation.cluster import (
    FailedLogs,
    KnownBroker,
    KnownCluster,
    KnownNode,
    KnownPartition,
    KnownTopic,
)
from kafkaserver.cluster_answers import PartitionView

ORDERS, CLICKS = UUID(int=1), UUID(int=2)
ONE, TWO = KnownBroker(1, "one:9092", ""), KnownBroker(2, "two:9093", "rack-b")
TOPICS = (KnownTopic("orders", ORDERS, 2), KnownTopic("clicks", CLICKS, 1))
FIRST = (
    KnownPartition(ORDERS, 0, (1, 2), 1, 3, (1, 2), 5),
    KnownPartition(ORDERS, 1, (2, 1), 2, 1, (2, 1), 5),
    KnownPartition(CLICKS, 0, (1,), 1, 1, (1,), 6),
)


def learnt() -> KnownCluster:
    known = KnownCluster()
    known.learn("a-cluster", (ONE, TWO), TOPICS, FIRST)
    return known


def test_brokers_topics_and_leaders_are_told() -> None:
    view = learnt().view((), {})
    assert view.cluster_id == "a-cluster"
    assert [(one.broker_id, one.host, one.port, one.rack) for one in view.brokers.values()] == [
        (1, "one", 9092, None),
        (2, "two", 9093, "rack-b"),
    ]
    assert view.partition("orders", 1) == PartitionView(2, 1, (2, 1), (2, 1))


def test_only_what_changed_is_read_again() -> None:
    known = learnt()
    assert known.version == 6
    known.learn("a-cluster", (ONE, TWO), TOPICS, [KnownPartition(ORDERS, 0, (1, 2), 2, 4, (2,), 7)])
    assert known.version == 7
    view = known.view((), {})
    assert view.partition("orders", 0) == PartitionView(2, 4, (1, 2), (2,))
    assert view.partition("clicks", 0) == PartitionView(1, 1, (1,), (1,))


def test_a_broker_that_died_is_in_sync_nowhere() -> None:
    known = learnt()
    known.learn("a-cluster", (ONE,), TOPICS, ())
    assert known.view((), {}).partition("orders", 1) == PartitionView(2, 1, (2, 1), (1,))


def test_a_log_that_failed_on_a_broker_that_lives_is_told_until_it_is_sound() -> None:
    known = learnt()
    before = known.topics["clicks"]
    failed = FailedLogs(2, ORDERS, (0, 1)), FailedLogs(1, ORDERS, (1,))
    known.learn("a-cluster", (ONE, TWO), TOPICS, (), failed)
    assert [one.failed for one in known.topics["orders"].partitions] == [(2,), (1, 2)]
    assert known.topics["clicks"] is before, "what is as it was is not made again"
    told = known.topics["orders"]
    known.learn("a-cluster", (ONE, TWO), TOPICS, (), tuple(reversed(failed)))
    assert known.topics["orders"] is told
    known.learn("a-cluster", (ONE, TWO), TOPICS, ())
    assert [one.failed for one in known.topics["orders"].partitions] == [(), ()]


def test_who_was_in_sync_last_is_told_where_nobody_leads() -> None:
    known = learnt()
    known.learn("a-cluster", (ONE,), TOPICS, [KnownPartition(ORDERS, 1, (2, 1), -1, 2, (2,), 7)])
    assert known.view((), {}).partition("orders", 1) == PartitionView(-1, 2, (2, 1), (2,))


def test_a_topic_that_grew_is_told_with_partitions_that_nobody_leads_yet() -> None:
    known = learnt()
    known.learn("a-cluster", (ONE, TWO), (KnownTopic("orders", ORDERS, 3), TOPICS[1]), ())
    assert known.view((), {}).partition("orders", 2) == PartitionView(-1, 0, (), ())


def test_a_topic_that_went_is_forgotten() -> None:
    known = learnt()
    known.learn("a-cluster", (ONE, TWO), TOPICS[:1], ())
    assert known.view((), {}).topics.keys() == {"orders"}
    known.learn("a-cluster", (ONE, TWO), TOPICS, ())
    assert known.view((), {}).partition("clicks", 0) == PartitionView(-1, 0, (), ())


def test_nodes_are_told_if_they_have_a_listener() -> None:
    nodes = (KnownNode(10_001, "127.0.0.1:9302"), KnownNode(10_002, ""))
    view = learnt().view(nodes, {7: 10_001})
    assert [(one.broker_id, one.port) for one in view.nodes.values()] == [(10_001, 9302)]
    assert view.owners == {7: 10_001}


def test_partitions_that_are_alike_have_one_view() -> None:
    known = KnownCluster()
    alike = [KnownPartition(ORDERS, number, (1, 2), 1, 3, (1, 2), 5 + number) for number in range(3)]
    known.learn("a-cluster", (ONE, TWO), (KnownTopic("orders", ORDERS, 4),), alike)
    first, second, third, fourth = known.topics["orders"].partitions
    assert first is second is third
    assert fourth == PartitionView(-1, 0, (), ())


def test_what_is_being_learnt_in_another_thread_is_not_told_before_all_of_it_is() -> None:
    known = learnt()
    told = []

    def topics() -> Iterator[KnownTopic]:
        for topic in TOPICS:
            told.append((known.metadata_version, known.view((), {}).partition("orders", 0)))
            yield topic

    before = known.metadata_version, known.view((), {}).partition("orders", 0)
    known.learn("a-cluster", (TWO,), topics(), [KnownPartition(ORDERS, 0, (1, 2), 2, 4, (2,), 7)], (), 7)
    assert told == [before, before]
    assert known.metadata_version == 7
    assert known.view((), {}).partition("orders", 0) == PartitionView(2, 4, (1, 2), (2,))
