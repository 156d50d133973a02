"""REST tells what pages tell of the past: who led and who was in sync at a moment, and what became of it."""

import uuid
from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone

from controller.core.records import TopicDeleted
from controller.models import Partition
from runtime import cluster, succession
from runtime.succession import LIFT
from tests.integration.rest.conftest import Caller
from tests.integration.web import cast
from tests.integration.web.test_pages_of_topics_and_brokers import past, turn

pytestmark = pytest.mark.django_db


def at(minutes: float) -> str:
    """So many minutes ago, without a zone."""
    return cast.ago(minutes=minutes).strftime("%Y-%m-%dT%H:%M:%S")


def test_a_topic_is_told_as_it_was_at_any_moment(viewer: Caller) -> None:
    past(cast.add_topic("orders", 2, [(2, 1)]))

    def as_of(moment: str) -> list[tuple[object, ...]]:
        rows = viewer.get(f"topics/orders/history?as_of={moment}").json()["items"]
        return [(row["state"], row["leader"], row["leader_epoch"], row["isr"]) for row in rows]

    stays = ("known", 2, 1, [2, 1])
    assert as_of(at(5)) == [("known", None, 2, [1]), stays]
    assert as_of(f"{at(20)}Z") == [("known", 1, 2, [1]), stays]
    assert as_of(at(45)) == [stays, stays]
    assert as_of(at(90)) == [("not-created", None, None, [])] * 2
    now = viewer.get("topics/orders/history").json()["items"]
    assert [(row["leader"], row["version"]) for row in now] == [(None, 102), (2, 100)]


def test_the_present_is_told_as_it_is_by_a_host_whose_clock_is_behind(
    viewer: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    past(cast.add_topic("orders", 2, [(2, 1)]))
    behind = timezone.now() - timedelta(minutes=45)
    monkeypatch.setattr(timezone, "now", lambda: behind)
    now = viewer.get("topics/orders/history").json()["items"]
    assert [(row["leader"], row["version"]) for row in now] == [(None, 102), (2, 100)]


def test_nobody_is_told_what_will_be(viewer: Caller) -> None:
    """A moment that has not come was answered by what is now, as known then."""
    past(cast.add_topic("orders", 2, [(2, 1)]))
    assert viewer.get(f"topics/orders/history?as_of={at(-0.5)}").status_code == 200, "a clock that is ahead"
    for minutes in (-2, -60 * 24 * 400):
        answer = viewer.get(f"topics/orders/history?as_of={at(minutes)}")
        assert answer.status_code == 400 and "has not come yet" in answer.json()["detail"]


def test_a_topic_that_was_deleted_since_is_told_as_it_was(viewer: Caller) -> None:
    topic = cast.add_topic("orders", 2, [(2, 1)])
    topic_id = str(topic.topic_id)
    past(topic)
    gone = TopicDeleted(topic.topic_id, "orders", 2, (102, 100))
    turn(topic, 103, 5, "topics were to be deleted", gone, topics_deleted=["orders"])
    topic.partitions.all().delete()
    topic.delete()
    rows = viewer.get(f"topics/orders/history?as_of={at(20)}").json()["items"]
    assert [(row["partition"], row["leader"], row["isr"]) for row in rows] == [(0, 1, [1]), (1, 2, [2, 1])]
    assert all(row["removed_at"] and row["topic_id"] == topic_id for row in rows)
    for address in ("topics/orders/history", f"topics/orders/history?as_of={at(1)}", "topics/x/history"):
        assert viewer.get(address).status_code == 404, address


def test_the_partitions_of_a_moment_follow_each_other_page_by_page(viewer: Caller) -> None:
    cast.add_topic("orders", 5, [(1,)])
    seen, cursor, moment = [], "", at(0)
    while True:
        page = viewer.get(f"topics/orders/history?as_of={moment}&limit=2{cursor}").json()
        seen += [row["partition"] for row in page["items"]]
        if not page["next"]:
            break
        cursor = f"&cursor={page['next']}"
    assert seen == [0, 1, 2, 3, 4]


def test_what_became_of_a_partition_is_told_newest_first(viewer: Caller) -> None:
    past(cast.add_topic("orders", 2, [(2, 1)]))
    page = viewer.get("partitions/orders/0/history?limit=2").json()
    told = [(row["version"], row["leader"], row["isr"], row["cause"]) for row in page["items"]]
    assert told == [(102, None, [1], "broker 1 was silent"), (101, 1, [1], "broker 2 was silent")]
    assert [row["loss"] for row in page["items"]] == ["", "broker 1 may lack records"]
    page = viewer.get(f"partitions/orders/0/history?limit=2&cursor={page['next']}").json()
    assert [row["cause"] for row in page["items"]] == ["topics were asked for"] and page["next"] is None


def test_what_was_before_a_restore_is_told_behind_it(viewer: Caller) -> None:
    past(cast.add_topic("orders", 2, [(2, 1)]))
    Partition.objects.filter(partition=1).update(leader=1, leader_epoch=2)
    with connection.cursor() as cursor:
        cluster.initialise(cursor.connection, uuid.uuid4(), [])
        cursor.execute("UPDATE cluster SET metadata_version = 102")
        succession.adopt(cursor.connection, "node-1")

    def as_of(moment: str) -> list[tuple[object, ...]]:
        asked = f"?as_of={moment}" if moment else ""
        rows = viewer.get(f"topics/orders/history{asked}").json()["items"]
        return [(row["state"], row["leader"], row["leader_epoch"], row["isr"]) for row in rows]

    lifted = ("known", None, 2 + LIFT)
    assert as_of("") == [(*lifted, [1]), (*lifted, [2, 1])]
    assert as_of(at(5)) == [("known", None, 2, [1]), ("known", 2, 1, [2, 1])]
    assert as_of(at(45)) == [("known", 2, 1, [2, 1])] * 2
    told = viewer.get("partitions/orders/0/history").json()["items"]
    assert [(row["version"], row["leader_epoch"]) for row in told] == [
        (102 + LIFT, 2 + LIFT),
        (102, 2),
        (101, 2),
        (100, 1),
    ]
    assert told[0]["cause"].startswith("PostgreSQL was restored:")


def test_what_cannot_be_told_is_refused(viewer: Caller, stranger: Caller) -> None:
    cast.add_topic("orders", 1, [(1,)])
    for moment in ("x", "2026-13-41T00:00", "0001-01-01T00:00:00%2B14:00", "9999-12-31T23:59:59"):
        answer = viewer.get(f"topics/orders/history?as_of={moment}")
        assert answer.status_code == 400 and "must be a time like" in answer.json()["detail"], moment
    for address in (
        "partitions/orders/1/history",
        "partitions/x/0/history",
        "partitions/orders/4294967296/history",
    ):
        assert viewer.get(address).status_code == 404, address
    assert stranger.get("topics/orders/history").status_code == 401
