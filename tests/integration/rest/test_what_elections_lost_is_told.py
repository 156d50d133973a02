"""REST tells what elections lost; operators acknowledge it; a bounded token hears of its topics alone."""

import pytest
from django.test import Client
from django.utils import timezone

from access.grants import Role
from access.service import create_token
from controller.models import ElectionLoss
from runtime.models import WorkItem
from tests.integration.rest.conftest import Caller
from tests.integration.web import cast

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def story() -> None:
    """An election of orders-0 lost 75 records, one of clicks-1 nobody knows how many."""
    orders, clicks = cast.add_topic("orders", 1, [(1, 2)]), cast.add_topic("clicks", 2, [(2, 3)])
    alike = {"leader_epoch": 7, "leader": 2, "reason": "unclean election", "version": 30}
    ElectionLoss.objects.create(
        topic_id=orders.topic_id,
        topic_name="orders",
        partition=0,
        isr=[1],
        committed=1_000,
        start_offset=940,
        told_at=timezone.now(),
        cuts=[[1, 1_015, 940, -1, 7_500]],
        acknowledged_at=timezone.now(),
        acknowledged_by="olga",
        **alike,
    )
    ElectionLoss.objects.create(topic_id=clicks.topic_id, topic_name="clicks", partition=1, isr=[3], **alike)


def test_losses_are_listed_newest_first_filtered_and_paged(viewer: Caller) -> None:
    newest, oldest = viewer.get("losses").json()["items"]
    assert (newest["topic"], newest["lost"], newest["waits_for"]) == ("clicks", None, [3])
    assert (oldest["topic"], oldest["lost"], oldest["waits_for"]) == ("orders", 60, [])
    [cut] = oldest["cuts"]
    assert (cut["broker_id"], cut["records"], cut["high_watermark"]) == (1, 75, None)
    first = viewer.get("losses?limit=1").json()
    rest = viewer.get(f"losses?limit=1&cursor={first['next']}").json()
    assert [*first["items"], *rest["items"]] == [newest, oldest] and rest["next"] is None
    for query, found in (("topic=orders", [oldest]), ("state=open", [newest]), ("partition=1", [newest])):
        assert viewer.get(f"losses?{query}").json()["items"] == found, query
    assert viewer.get("losses?state=lost").status_code == 400


def test_what_a_log_held_that_nobody_could_read_is_told_as_not_known(viewer: Caller) -> None:
    ElectionLoss.objects.filter(topic_name="clicks").update(cuts=[[3, -1, -1, -1, -1]])
    row = viewer.get("losses?topic=clicks").json()["items"][0]
    [cut] = row["cuts"]
    assert (cut["broker_id"], cut["end_offset"], cut["cut_to"], cut["records"]) == (3, None, None, None)
    assert row["waits_for"] == []


def test_a_bounded_token_is_told_of_its_topics_alone_and_acknowledges_no_others() -> None:
    token = create_token("olga", Role.OPERATOR, topics=["clicks"], groups=["*"])
    client, headers = Client(raise_request_exception=False), {"Authorization": f"Bearer {token}"}
    rows = client.get("/api/v1/losses", headers=headers).json()["items"]
    assert [one["topic"] for one in rows] == ["clicks"]
    assert client.get("/api/v1/losses?topic=orders", headers=headers).status_code == 403
    named = {"topic": "orders", "partition": 0, "leader_epoch": 7, "version": None}
    body = {"losses": [named], "reason": "seen"}
    refused = client.post("/api/v1/losses", body, content_type="application/json", headers=headers)
    assert refused.status_code == 403


def test_an_operator_asks_the_controller_and_a_viewer_may_not(
    viewer: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runtime.asking.WAIT_S", 0.1)
    token = create_token("olga", Role.OPERATOR)
    client = Client(raise_request_exception=False)
    named = {"topic": "clicks", "partition": 1, "leader_epoch": 7, "version": 30}
    body = {"losses": [named], "reason": "seen"}
    asked = client.post(
        "/api/v1/losses",
        body,
        content_type="application/json",
        headers={"Authorization": f"Bearer {token}", "Idempotency-Key": "one"},
    )
    assert asked.status_code == 202 and asked.json()["kind"] == "AcknowledgeLosses"
    assert WorkItem.objects.filter(principal="olga").count() == 1
    bare = {"losses": [], "reason": "seen"}
    olga = {"Authorization": f"Bearer {token}"}
    empty = client.post("/api/v1/losses", bare, content_type="application/json", headers=olga)
    assert empty.status_code == 400
    assert viewer.send("POST", "losses").status_code == 403
