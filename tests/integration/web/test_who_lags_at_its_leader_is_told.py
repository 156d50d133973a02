"""Live followers that lag, so that their leader refuses acks=all: pages tell them by its word."""

import pytest
from django.test import Client

from controller import queries
from controller.fingerprints import of_cluster, of_health, of_topics
from controller.models import Partition
from tests.integration.web import cast
from tests.integration.web.test_findings_say_since_when_and_contradict_nothing import found, words
from tests.integration.web.test_pages_say_what_is import text

pytestmark = pytest.mark.django_db


def test_followers_that_live_and_lag_are_the_cause_by_the_word_of_their_leader(viewer: Client) -> None:
    """The floor keeps them in the ISR, and by the rows nothing is wrong."""
    began = cast.ago(minutes=3)
    for broker_id in (1, 2, 3):
        cast.add_broker(broker_id)
    orders = cast.add_topic("orders", 6, [(1, 2), (3, 2)], configs={"min.insync.replicas": "2"})
    assert found() == {}
    for number, leader in enumerate((1, 3, 1, 3, 1)):
        cast.lags(orders, number, leader, 2, since=began)
    cast.lags(orders, 5, 1, 2)
    told = found()
    assert set(told) == {"partitions_under_min_isr"}, "were a leader lost, 2 would lead: it is in the ISR"
    assert told["partitions_under_min_isr"].since == began
    facts = told["partitions_under_min_isr"].facts
    assert (facts["number"], facts["missing"]) == (5, [2]), "3 leads the last, and is silent"
    said = words("partitions_under_min_isr")
    assert "orders-0, orders-1, orders-2, orders-3 and 1 more. Out of sync: broker 2." in said
    assert "Broker 2 is there and does not keep up with broker 1, which leads, and says so." in said
    assert "log of broker 2 (cannot follow) whether it reaches broker 3 at 10.0.3.11:9093." in said
    assert "fenced" not in said
    page = viewer.get("/cluster/", {"show": "under-min-isr"}).content.decode()
    assert 'href="/topics/orders/0/"' in page and "under min ISR, broker 2 lags" in page
    assert "5 partitions under-replicated" in text(viewer, "/cluster/")
    assert "1 of 2 in sync" in text(viewer, "/topics/orders/1/")
    assert "2 of 2 in sync" in text(viewer, "/topics/orders/5/")
    (second,) = [row for row in queries.brokers() if row.broker.broker_id == 2]
    assert (second.replicas, second.out_of_sync) == (6, 5)
    assert queries.count_on([1, 2, 3], 2)[2] == 5
    assert len(queries.partitions_on([1, 2, 3], 2, "out", 0, 10)) == 5


def test_one_copy_is_left_where_who_lags_is_all_that_lives_beside_nobody() -> None:
    for broker_id in (1, 2):
        cast.add_broker(broker_id)
    cast.add_broker(3, fenced=True)
    three = cast.add_topic("three", 2, [(1, 2, 3)], configs={"min.insync.replicas": "2"})
    Partition.objects.filter(topic=three, partition=1).update(isr=[1, 3])
    cast.lags(three, 0, 1, 2)
    told = found()
    assert (told["partitions_under_min_isr"].facts["number"], queries.health([1, 2]).one_copy) == (2, 1)
    assert told["partitions_one_copy"].facts["names"] == ["three-1"]


def test_since_when_is_counted_partition_by_partition() -> None:
    """Those of a topic that are alike are judged together: one changed early, another lagged early."""
    for broker_id in (1, 2):
        cast.add_broker(broker_id)
    orders = cast.add_topic("orders", 2, [(1, 2)], configs={"min.insync.replicas": "2"})
    for number, (changed, lagged) in enumerate(((600, 1), (5, 60))):
        Partition.objects.filter(topic=orders, partition=number).update(changed_at=cast.ago(minutes=changed))
        cast.lags(orders, number, 1, 2, since=cast.ago(minutes=lagged))
    assert queries.health([1, 2]).since == found()["partitions_under_min_isr"].since


def test_who_left_the_isr_since_is_told_by_the_row_alone() -> None:
    """The leader looks now and then: what it said of a replica that was moved away counts no more."""
    for broker_id in (1, 2, 3):
        cast.add_broker(broker_id)
    orders = cast.add_topic("orders", 1, [(1, 3)], configs={"min.insync.replicas": "2"})
    cast.lags(orders, 0, 1, 2)
    assert found() == {}
    (row,) = queries.partitions_on([1, 2, 3], 1, "all", 0, 10)
    assert (row.in_sync, row.lagging, row.note) == (2, [], "")


def test_a_page_follows_who_lags() -> None:
    cast.add_broker(1)
    orders = cast.add_topic("orders", 2, [(1, 2)])
    before = of_cluster(), of_topics(["orders"])
    cast.lags(orders, 0, 1, 2)
    after = of_cluster(), of_topics(["orders"])
    assert before[0] != after[0] and before[1] != after[1]
    assert of_health(before[0]) != of_health(after[0]), "how safe the data is is counted anew"


def test_who_died_and_who_lags_are_missed_once_each() -> None:
    cast.add_broker(1)
    cast.add_broker(2, fenced=True, since=(lost := cast.ago(minutes=3)))
    cast.add_broker(3)
    orders = cast.add_topic("orders", 1, [(1, 2, 3)], configs={"min.insync.replicas": "2"})
    cast.lags(orders, 0, 1, 3, since=(lags := cast.ago(minutes=2)))
    finding = found()["partitions_under_min_isr"]
    assert (finding.since, finding.facts["missing"]) == (lags, [2, 3])
    assert queries.health([1, 3]).since == lost
    told = words("partitions_under_min_isr")
    assert "Broker 2 is fenced. Broker 3 is there and does not keep up with broker 1" in told
