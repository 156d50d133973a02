"""REST tells what needs a person in the words of the overview, most urgent first, and to whom it concerns."""

from typing import Any

import pytest
from django.test import Client

from access.grants import Role
from access.service import create_token
from controller.models import Broker, Partition
from groups import standing
from tests.integration.web import cast

pytestmark = pytest.mark.django_db


def told(*, groups: list[str] | None = None, topics: list[str] | None = None, **asked: Any) -> dict[str, Any]:
    token = create_token("vera", Role.VIEWER, topics=topics or [], groups=groups or [], replace=True)
    answer = Client().get("/api/v1/findings", asked, headers={"Authorization": f"Bearer {token}"})
    assert answer.status_code == 200
    body: dict[str, Any] = answer.json()
    return body


@pytest.fixture
def trouble() -> None:
    """Broker 3 is fenced, and two groups have an error."""
    standing.forget()
    cast.add_cluster()
    for broker in (1, 2, 3):
        cast.add_broker(broker)
    cast.add_topic("orders", 1, [(1, 2)])
    Broker.objects.filter(broker_id=3).update(fenced=True, changed_at=cast.ago(seconds=500))
    for name in ("payments", "team-a"):
        cast.add_group(name, error="INVALID_ASSIGNMENT <b>")


def test_each_has_kind_words_and_since(trouble: None) -> None:
    items = told()["items"]
    assert {one["kind"] for one in items} == {"broker_fenced", "group_error"}
    fenced = next(one for one in items if one["kind"] == "broker_fenced")
    assert (fenced["what"], fenced["severity"]) == ("Broker 3 is fenced", "warning")
    assert "no session with it" in fenced["because"] and "Start the broker process again" in fenced["may"]
    of_group = next(one for one in items if one["groups"] == ["team-a"])
    assert of_group["because"] == "INVALID_ASSIGNMENT <b>"


def test_pages_of_it_are_whole(trouble: None) -> None:
    first = told(limit=2)
    rest = told(limit=2, cursor=first["next"])
    assert [*first["items"], *rest["items"]] == told()["items"] and rest["next"] is None


def test_a_token_that_names_bound_is_told_of_its_groups_alone(trouble: None) -> None:
    assert [one["groups"] for one in told(groups=["team-*"])["items"]] == [["team-a"]]
    assert told(groups=["team-*"], topics=["orders"])["items"] == []


def test_names_stand_in_full_however_long(trouble: None) -> None:
    """A page leaves their middles out; a program could not look them up."""
    long = "orders-" * 30
    cast.add_topic(long, 5, [(3, 2)])
    Partition.objects.filter(topic__name=long).update(leader=-1, isr=[3])
    [offline] = [one for one in told()["items"] if one["kind"] == "partitions_offline"]
    assert f"{long}-0, {long}-1, {long}-2, {long}-3 and 1 more" in offline["means"]
