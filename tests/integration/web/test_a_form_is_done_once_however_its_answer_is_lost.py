"""A form that nobody answered is offered again as it was; sent again it is done once, whatever it changed."""

import re
from collections.abc import Iterator
from html import unescape
from uuid import UUID

import msgspec
import pytest
from django.db import connections
from django.test import Client
from django.utils import timezone

from access.grants import Role
from access.service import create_user
from controller.models import ElectionLoss, Plan, Topic
from groups.models import ConsumerGroup
from muster.messages.link.configs import ConfigResult, ConfigResults, ResourceType
from runtime import asking
from runtime.models import WorkItem
from standalone.postgres import Postgres
from tests.integration.web import cast
from tests.integration.web.served import closed

PLAN = UUID("5ab0e8a1-3c55-4a1c-8a2f-0d8c3f1c9c11")


def reset() -> None:
    ConsumerGroup.objects.filter(name="departures").update(version=99)


def delete_group() -> None:
    ConsumerGroup.objects.filter(name="departures").delete()


def approve() -> None:
    Plan.objects.filter(pk=PLAN).update(phase="Approved", version=8)


def change_configs() -> None:
    Topic.objects.filter(name="flights").update(configs={"retention.ms": "3600000"}, metadata_version=99_000)


def delete_topic() -> None:
    Topic.objects.filter(name="flights").delete()


def drain() -> None:
    """A worker computes the plan: no row of the form's is another."""


FORMS = {
    "reset offsets": ("/ask/reset_offsets/departures/", {"to": "earliest", "scope": "flights:0"}, reset),
    "delete a group": ("/ask/delete_group/departures/", {"confirm": "departures"}, delete_group),
    "approve a plan": (f"/cluster/ask/plan-approve/plan/{PLAN}/", {}, approve),
    "drain a broker": ("/cluster/ask/propose-plan/", {"kind": "drain", "brokers": "3"}, drain),
    "change configs": (
        "/cluster/ask/change-configs/topic/flights/",
        {"config.retention.ms": "3600000"},
        change_configs,
    ),
    "delete a topic": ("/cluster/ask/delete-topic/topic/flights/", {"confirm": "flights"}, delete_topic),
}


def judged(row: WorkItem) -> WorkItem:
    """What is only to be judged would be done; nobody answers the rest yet."""
    if row.payload.get("wish", {}).get("validate_only"):
        said = ConfigResults(results=(ConfigResult(type=int(ResourceType.TOPIC), name="flights"),))
        row.state, row.result, row.adopted_at = "adopted", msgspec.to_builtins(said), timezone.now()
    return row


@pytest.fixture
def olga(fresh_database: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    """An operator's browser, and a group, a topic, a plan and a broker to do something to."""
    monkeypatch.setattr(asking, "_answered", judged)
    cast.add_cluster()
    for broker in (1, 2, 3):
        cast.add_broker(broker)
    cast.add_topic("flights", 2, [(1, 2), (2, 3)])
    cast.add_group("departures", phase="Empty")
    Plan.objects.create(
        id=PLAN,
        kind="drain",
        options={"kind": "drain", "brokers": [3]},
        phase="Draft",
        at_a_time=100,
        version=7,
        proposed_version=5,
    )
    client = Client(raise_request_exception=False)
    client.force_login(create_user("olga", Role.OPERATOR, None))
    yield client


def fields(page: bytes) -> dict[str, str]:
    """What a form would send as it is."""
    found = re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', page.decode())
    return {name: unescape(value) for name, value in found}


@pytest.mark.parametrize("form", FORMS)
def test_it_is_offered_again_and_done_once(olga: Client, postgres_server: Postgres, form: str) -> None:
    address, stated, carry_out = FORMS[form]
    sent = {**fields(olga.get(address).content), **stated, "reason": 'for "all"', "go": "yes"}
    with closed(postgres_server, str(connections["default"].settings_dict["NAME"])):
        page = olga.post(address, sent)
        assert page.status_code == 503 and b"What you sent was not answered" in page.content
    offered = fields(page.content)
    assert offered == sent
    taken = olga.post(address, offered)
    assert taken.status_code == 302, taken.content.decode()
    carry_out()
    again = olga.post(address, offered)
    assert (again.status_code, again.headers.get("Location")) == (302, taken.headers["Location"])
    assert WorkItem.objects.exclude(idempotency_key=None).count() == 1


def test_a_form_that_fails_by_a_mistake_of_ours_is_offered_again(olga: Client) -> None:
    """It was called a page that could not be read, and what was typed was lost."""
    topic = Topic.objects.get(name="flights")
    facts = {"leader_epoch": 7, "leader": 2, "isr": [1], "committed": 9, "reason": "unclean", "version": 7}
    loss = ElectionLoss.objects.create(topic_id=topic.topic_id, topic_name="flights", partition=0, **facts)
    address = f"/cluster/ask/acknowledge-loss/loss/{loss.id}/"
    sent = {**fields(olga.get(address).content), "reason": 'for "all"'}
    ElectionLoss.objects.update(cuts=["not what a turn writes"])
    page = olga.post(address, sent)
    assert page.status_code == 500 and b"What you sent was not answered" in page.content
    assert b"It failed on our side." in page.content and fields(page.content) == sent
    looked = olga.get(address)
    assert looked.status_code == 500 and b"The page could not be read" in looked.content


def test_a_form_that_meets_the_schema_of_another_version_is_offered_again(olga: Client) -> None:
    """An older web process behind a migration: what was typed was lost."""
    address = f"/cluster/ask/plan-approve/plan/{PLAN}/"
    sent = {**fields(olga.get(address).content), "reason": 'for "all"', "go": "yes"}
    with connections["default"].cursor() as cursor:
        cursor.execute("ALTER TABLE plan RENAME COLUMN at_a_time TO at_once")
    page = olga.post(address, sent)
    assert page.status_code == 503 and b"schema of another version" in page.content
    assert b"/readyz says what is missing" in page.content
    assert b"What you sent was not answered" in page.content and fields(page.content) == sent
    looked = olga.get(address)
    assert looked.status_code == 503 and b"/readyz says what is missing" in looked.content
    with connections["default"].cursor() as cursor:
        cursor.execute("ALTER TABLE plan RENAME COLUMN at_once TO at_a_time")
    assert olga.post(address, sent).status_code == 302
