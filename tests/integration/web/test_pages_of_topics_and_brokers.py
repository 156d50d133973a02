"""This room tests the pages of topics, brokers and reassignments: what they say, now and as of when."""

import re
from html import unescape
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from controller import fingerprints, standing
from controller.core.records import (
    PartitionsCreated,
    PartitionsRemoved,
    PossibleLoss,
    TopicDeleted,
    TurnStamped,
)
from controller.models import Broker, Partition, PartitionProgress, Reassignment, Topic
from muster.messages.link.rows import PartitionRow
from tests.integration.web import cast
from tests.integration.web.test_pages_say_what_is import text
from tests.unit.messages.made_rows import alone, changed

pytestmark = pytest.mark.django_db

PAGES = ("/topics/", "/topics/flights/", "/topics/flights/3/", "/brokers/", "/brokers/3/", "/reassignments/")


def test_a_topic_tells_leader_replicas_and_who_is_in_sync(viewer: Client) -> None:
    cast.one_night(groups=1)
    page = text(viewer, "/topics/gate-events/")
    assert "gate-events 1 offline 4 partitions" in page
    assert "gate-events-3 is offline" in page and "Broker 3 was" not in page
    assert "gate-events-3 none 3 0 of 1 3" in page
    assert "gate-events-0 4 4 3 1 of 2 4" in page and "one copy left" in page
    assert "Nothing is set for this topic" in page
    assert (
        'aria-label="Replicas: broker 4 leader; broker 3 out of sync"'
        in viewer.get("/topics/gate-events/").content.decode()
    )
    offline = text(viewer, "/topics/gate-events/?show=offline").partition("Under min ISR")[2]
    assert "gate-events-3" in offline and "gate-events-0" not in offline


def test_what_is_set_for_a_topic_is_shown(viewer: Client) -> None:
    cast.add_topic("orders", 1, [(1,)], configs={"retention.ms": "1000", "min.insync.replicas": "2"})
    assert "min.insync.replicas 2 retention.ms 1000" in text(viewer, "/topics/orders/")


def test_what_moves_is_told_on_the_pages_of_its_topic_and_its_brokers(viewer: Client) -> None:
    cast.one_night(groups=1)
    cast.move(Topic.objects.get(name="orders"), 0, (5, 2, 3))
    cast.move(Topic.objects.get(name="orders"), 1, (1, 5, 6), phase="Init")
    cast.move(Topic.objects.get(name="orders"), 2, (6, 1, 5), phase="Done")
    for address in ("/topics/orders/", "/brokers/5/", "/reassignments/"):
        page = text(viewer, address)
        assert "waits for broker 3, since" in page, address
        assert "−1 2 −4 +5 2 +3" in page, address
    page = text(viewer, "/reassignments/")
    assert "1 move cannot finish" in page and "1 waits for room, 1 cannot finish" in page
    assert "0 of 2" in page
    assert "Done 6 1 −2 6 1 +5" in page and "19m 0s" in page
    assert "waits for room" not in text(viewer, "/brokers/1/") or "orders" in text(viewer, "/brokers/1/")
    assert "Reassignments 1 waiting" in text(viewer, "/")
    Broker.objects.update(fenced=False, metadata_version=89_000)
    assert "1 partition moves" in text(viewer, "/reassignments/")
    assert "Reassignments 2 moving" in text(viewer, "/")


def test_a_broker_tells_what_it_holds_leads_and_lacks(viewer: Client) -> None:
    cast.one_night(groups=1)
    cast.journal("controller", "cluster", cast.ago(minutes=8), "broker 3 was silent", [], brokers_fenced=[3])
    page = text(viewer, "/brokers/3/")
    assert "Broker 3 Fenced broker epoch 203" in page
    assert "Broker 3 is fenced" in page
    assert "Leaders 0" in page and "Replicas 7" in page and "Out of sync 7" in page
    assert "10.0.3.11:9092" in page and "Rack c" in page
    assert "fenced broker 3 was silent" in page
    assert "gate-events-3" in page
    page = text(viewer, "/brokers/4/?show=leads")
    assert "gate-events-0" in page and "orders-1 4" in page and "orders-0" not in page
    assert "Nothing lately" in page


