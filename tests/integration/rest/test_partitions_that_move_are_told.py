"""A partition that moves is not in trouble while it copies, and its reassignment is listed, newest first."""

from uuid import uuid4

import pytest
from django.test import Client

from access.grants import Role
from access.service import create_user
from controller import queries
from controller.models import Partition, Reassignment
from tests.integration.rest.conftest import Caller
from tests.integration.web import cast

pytestmark = pytest.mark.django_db


def moving() -> Partition:
    """`orders-0` on its way from brokers 1 and 2 to 3 and 2, which is all that moves."""
    for broker_id in (1, 2, 3):
        cast.add_broker(broker_id)
    topic = cast.add_topic("orders", 2, [(1, 2)])
    row = Partition.objects.get(topic=topic, partition=0)
    row.assigned, row.adding, row.removing = [3, 2, 1], [3], [1]
    row.save()
    return row


def test_what_is_being_added_owes_nothing(viewer: Caller) -> None:
    row = moving()
    assert viewer.get("partitions?state=under-replicated").json()["items"] == []
    health = queries.health([1, 2, 3])
    assert (health.under_replicated, health.under_min_isr, health.one_copy) == (0, 0, 0)
    assert [one.out_of_sync for one in queries.brokers()] == [0, 0, 0]
    row.isr = [1]
    row.save()
    assert [one["partition"] for one in viewer.get("partitions?state=under-replicated").json()["items"]] == [
        0
    ]
    assert queries.health([1, 2, 3]).one_copy == 1


def test_the_page_of_the_cluster_says_where_it_goes(client: Client) -> None:
    moving()
    client.force_login(create_user("mira", Role.VIEWER, None))
    page = client.get("/cluster/?open=orders").content.decode()
    assert "moves: 3 is added, 1 leaves" in page
    assert "under-replicated" not in page.partition('id="topics"')[2].partition("moves:")[0].lower()


def test_reassignments_are_listed_newest_first(viewer: Caller) -> None:
    for version, phase in ((7, "Done"), (8, "InProgress"), (8, "Init")):
        Reassignment.objects.create(
            topic_id=uuid4(),
            topic_name="orders",
            partition=0,
            origin=[1, 2],
            target=[3, 2],
            phase=phase,
            asked_version=version,
            asked_place=1 + (phase == "Init"),
            version=version,
        )
    first = viewer.get("reassignments?limit=2").json()
    assert [one["phase"] for one in first["items"]] == ["InProgress", "Init"]
    rest = viewer.get(f"reassignments?limit=2&cursor={first['next']}")
    assert [one["phase"] for one in rest.json()["items"]] == ["Done"]
    assert viewer.get("reassignments?phase=Gone").status_code == 400
