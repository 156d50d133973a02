"""REST tells how brokers are: disks, logs in trouble, clients that wait; to a bounded token its topics'."""

import pytest
from django.test import Client

from access.grants import Role
from access.service import create_token
from controller.models import BrokerCondition, Partition, PartitionProgress, Topic
from tests.integration.rest.conftest import Caller
from tests.integration.web import cast

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def story() -> None:
    """Broker 2 has a full disk, a log that failed and one that was damaged; olga waits there."""
    for broker in (1, 2, 3):
        cast.add_broker(broker)
    orders, clicks = cast.add_topic("orders", 3, [(1, 2)]), cast.add_topic("clicks", 2, [(2, 3)])
    cast.say(2, 5, throttled=[cast.waits("till", user="olga")], throttled_more=2)
    cast.note_log(2, orders, 1, "offline", "EIO")
    cast.note_log(2, orders, 2, "mended", "cut at 5")
    cast.note_log(3, clicks, 0, "damaged", "cut at 9")


def test_a_brokers_condition_is_told(viewer: Caller) -> None:
    answer = viewer.get("brokers/2/condition")
    told = answer.json()
    assert told["disk"]["usable_bytes"] == 5 and told["disk"]["short_since"]
    assert (told["logs_offline"], told["logs_damaged"], told["throttled_more"]) == (1, 0, 2)
    (waiting,) = told["throttled"]
    assert (waiting["user"], waiting["client_id"], waiting["wait_ms"]) == ("olga", "till", 812)
    silent = viewer.get("brokers/1/condition").json()
    assert (silent["said_at"], silent["disk"], silent["throttled"]) == (None, None, [])
    assert viewer.get("brokers/9/condition").status_code == 404
    BrokerCondition.objects.filter(broker_id=2).update(at=cast.ago(seconds=-1))
    assert viewer.get("brokers/2/condition")["ETag"] != answer["ETag"]


def test_what_brokers_lead_and_hold_is_listed(viewer: Caller) -> None:
    row = Partition.objects.get(topic__name="orders", partition=0)
    row.isr = [1]
    row.save()
    PartitionProgress.objects.update_or_create(
        partition=row, defaults={"high_watermark": 9, "size_bytes": 700, "at": cast.ago(minutes=1)}
    )
    told = ("leaders", "replicas", "out_of_sync", "size_bytes")
    cast.add_broker(4)
    rows = {one["broker_id"]: [one[key] for key in told] for one in viewer.get("brokers").json()["items"]}
    sizes = [PartitionProgress.objects.filter(partition__assigned__contains=[one]) for one in (1, 2, 3)]
    said = [sum(one.size_bytes or 0 for one in rows) or None for rows in sizes]
    assert rows == {1: [3, 3, 0, said[0]], 2: [2, 5, 1, said[1]], 3: [0, 2, 0, said[2]], 4: [0, 0, 0, None]}
    assert [one[key] for one in viewer.get("brokers?limit=1").json()["items"] for key in told] == rows[1]
    assert viewer.get("partitions/orders/0").json()["size_bytes"] == 700


def test_a_bounded_token_is_not_told_what_brokers_hold(viewer: Caller) -> None:
    bounded = Caller(create_token("olga", Role.VIEWER, topics=["orders"]))
    told = bounded.get("brokers").json()["items"]
    assert [one["broker_id"] for one in told] == [1, 2, 3]
    assert {one[key] for one in told for key in ("leaders", "replicas", "out_of_sync", "size_bytes")} == {
        None
    }


def test_logs_in_trouble_are_listed_filtered_and_paged(viewer: Caller) -> None:
    rows = viewer.get("logs").json()["items"]
    assert [(one["topic"], one["partition"], one["broker_id"], one["state"]) for one in rows] == [
        ("clicks", 0, 3, "damaged"),
        ("orders", 1, 2, "offline"),
        ("orders", 2, 2, "mended"),
    ]
    first = viewer.get("logs?limit=2").json()
    rest = viewer.get(f"logs?limit=2&cursor={first['next']}").json()
    assert first["items"] + rest["items"] == rows and rest["next"] is None
    assert [one["why"] for one in viewer.get("logs?broker=2&state=offline").json()["items"]] == ["EIO"]
    assert viewer.get("logs?topic=clicks").json()["items"] == rows[:1]


def test_partitions_name_their_offline_and_damaged_replicas(viewer: Caller) -> None:
    told = {one["partition"]: one for one in viewer.get("partitions?topic=orders").json()["items"]}
    assert [told[number]["offline_replicas"] for number in range(3)] == [[], [2], []]
    one = viewer.get("partitions/clicks/0")
    assert (one.json()["offline_replicas"], one.json()["damaged_replicas"]) == ([], [3])
    assert viewer.get("topics/orders/partitions").json()["items"][1]["offline_replicas"] == [2]


def test_partitions_name_the_members_of_their_isr_that_lag(viewer: Caller) -> None:
    orders, clicks = Topic.objects.get(name="orders"), Topic.objects.get(name="clicks")
    before = viewer.get("partitions/orders/0")["ETag"]
    cast.lags(orders, 0, 1, 2)
    cast.lags(clicks, 0, 3, 2)
    cast.lags(orders, 2, 1, 3)
    one = viewer.get("partitions/orders/0")
    assert (one.json()["isr"], one.json()["lagging_replicas"]) == ([1, 2], [2]) and one["ETag"] != before
    short = viewer.get("partitions?state=under-replicated").json()["items"]
    told = [(row["topic"], row["partition"], row["lagging_replicas"]) for row in short]
    assert told == [("orders", 0, [2])], "nor who does not lead clicks, nor of whom has left the ISR"


def test_a_bounded_token_is_told_of_its_topics_alone() -> None:
    token = create_token("olga", Role.VIEWER, topics=["clicks"], groups=["*"])
    client, headers = Client(raise_request_exception=False), {"Authorization": f"Bearer {token}"}
    rows = client.get("/api/v1/logs", headers=headers).json()["items"]
    assert [one["topic"] for one in rows] == ["clicks"]
    assert client.get("/api/v1/logs?topic=orders", headers=headers).status_code == 403
    assert client.get("/api/v1/brokers/2/condition", headers=headers).status_code == 403