def test_a_broker_that_holds_nothing_or_never_came_says_so(viewer: Client) -> None:
    cast.add_broker(1)
    Broker.objects.create(broker_id=2, secret_hash=bytes(32))
    assert "It holds no replica New topics are placed on it" in text(viewer, "/brokers/1/")
    assert "Its process has not said hello yet" in text(viewer, "/brokers/2/")


def test_empty_lists_say_how_the_first_ones_come(viewer: Client) -> None:
    assert "manage.py enroll_broker 1" in text(viewer, "/brokers/")
    # Where nobody could hold one, none is to be created at the address of any broker.
    assert "No topics yet Brokers hold them: enroll the first one" in text(viewer, "/topics/")
    page = text(viewer, "/reassignments/")
    assert "Nothing moves" in page and "No move has ended yet" in page


def test_lists_tell_the_state_of_each_and_filter(viewer: Client) -> None:
    cast.one_night(groups=1)
    page = text(viewer, "/topics/")
    assert "1 partition offline" in page
    assert "gate-events 1 offline 4 2 1" in page
    assert "orders In full sync 12 3 12" in page
    assert "orders" not in text(viewer, "/topics/?show=offline")
    assert "No topic matches" in text(viewer, "/topics/?q=nothing")
    assert "1 broker fenced of 6" in text(viewer, "/brokers/")


def test_what_is_not_there_is_404_and_what_does_not_fit_400(viewer: Client) -> None:
    cast.add_broker(1)
    cast.add_topic("flights", 4, [(1,)])
    for address in (
        *("/topics/nobody/", "/topics/a%00b/", "/topics/flights/4/", f"/topics/flights/{2**40}/"),
        *("/topics/nobody/0/", "/brokers/2/", f"/brokers/{2**70}/"),
    ):
        assert viewer.get(address).status_code == 404, address
    for address in (
        *("/topics/?show=x", "/topics/?after=x", "/topics/?q=%00", "/topics/flights/?show=x"),
        *("/topics/flights/?from=-1", "/topics/flights/?as_of=x", "/topics/flights/?as_of=2026-13-41T00:00"),
        *("/topics/flights/?as_of=0001-01-01T00:00:00%2B14:00", "/topics/flights/?as_of=9999-12-31T23:59:59"),
        *("/topics/flights/0/?before=x", "/brokers/1/?show=x", "/reassignments/?after=x"),
    ):
        answer = viewer.get(address)
        assert answer.status_code == 400 and b"Begin at" in answer.content, address


def test_pages_want_a_session(client: Client) -> None:
    for address in PAGES:
        assert client.get(address).headers["Location"].startswith("/login/"), address


def test_partitions_are_walked_by_the_hundred_and_filters_stay(viewer: Client) -> None:
    cast.add_broker(1)
    cast.add_broker(2, fenced=True)
    cast.add_topic("orders", 250, [(1, 2)])
    for begin in ("/topics/orders/?show=attention", "/brokers/2/?show=out"):
        seen: list[str] = []
        address = begin
        while address:
            page = viewer.get(address).content.decode()
            seen += re.findall(r'<th scope="row" class="id named(?: rest)?" title="([^"]+)"', page)
            found = re.search(r'rel="next" href="([^"]+)"', page)
            address = begin.partition("?")[0] + unescape(found[1]).partition("#")[0] if found else ""
        assert seen == [f"orders-{number}" for number in range(250)], begin
    assert "Partitions 1 to 100 of 250." in text(viewer, "/topics/orders/?from=999999")


def test_topics_follow_each_other_without_gap_or_double(viewer: Client, monkeypatch: Any) -> None:
    monkeypatch.setattr("controller.topic_page.TOPICS_OF_A_PAGE", 2)
    cast.add_broker(1)
    names = [f"topic-{number}" for number in range(5)]
    for name in names:
        cast.add_topic(name, 1, [(1,)])
    seen, address = [], "/topics/?q=topic"
    while address:
        page = viewer.get(address).content.decode()
        seen += re.findall(r'class="clip rest"><a href="[^"]*" title="([^"]+)"', page)
        found = re.search(r'rel="next" href="([^"]+)"', page)
        address = "/topics/" + unescape(found[1]) if found else ""
    assert seen == names


def test_moves_that_ended_are_walked_too(viewer: Client, monkeypatch: Any) -> None:
    monkeypatch.setattr("controller.moves_page.ENDED_OF_A_PAGE", 2)
    topic = cast.add_topic("orders", 5, [(1, 2)])
    for number in range(5):
        cast.move(topic, number, (2, 3), phase="Done")
    seen, address = [], "/reassignments/"
    while address:
        page = viewer.get(address).content.decode()
        seen += re.findall(r'<th scope="row" class="id named(?: rest)?" title="([^"]+)"', page)
        found = re.search(r'href="(\?after=[^"]+)#past"', page)
        address = "/reassignments/" + unescape(found[1]) if found else ""
    assert seen == [f"orders-{number}" for number in (4, 3, 2, 1, 0)]


def test_moves_lead_to_their_partitions_while_these_are_there(viewer: Client) -> None:
    """Of all lists theirs alone led nowhere, and j and k, which go from link to link, did nothing there."""
    for broker in range(1, 5):
        cast.add_broker(broker)
    orders, gone = (cast.add_topic(name, 2, [(1, 2)]) for name in ("orders", "gone"))
    cast.move(orders, 0, (3, 2))
    cast.move(orders, 1, (4, 2), phase="Done")
    cast.move(gone, 1, (4, 2), phase="Done")
    Partition.objects.filter(topic=gone).delete()
    gone.delete()
    page = viewer.get("/reassignments/").content.decode()
    assert re.findall(r'<th scope="row"[^>]*><a href="(/topics/[^"]+)"', page) == [
        "/topics/orders/0/",
        "/topics/orders/1/",
    ]
    assert "gone-1" in text(viewer, "/reassignments/")


@pytest.mark.parametrize("address", ["/topics/", "/topics/orders-1/", "/brokers/1/", "/reassignments/"])
def test_a_page_asks_no_more_of_a_larger_cluster(viewer: Client, address: str) -> None:
    def asked() -> int:
        standing.forget()
        with CaptureQueriesContext(connection) as queries:
            text(viewer, address)
        return len(queries)

    for broker in (1, 2):
        cast.add_broker(broker)
    for number in (1, 2):
        cast.move(cast.add_topic(f"orders-{number}", 2, [(1,)]), 0, (2,))
    few = asked()
    for number in (3, 4, 5):
        topic = cast.add_topic(f"orders-{number}", 30, [(1,)])
        for partition in range(3):
            cast.move(topic, partition, (2,))
    assert asked() <= few


def turn(topic: Topic, version: int, minutes_ago: float, cause: str, *records: Any, **summary: Any) -> None:
    """A turn of the controller as the journal keeps it."""
    at = cast.ago(minutes=minutes_ago)
    told = [TurnStamped(version), *records]
    cast.journal("controller", "cluster", at, cause, told, metadata_version=version, **summary)


def past(topic: Topic) -> None:
    """Partition 0: made 60 minutes ago, elected again when 2 was lost, alone, offline 10 minutes ago."""

    def row(leader: int, epoch: int, isr: tuple[int, ...], version: int, number: int = 0) -> PartitionRow:
        return PartitionRow(topic.topic_id, number, (2, 1), leader, epoch, isr, version)

    made = (alone(row(2, 1, (2, 1), 100)), alone(row(2, 1, (2, 1), 100, number=1)))
    turn(topic, 100, 60, "topics were asked for", *(PartitionsCreated(one, 100) for one in made))
    loss = PossibleLoss(topic.topic_id, 0, 1, "broker 1 may lack records")
    turn(topic, 101, 30, "broker 2 was silent", changed(row(1, 2, (1,), 101), 100), loss)
    turn(topic, 102, 10, "broker 1 was silent", changed(row(-1, 2, (1,), 102), 101))
    rows = Partition.objects.filter(topic=topic, partition=0)
    rows.update(leader=-1, leader_epoch=2, isr=[1], version=102, changed_at=cast.ago(minutes=10))
    rows = Partition.objects.filter(topic=topic, partition=1)
    rows.update(leader=2, leader_epoch=1, isr=[2, 1], version=100, changed_at=cast.ago(minutes=60))
    Topic.objects.update(created_at=cast.ago(minutes=60))


def test_what_became_of_a_partition_is_told_change_by_change(viewer: Client) -> None:
    past(cast.add_topic("orders", 2, [(2, 1)]))
    page = text(viewer, "/topics/orders/0/")
    told = ("leader 1 → none broker 1 was silent", "leader 2 → 1; ISR lost 2 committed records may be lost")
    places = [page.index(words) for words in (*told, "created topics were asked for")]
    assert places == sorted(places)
    assert "broker 1 may lack records" in page
    assert "created" not in text(viewer, "/topics/orders/0/?before=99").partition("What became of it")[2]


def test_a_topic_is_shown_as_it_was_at_any_moment(viewer: Client) -> None:
    past(cast.add_topic("orders", 2, [(2, 1)]))
    cast.add_broker(1)

    def as_of(minutes: float) -> str:
        at = cast.ago(minutes=minutes).strftime("%Y-%m-%dT%H:%M:%S")
        page = viewer.get(f"/topics/orders/?as_of={at}").content.decode()
        assert "data-watch" not in page and 'class="past"' in page and "Back to now" in page
        return text(viewer, f"/topics/orders/?as_of={at}")

    assert "orders-0 none 2 1 1 of 2 1" in as_of(5)
    assert "orders-0 1 2 1 1 of 2 1" in as_of(20) and "orders-1 2 2 1 2 of 2 2, 1" in as_of(20)
    assert "orders-0 2 2 1 2 of 2 2, 1" in as_of(45)
    assert "The topic was not there yet" in as_of(90)


def test_what_was_removed_since_is_shown_as_it_was(viewer: Client) -> None:
    """Partition 1 was removed 5 minutes ago, and another one has its number since 2 minutes ago."""
    topic = cast.add_topic("orders", 2, [(2, 1)])
    past(topic)
    gone = PartitionsRemoved(topic.topic_id, "orders", 1, 1, (100,))
    turn(topic, 103, 5, "partitions were to be removed", gone, topics_shrunk=["orders"])
    at = cast.ago(minutes=20).strftime("%Y-%m-%dT%H:%M:%S")
    for partitions_now in (1, 2):
        Partition.objects.filter(topic=topic, partition=1).delete()
        Topic.objects.update(partition_count=partitions_now)
        if partitions_now == 2:
            Partition.objects.create(
                topic=topic,
                partition=1,
                assigned=[1],
                leader=1,
                leader_epoch=9,
                isr=[1],
                base_epoch=8,
                version=104,
            )
        page = text(viewer, f"/topics/orders/?as_of={at}")
        assert "orders-1 2 2 1 2 of 2 2, 1" in page, partitions_now
        assert "removed" in page
        assert "/topics/orders/1/" not in viewer.get(f"/topics/orders/?as_of={at}").content.decode()
    assert "orders-1 2 2 1" not in text(viewer, f"/topics/orders/?as_of={later()}")


def later() -> str:
    """A minute ago."""
    return cast.ago(minutes=1).strftime("%Y-%m-%dT%H:%M:%S")


def test_a_topic_that_was_deleted_since_is_shown_as_it_was(viewer: Client) -> None:
    topic = cast.add_topic("orders", 2, [(2, 1)])
    past(topic)
    gone = TopicDeleted(topic.topic_id, "orders", 2, (102, 100))
    turn(topic, 103, 5, "topics were to be deleted", gone, topics_deleted=["orders"])
    topic.partitions.all().delete()
    topic.delete()
    at = cast.ago(minutes=20).strftime("%Y-%m-%dT%H:%M:%S")
    page = text(viewer, f"/topics/orders/?as_of={at}")
    assert "This topic was deleted" in page and "All topics" in page
    assert "orders-0 1 2 1 1 of 2 1" in page and "orders-1 2 2 1 2 of 2 2, 1" in page
    assert viewer.get(f"/topics/orders/?as_of={later()}").status_code == 404, "it was not there any more"
    assert viewer.get("/topics/orders/").status_code == 404
    assert viewer.get(f"/topics/clicks/?as_of={at}").status_code == 404
    assert "orders, as it was" in text(viewer, "/journal/"), "and the journal leads there"

    cast.add_topic("orders", 1, [(1,)])
    page = text(viewer, f"/topics/orders/?as_of={at}")
    assert "another one has its name now" in page and "orders-1 2 2 1 2 of 2 2, 1" in page


def test_of_a_removal_from_before_versions_were_kept_nothing_is_made_up(viewer: Client) -> None:
    topic = cast.add_topic("orders", 1, [(2, 1)])
    gone = {"record": "TopicDeleted", "topic_id": str(topic.topic_id), "name": "orders", "partition_count": 1}
    cast.journal("controller", "cluster", cast.ago(minutes=5), "deleted", [gone], topics_deleted=["orders"])
    topic.partitions.all().delete()
    topic.delete()
    at = cast.ago(minutes=20).strftime("%Y-%m-%dT%H:%M:%S")
    assert "orders-0 N/A the journal no longer tells, deleted" in text(viewer, f"/topics/orders/?as_of={at}")


def test_a_past_that_the_journal_forgot_is_not_made_up(viewer: Client) -> None:
    cast.add_topic("orders", 1, [(1,)])
    Topic.objects.update(created_at=cast.ago(days=60))
    page = text(viewer, "/topics/orders/?as_of=2020-01-01T00:00:00")
    assert "was not there yet" in page
    at = cast.ago(days=30).strftime("%Y-%m-%dT%H:%M:%S")
    assert "orders-0 N/A the journal no longer tells" in text(viewer, f"/topics/orders/?as_of={at}")
    assert "The journal no longer tells" in text(viewer, "/topics/orders/0/")


def test_the_walk_into_the_past_is_bounded_and_by_index(viewer: Client) -> None:
    topic = cast.add_topic("orders", 3, [(2, 1)])
    past(topic)
    at = cast.ago(minutes=45).strftime("%Y-%m-%dT%H:%M:%S")
    with CaptureQueriesContext(connection) as asked:
        viewer.get(f"/topics/orders/?as_of={at}")
    walked = [one["sql"] for one in asked if "'metadata_version')::bigint = ANY" in one["sql"]]
    assert len(walked) == 3, "one question for each change that was walked back, for all partitions together"
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute("EXPLAIN " + walked[0])
        assert "journal_by_metadata_version" in str(cursor.fetchall())


def test_a_change_of_what_the_pages_show_is_seen() -> None:
    topic = cast.add_topic("orders", 2, [(1, 2)])
    cast.add_cluster()
    changes = (
        lambda: Partition.objects.filter(partition=1).update(version=99_000),
        lambda: PartitionProgress.objects.filter(partition__partition=1).update(high_watermark=9),
        lambda: Topic.objects.update(metadata_version=99_001),
        lambda: cast.move(topic, 0, (1, 3), phase="Init"),
        lambda: Reassignment.objects.update(phase="Cancelled"),
        lambda: cast.add_broker(1),
    )
    for change in changes:
        before = fingerprints.of_topics(["orders"])
        change()
        assert fingerprints.of_topics(["orders"]) != before, change
    assert fingerprints.of_topics(["nobody"]) == {}
